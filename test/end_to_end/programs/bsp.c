/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bulk-synchronous program: each phase is a fixed amount of work, then an Allreduce or an exchange with the neighbours. Each rank is
 * pinned to a CPU of its own.
 *
 *     bsp PHASES WORK [SLACK_RANK PART [BYTES]]     WORK: rounds of arithmetic a phase; SLACK_RANK does only PART percent of them;
 *                                                   BYTES: of each message to a neighbour; 0: an Allreduce
 *
 * Rank 0 says in one JSON object, in the file BSP_RESULT or else on standard output: the elapsed time of the phases, and what the
 * kernel says of each rank since its start (run delay, ns, from /proc/self/schedstat; process ids).
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long long run_delay(void) {
    long long on_cpu, delay = -1;
    FILE* file = fopen("/proc/self/schedstat", "r");
    if (!file || fscanf(file, "%lld %lld", &on_cpu, &delay) != 2) delay = -1;
    if (file) fclose(file);
    return delay;
}

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static volatile double sink;
static void work(long rounds) {
    double x = 1.0;
    for (long i = 0; i < rounds; i++) x = x * 1.0000001 + 1e-9;
    sink = x;
}

/* The n-th of the CPUs that this process may use. */
static void pin(int n) {
    cpu_set_t allowed, one;
    sched_getaffinity(0, sizeof allowed, &allowed);
    n %= CPU_COUNT(&allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || n-- > 0) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

/* A launcher that gives its processes a session of their own takes away the place that the test has got (see go_first there). */
static void keep_first(void) {
    if (!getenv("BSP_GO_FIRST")) return;
    FILE* file = fopen("/proc/self/autogroup", "w");
    if (!file) return;
    fputs("-20", file);
    fclose(file);
}

/* To the right and from the left, in turn by Sendrecv and by requests. */
static void exchange(char* in, char* out, int bytes, int rank, int size, long phase) {
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    if (phase % 2) {
        MPI_Sendrecv(out, bytes, MPI_CHAR, right, 0, in, bytes, MPI_CHAR, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    MPI_Request requests[2];
    MPI_Irecv(in, bytes, MPI_CHAR, left, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, bytes, MPI_CHAR, right, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

int main(int argc, char** argv) {
    keep_first();
    long long delay_before = run_delay();
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3) {
        if (rank == 0) fprintf(stderr, "bsp PHASES WORK [SLACK_RANK PART [BYTES]]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    long phases = atol(argv[1]), rounds = atol(argv[2]);
    if (argc > 4 && atoi(argv[3]) == rank) rounds = rounds * atol(argv[4]) / 100;
    int bytes = argc > 5 ? atoi(argv[5]) : 0;
    char *in = calloc(1, bytes + 1), *out = calloc(1, bytes + 1);
    pin(rank);

    MPI_Barrier(MPI_COMM_WORLD);
    long long start = now();
    double mine = rank, all = 0;
    for (long phase = 0; phase < phases; phase++) {
        work(rounds);
        if (bytes > 0)
            exchange(in, out, bytes, rank, size, phase);
        else
            MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    long long elapsed = now() - start;

    long long said[2] = {run_delay() - delay_before, getpid()};
    long long* each = malloc(sizeof said * size);
    MPI_Gather(said, 2, MPI_LONG_LONG, each, 2, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        const char* path = getenv("BSP_RESULT");
        FILE* said_to = path ? fopen(path, "w") : stdout;
        if (!said_to) MPI_Abort(MPI_COMM_WORLD, 1);
        fprintf(said_to, "{\"elapsed_ns\": %lld, \"run_delay_ns\": [", elapsed);
        for (int r = 0; r < size; r++) fprintf(said_to, "%s%lld", r ? ", " : "", each[2 * r]);
        fprintf(said_to, "], \"pids\": [");
        for (int r = 0; r < size; r++) fprintf(said_to, "%s%lld", r ? ", " : "", each[2 * r + 1]);
        fprintf(said_to, "]}\n");
        fflush(said_to);
    }
    free(each);
    free(in);
    free(out);
    MPI_Finalize();
    return 0;
}
