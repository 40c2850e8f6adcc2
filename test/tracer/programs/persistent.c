/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent requests of every mode, started alone and together, mixed with others, waited for while inactive, freed. */
#include <mpi.h>

enum { N = 6, BYTES = 500 };
static char out[N][BYTES], in[N][BYTES];

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank, size, flag, index, count, indices[2 * N];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    static char attached[2 * BYTES + MPI_BSEND_OVERHEAD];
    MPI_Buffer_attach(attached, sizeof attached);

    MPI_Request requests[2 * N];
    for (int i = 0; i < N; i++)
        MPI_Recv_init(in[i], BYTES, MPI_BYTE, i == 4 ? MPI_PROC_NULL : i == 3 ? MPI_ANY_SOURCE : left, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Send_init(out[0], 10, MPI_BYTE, right, 0, MPI_COMM_WORLD, &requests[N]);
    MPI_Ssend_init(out[1], BYTES, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[N + 1]);
    MPI_Bsend_init(out[2], 7, MPI_BYTE, right, 2, MPI_COMM_WORLD, &requests[N + 2]);
    MPI_Send_init(out[3], 9, MPI_INT, right, 3, MPI_COMM_WORLD, &requests[N + 3]);
    MPI_Send_init(out[4], 9, MPI_INT, MPI_PROC_NULL, 4, MPI_COMM_WORLD, &requests[N + 4]);
    MPI_Rsend_init(out[5], 5, MPI_BYTE, right, 5, MPI_COMM_WORLD, &requests[N + 5]);

    MPI_Waitall(2 * N, requests, MPI_STATUSES_IGNORE); /* none is active */
    for (int round = 0; round < 30; round++) {
        if (round % 2)
            MPI_Startall(N, requests);
        else
            for (int i = 0; i < N; i++) MPI_Start(&requests[i]);
        MPI_Barrier(MPI_COMM_WORLD); /* for the ready send */
        MPI_Startall(N, requests + N);
        switch (round % 5) {
            case 0:
                MPI_Waitall(2 * N, requests, MPI_STATUSES_IGNORE);
                break;
            case 1:
                do MPI_Waitany(2 * N, requests, &index, MPI_STATUS_IGNORE);
                while (index != MPI_UNDEFINED);
                break;
            case 2:
                for (int i = 0; i < 2 * N; i++)
                    for (flag = 0; !flag;) MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
                break;
            case 3:
                do MPI_Testsome(2 * N, requests, &count, indices, MPI_STATUSES_IGNORE);
                while (count != MPI_UNDEFINED);
                break;
            case 4:
                for (flag = 0; !flag;) MPI_Testall(2 * N, requests, &flag, MPI_STATUSES_IGNORE);
                break;
        }
    }
    for (int i = 0; i < 2 * N; i++) MPI_Request_free(&requests[i]);

#if MPI_VERSION >= 4
    MPI_Request all;
    int one = 1, sum = 0;
    MPI_Allreduce_init(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &all);
    for (int i = 0; i < 5; i++) {
        MPI_Start(&all);
        MPI_Wait(&all, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&all);
    MPI_Request both;
    MPI_Isendrecv(out[0], 0, MPI_BYTE, right, 50, in[0], BYTES, MPI_BYTE, left, 50, MPI_COMM_WORLD, &both);
    MPI_Wait(&both, MPI_STATUS_IGNORE);
#endif
    void* detached;
    int detached_size;
    MPI_Buffer_detach(&detached, &detached_size);
    MPI_Finalize();
    return 0;
}
