/* SPDX-License-Identifier: BSD-3-Clause */
/* Several threads of each rank in MPI at once: blocking, non-blocking, each on a communicator of its own and all on one. threads [ROUNDS] */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, N = 8 };
static int rank, size, rounds = 300;
static MPI_Comm comms[THREADS];

static void* work(void* argument) {
    const int t = *(int*)argument;
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    char out[64] = "", in[N][64];
    for (int i = 0; i < rounds; i++) {
        MPI_Request requests[2 * N];
        for (int k = 0; k < N; k++) {
            MPI_Irecv(in[k], 64, MPI_BYTE, left, t * N + k, MPI_COMM_WORLD, &requests[k]);
            MPI_Isend(out, 1 + k + t, MPI_BYTE, right, t * N + k, MPI_COMM_WORLD, &requests[N + k]);
        }
        if (i % 2) {
            MPI_Waitall(2 * N, requests, MPI_STATUSES_IGNORE);
        } else {
            int index;
            do MPI_Waitany(2 * N, requests, &index, MPI_STATUS_IGNORE);
            while (index != MPI_UNDEFINED);
        }
        int sum;
        MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, comms[t]);
        MPI_Sendrecv(out, 8, MPI_BYTE, right, 1000 + t, in[0], 8, MPI_BYTE, left, 1000 + t, comms[t], MPI_STATUS_IGNORE);
    }
    return NULL;
}

int main(int argc, char** argv) {
    int provided;
    if (argc > 1) rounds = atoi(argv[1]);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (provided < MPI_THREAD_MULTIPLE) {
        if (rank == 0) fprintf(stderr, "this MPI gives no MPI_THREAD_MULTIPLE\n");
        MPI_Finalize();
        return 77;
    }
    for (int t = 0; t < THREADS; t++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]);
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int t = 1; t < THREADS; t++) {
        numbers[t] = t;
        pthread_create(&threads[t], NULL, work, &numbers[t]);
    }
    numbers[0] = 0;
    work(&numbers[0]);
    for (int t = 1; t < THREADS; t++) pthread_join(threads[t], NULL);
    for (int t = 0; t < THREADS; t++) MPI_Comm_free(&comms[t]);
    MPI_Finalize();
    return 0;
}
