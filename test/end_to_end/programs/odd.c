/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends otherwise than it should: odd never | late | abort | threads N */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_barrier_t all;

static void* call(void* unused) {
    int sum, one = 1;
    pthread_barrier_wait(&all); /* all at once, so that each needs a place of its own */
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    pthread_barrier_wait(&all);
    return unused;
}

int main(int argc, char** argv) {
    const char* how = argc > 1 ? argv[1] : "";
    int rank, provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 100; i++) MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(how, "never")) return 0;
    if (!strcmp(how, "abort")) MPI_Abort(MPI_COMM_WORLD, 7);
    if (!strcmp(how, "threads")) {
        const int n = argc > 2 ? atoi(argv[2]) : 1;
        pthread_t* threads = malloc((size_t)n * sizeof *threads);
        if (provided < MPI_THREAD_MULTIPLE || !threads) return 77;
        pthread_barrier_init(&all, NULL, (unsigned)n);
        for (int i = 0; i < n; i++) pthread_create(&threads[i], NULL, call, NULL);
        for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
        free(threads);
    }
    MPI_Finalize();
    if (!strcmp(how, "late")) MPI_Barrier(MPI_COMM_WORLD);
    printf("done %d\n", rank);
    return 0;
}
