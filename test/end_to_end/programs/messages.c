/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many short MPI calls: each rank sends COUNT empty messages to itself. Then it writes the CPU time of those calls, in nanoseconds, to
 * FOLDER/<rank>.
 *
 *     messages COUNT FOLDER
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long long cpu_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 3) MPI_Abort(MPI_COMM_WORLD, 2);
    const long long before = cpu_time();
    for (long left = atol(argv[1]); left > 0; left--) {
        MPI_Request requests[2];
        MPI_Irecv(NULL, 0, MPI_CHAR, 0, 0, MPI_COMM_SELF, &requests[0]);
        MPI_Isend(NULL, 0, MPI_CHAR, 0, 0, MPI_COMM_SELF, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    const long long used = cpu_time() - before;
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", argv[2], rank);
    FILE* file = fopen(path, "w");
    if (file) {
        fprintf(file, "%lld\n", used);
        fclose(file);
    }
    MPI_Finalize();
    return 0;
}
