/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What starting and ending MPI takes, and nothing else: each rank writes one JSON line to FILE.<process id>. `wall_ns`: from before
 * MPI_Init to after MPI_Finalize; `cpu_ns`: of the process since it began, with the loading of libraries; `init_ns`, `finalize_ns`: of
 * these calls alone.
 *
 *     bench_mpi_start FILE [apart]       apart: each rank passes for a host with a clock of its own
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* As the launcher would say it of the only rank of a node. */
static void pass_for_a_host(void) {
    const char* number = getenv("OMPI_COMM_WORLD_RANK");
    char clock[64];
    snprintf(clock, sizeof clock, "clock%s", number ? number : getenv("PMI_RANK"));
    setenv("POLTER_CLOCK", clock, 1);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "1", 1);
    setenv("MPI_LOCALRANKID", "0", 1);
    setenv("MPI_LOCALNRANKS", "1", 1);
}

int main(int argc, char** argv) {
    if (argc == 3) pass_for_a_host();
    const long long begin = now_ns(CLOCK_MONOTONIC);
    char path[4096];
    MPI_Init(&argc, &argv);
    const long long up = now_ns(CLOCK_MONOTONIC);
    MPI_Finalize();
    const long long end = now_ns(CLOCK_MONOTONIC), wall = end - begin, cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (argc < 2 || snprintf(path, sizeof path, "%s.%d", argv[1], (int)getpid()) >= (int)sizeof path) return 2;
    FILE* file = fopen(path, "w");
    if (!file) return 1;
    fprintf(file, "{\"wall_ns\":%lld,\"cpu_ns\":%lld,\"init_ns\":%lld,\"finalize_ns\":%lld}\n", wall, cpu, up - begin, end - up);
    return fclose(file) ? 1 : 0;
}
