/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI program with OpenMP: parallel regions in which each thread, pinned to the CPU of its number, has the same work; between them an
 * Allreduce. Rank 0 prints one JSON line: the time of all regions, their number, the threads.
 *
 *     hybrid REGIONS WORK [static|dynamic|barrier|grow]
 *
 * dynamic: the work is handed out in 16 pieces for each thread. barrier: a barrier halves each region. grow: teams of all sizes in turn, so
 * that the runtime ends threads and makes new ones.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <omp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static uint64_t work(int amount) {
    volatile uint64_t x = 1;
    for (int i = 0; i < amount; i++) x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}

int main(int argc, char** argv) {
    const int regions = argc > 1 ? atoi(argv[1]) : 100, amount = argc > 2 ? atoi(argv[2]) : 1000000;
    const char* kind = argc > 3 ? argv[3] : "static";
    const int cpus = omp_get_num_procs(), threads = omp_get_max_threads();
    int rank, provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (threads <= cpus && strcmp(kind, "grow") != 0) {
#pragma omp parallel
        pin((rank * threads + omp_get_thread_num()) % cpus);
    }
    uint64_t sum = 0, all = 0;
    const double began = MPI_Wtime();
    for (int r = 0; r < regions; r++) {
        if (strcmp(kind, "dynamic") == 0) {
#pragma omp parallel for schedule(dynamic) reduction(+ : sum)
            for (int i = 0; i < 16 * threads; i++) sum += work(amount / 16);
        } else if (strcmp(kind, "barrier") == 0) {
#pragma omp parallel reduction(+ : sum)
            {
                sum += work(amount / 2);
#pragma omp barrier
                sum += work(amount / 2);
            }
        } else {
            const int size = strcmp(kind, "grow") == 0 ? 1 + r % threads : threads;
#pragma omp parallel num_threads(size) reduction(+ : sum)
            sum += work(amount);
        }
        MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    }
    const double took = MPI_Wtime() - began;
    if (rank == 0)
        printf("{\"seconds\": %.6f, \"regions\": %d, \"threads\": %d, \"sum\": %llu}\n", took, regions, threads, (unsigned long long)all);
    MPI_Finalize();
    return 0;
}
