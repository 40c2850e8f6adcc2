/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions of a program and MPI_Pcontrol, with known counts. Each rank has, between MPI_Init and MPI_Finalize:
 *   "steps" once, "step" ten times in it, "scoped" ten times in each "step" (100), "named 0" and "named 1" five times each;
 *   "unclosed" once, which is never ended; "outer" and "inner" once, ended by "outer" alone; one end of "never began", which is nothing.
 * With MPI_Pcontrol(0): "dark" three times, which are not in the trace; MPI_Get_version in it is not either, a message is.
 */
#include <mpi.h>
#include <polter.h>
#include <stdio.h>

static void scoped(void) {
    POLTER_REGION("scoped");
    volatile int work = 0;
    for (int i = 0; i < 100; i++) work += i;
}

static void exchange(int rank, int size) {
    int mine = rank, other = -1;
    MPI_Sendrecv(&mine, 1, MPI_INT, (rank + 1) % size, 1, &other, 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
    int rank, size, version, subversion;
    POLTER_REGION_BEGIN("before"); /* not traced: nothing is before MPI_Init */
    POLTER_REGION_END("before");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    POLTER_REGION_BEGIN("steps");
    for (int i = 0; i < 10; i++) {
        char name[] = "named 0";
        name[6] += i % 2;
        POLTER_REGION_BEGIN("step");
        for (int k = 0; k < 10; k++) scoped();
        polter_region_begin(name);
        exchange(rank, size);
        polter_region_end(name);
        POLTER_REGION_END("step");
    }
    POLTER_REGION_END("steps");

    MPI_Pcontrol(0);
    for (int i = 0; i < 3; i++) {
        POLTER_REGION("dark");
        MPI_Get_version(&version, &subversion);
        exchange(rank, size);
    }
    MPI_Pcontrol(1);
    MPI_Get_version(&version, &subversion);
    MPI_Pcontrol(2);
    MPI_Pcontrol(7, "what a tool may want");

    POLTER_REGION_END("never began");
    POLTER_REGION_BEGIN("outer");
    POLTER_REGION_BEGIN("inner");
    POLTER_REGION_END("outer");
    POLTER_REGION_BEGIN("unclosed");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    POLTER_REGION_BEGIN("after");
    POLTER_REGION_END("after");
    printf("rank %d of %d done\n", rank, size);
    return 0;
}
