/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads whose regions begin and end while MPI_Finalize ends the trace, and two that have their first one about then. */
#include <mpi.h>
#include <polter.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { EARLY = 2, LATE = 2 };
static atomic_int begun, at_end, over;

static void* early(void* unused) {
    begun++;
    while (!over) {
        POLTER_REGION("known");
        polter_region_begin("by name");
        polter_region_end("by name");
    }
    return unused;
}
static void* late(void* unused) {
    begun++;
    while (!at_end) continue;
    return early(unused);
}

int main(int argc, char** argv) {
    pthread_t threads[EARLY + LATE];
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    for (int i = 0; i < EARLY + LATE; i++) pthread_create(&threads[i], NULL, i < EARLY ? early : late, NULL);
    while (begun < EARLY + LATE) continue;
    at_end = 1;
    MPI_Finalize();
    over = 1;
    for (int i = 0; i < EARLY + LATE; i++) pthread_join(threads[i], NULL);
    puts("done");
    return 0;
}
