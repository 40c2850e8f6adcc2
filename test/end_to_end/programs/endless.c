/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends a ring of messages until it is killed. Once a second's worth has been sent each rank writes its process id to FOLDER/<rank>.
 *
 *     endless FOLDER
 */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double start = MPI_Wtime();
    for (int told = argc < 2;;) {
        int out = rank, in;
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
