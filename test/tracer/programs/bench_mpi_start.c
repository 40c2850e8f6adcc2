/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What starting and ending MPI takes, and nothing else: each rank writes one JSON line to FILE.<process id>. `wall_ns`: from before
 * MPI_Init to after MPI_Finalize; `cpu_ns`: of the process since it began, with the loading of libraries.
 *
 *     bench_mpi_start FILE
 */
#include <mpi.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

int main(int argc, char** argv) {
    const long long begin = now_ns(CLOCK_MONOTONIC);
    char path[4096];
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    const long long wall = now_ns(CLOCK_MONOTONIC) - begin, cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (argc != 2 || snprintf(path, sizeof path, "%s.%d", argv[1], (int)getpid()) >= (int)sizeof path) return 2;
    FILE* file = fopen(path, "w");
    if (!file) return 1;
    fprintf(file, "{\"wall_ns\":%lld,\"cpu_ns\":%lld}\n", wall, cpu);
    return fclose(file) ? 1 : 0;
}
