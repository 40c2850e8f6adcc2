/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocking sends and receives of every mode, sizes from nothing to far above the eager limit, wildcards, derived types, MPI_PROC_NULL. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20 };

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char* out = calloc(1, MOST);
    char* in = calloc(1, MOST);
    void* attached = malloc(4 * MOST);
    int attached_size = 4 * MOST;
    MPI_Buffer_attach(attached, attached_size);
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;

    for (int bytes = 0; bytes <= MOST; bytes = bytes ? bytes * 8 : 1) {
        /* Even ranks send first; with an odd size the last and the first are both even, so a buffered send opens the ring. */
        MPI_Status status;
        MPI_Bsend(out, bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD);
        MPI_Recv(in, MOST, MPI_BYTE, left, 1, MPI_COMM_WORLD, &status);
        for (int mode = 0; mode < 2; mode++) {
            if (rank == 0) {
                for (int peer = 1; peer < size; peer++) {
                    if (mode)
                        MPI_Ssend(out, bytes, MPI_BYTE, peer, 2 + mode, MPI_COMM_WORLD);
                    else
                        MPI_Send(out, bytes, MPI_BYTE, peer, 2 + mode, MPI_COMM_WORLD);
                }
            } else {
                MPI_Recv(in, MOST, MPI_BYTE, 0, 2 + mode, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }
        }
        /* To rank 0 from anybody, with any tag. */
        if (rank != 0) MPI_Send(out, bytes, MPI_CHAR, 0, rank, MPI_COMM_WORLD);
        for (int i = 1; rank == 0 && i < size; i++)
            MPI_Recv(in, MOST, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, i % 2 ? &status : MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Sendrecv(out, bytes, MPI_BYTE, right, 9, in, MOST, MPI_BYTE, left, 9, MPI_COMM_WORLD, &status);
        MPI_Sendrecv_replace(in, bytes, MPI_BYTE, left, 10, right, 10, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }

    /* A ready send needs its receive to be there. */
    MPI_Request request;
    MPI_Irecv(in, 100, MPI_INT, left, 20, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Rsend(out, 77, MPI_INT, right, 20, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);

    /* A type with holes: 3 doubles of every 5. */
    MPI_Datatype holes;
    MPI_Type_vector(10, 3, 5, MPI_DOUBLE, &holes);
    MPI_Type_commit(&holes);
    MPI_Sendrecv(out, 4, holes, right, 21, in, 120, MPI_DOUBLE, left, 21, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Type_free(&holes);

    for (int i = 0; i < 10; i++) {
        MPI_Send(out, 10, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
        MPI_Recv(in, 10, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv(out, 8, MPI_BYTE, i % 2 ? right : MPI_PROC_NULL, 30, in, 8, MPI_BYTE, i % 2 ? left : MPI_PROC_NULL, 30, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
    MPI_Sendrecv(out, 8, MPI_BYTE, rank ? MPI_PROC_NULL : size - 1, 31, in, 8, MPI_BYTE, rank == size - 1 ? 0 : MPI_PROC_NULL, 31,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Buffer_detach(&attached, &attached_size);
    MPI_Finalize();
    return 0;
}
