/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a parallel region and a barrier take, for OMP_NUM_THREADS threads that are pinned to one CPU each: one JSON line a case,
 * nanoseconds, the median over the repetitions. Run it with and without the tracer in turn.
 *
 *     bench_openmp [ROUNDS]      a repetition
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPETITIONS = 21 };
static int rounds = 20000;
static volatile int nothing;

static int ascending(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return x < y ? -1 : x > y;
}

static void show(const char* name, double* times) {
    qsort(times, REPETITIONS, sizeof *times, ascending);
    printf("{\"case\": \"%s\", \"ns_per_call\": %.1f, \"least\": %.1f}\n", name, times[REPETITIONS / 2], times[0]);
}

int main(int argc, char** argv) {
    double times[REPETITIONS];
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    if (argc > 1 && atoi(argv[1]) > 0) rounds = atoi(argv[1]);
#pragma omp parallel
    {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(omp_get_thread_num() % omp_get_num_procs(), &set);
        sched_setaffinity(0, sizeof set, &set);
    }
    for (int r = -1; r < REPETITIONS; r++) {
        const double start = MPI_Wtime();
        for (int i = 0; i < rounds; i++) {
#pragma omp parallel
            nothing = 1;
        }
        if (r >= 0) times[r] = (MPI_Wtime() - start) / rounds * 1e9;
    }
    show("region", times);
    for (int r = -1; r < REPETITIONS; r++) {
        double start = 0;
#pragma omp parallel
        {
#pragma omp barrier
#pragma omp master
            start = MPI_Wtime();
            for (int i = 0; i < rounds; i++) {
#pragma omp barrier
            }
        }
        if (r >= 0) times[r] = (MPI_Wtime() - start) / rounds * 1e9;
    }
    show("barrier", times);
    MPI_Finalize();
    return 0;
}
