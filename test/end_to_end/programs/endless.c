/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends a ring of messages, some thousands a second, until it is killed. Before that it makes AT_ONCE calls as fast as it can, which fill
 * the tracer's buffers. Once a second has passed each rank writes its process id to FOLDER/<rank>.
 *
 *     endless FOLDER [AT_ONCE]
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double start = MPI_Wtime();
    for (long left = argc > 2 ? atol(argv[2]) : 0; left > 0; left--) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const struct timespec pause = {0, 200000};
    for (int told = argc < 2;;) {
        int out = rank, in;
        nanosleep(&pause, NULL);
        MPI_Sendrecv(&out, 1, MPI_INT, (rank + 1) % size, 0, &in, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (told || MPI_Wtime() - start < 1.0) continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/%d", argv[1], rank);
        FILE* file = fopen(path, "w");
        if (file) {
            fprintf(file, "%d\n", (int)getpid());
            fclose(file);
        }
        told = 1;
    }
}
