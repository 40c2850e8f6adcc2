/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI program with OpenMP: parallel regions in which each thread, pinned to the CPU of its number, has the same work; between them an
 * Allreduce. Rank 0 prints one JSON line: the time of all regions, their number, the threads.
 *
 *     hybrid REGIONS WORK [static|dynamic|barrier|grow|critical|lock|tasks]
 *
 * dynamic: the work is handed out in 16 pieces for each thread. barrier: a barrier halves each region. grow: teams of all sizes in turn, so
 * that the runtime ends threads and makes new ones. critical, lock: half of the work under two critical sections, or under a lock and a
 * nested lock. tasks: four tasks for each thread, made by the master, two waits for them, one of them in a task that makes two more.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pinned_work.h"

static omp_lock_t lock;
static omp_nest_lock_t nested;

/* Each lock and each critical section has a sum of its own, which nothing else writes. */
static void in_turn(uint64_t sums[2], int amount, int by_lock) {
    const uint64_t own = work(amount / 2);
    if (by_lock) {
        omp_set_lock(&lock);
        sums[0] += own + work(amount / 4);
        omp_unset_lock(&lock);
        omp_set_nest_lock(&nested);
        omp_set_nest_lock(&nested);
        sums[1] += work(amount / 4);
        omp_unset_nest_lock(&nested);
        omp_unset_nest_lock(&nested);
        while (!omp_test_lock(&lock)) {
        }
        omp_unset_lock(&lock);
        return;
    }
#pragma omp critical
    sums[0] += own + work(amount / 4);
#pragma omp critical(named)
    sums[1] += work(amount / 4);
}

static void with_tasks(uint64_t* sum, int amount, int threads) {
    for (int i = 0; i < 4 * threads - 3; i++) {
        const uint64_t factor = (uint64_t)i;
#pragma omp task firstprivate(factor)
        {
            const uint64_t own = factor * work(amount / 4);
#pragma omp atomic
            *sum += own;
        }
    }
#pragma omp taskwait
#pragma omp task
    {
        for (int i = 0; i < 2; i++)
#pragma omp task
        {
            const uint64_t own = work(amount / 4);
#pragma omp atomic
            *sum += own;
        }
#pragma omp taskwait
    }
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
        } else if (strcmp(kind, "critical") == 0 || strcmp(kind, "lock") == 0) {
            const int by_lock = strcmp(kind, "lock") == 0;
            omp_init_lock(&lock);
            omp_init_nest_lock(&nested);
            uint64_t sums[2] = {0, 0};
#pragma omp parallel
            in_turn(sums, amount, by_lock);
            sum += sums[0] + sums[1];
            omp_destroy_lock(&lock);
            omp_destroy_nest_lock(&nested);
        } else if (strcmp(kind, "tasks") == 0) {
#pragma omp parallel
            {
#pragma omp master
                with_tasks(&sum, amount, threads);
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
