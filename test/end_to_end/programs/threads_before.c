/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI program with three threads that it starts before MPI_Init: one that sleeps, one that computes, and one that computes and has
 * regions of the program behind MPI_Init. It prints "done".
 */
#include <mpi.h>
#include <polter.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

static atomic_int initialised, over;
static const struct timespec millisecond = {0, 1000000}, long_time = {0, 100000000};

static void* sleeps(void* unused) {
    while (!over) nanosleep(&long_time, NULL);
    return unused;
}
static void* computes(void* unused) {
    while (!over) continue;
    return unused;
}
static void* has_regions(void* unused) {
    while (!over)
        if (initialised) {
            POLTER_REGION("on an early thread");
            for (volatile int i = 0; i < 100000; i++) continue;
        }
    return unused;
}

int main(int argc, char** argv) {
    void* (*functions[])(void*) = {sleeps, computes, has_regions};
    pthread_t threads[3];
    int provided;
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, functions[i], NULL);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    initialised = 1;
    for (int i = 0; i < 200; i++) nanosleep(&millisecond, NULL);
    MPI_Finalize();
    over = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    puts("done");
    return 0;
}
