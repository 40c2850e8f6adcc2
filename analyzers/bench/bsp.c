/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bulk-synchronous benchmark: intervals of work, each ended by one collective. Started by `polter bench bsp`, which gives all options:
 *
 *     polter-bsp WORKLOAD GRAIN_NS UNITS PHASES WARMUPS COLLECTIVE IMBALANCE_PERCENT HALO SIZE FILE
 *
 * UNITS: units of work an interval; 0: as many as last GRAIN_NS here. Nothing is exchanged or written between the intervals but what the
 * options ask for; maxima over the ranks are taken after the run. Rank 0 writes the result to FILE ("-": standard output).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef POLTER_BSP_SIMULATED /* on SimGrid: time is simulated, and the workload "time" lasts as long as drawn (test/analyzers/variability) \
                             */
#include "simulated.h"
#else
static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}
static void spin(long long grain) {
    const long long end = now() + grain;
    while (now() < end) {
    }
}
#endif

static void* memory(size_t bytes) {
    void* p = calloc(1, bytes ? bytes : 1);
    if (!p) {
        fprintf(stderr, "polter-bsp: no memory for %zu bytes; take a smaller --size or fewer --phases\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return p;
}

/* Workloads: init(size) makes the data, unit() is the least piece of work. */
static volatile double sink;
static int n;
static double *a, *b, *c;
static int *column, *row;

static void no_init(int size) {
    n = size;
}
static void chain_unit(void) { /* a chain of dependent operations: about a microsecond */
    double x = sink;
    for (int i = 0; i < 300; i++) x = x * 0.9999999 + 1e-9;
    sink = x;
}

static void dgemm_init(int size) {
    n = size;
    a = memory(sizeof(double) * n * n);
    b = memory(sizeof(double) * n * n);
    c = memory(sizeof(double) * n * n);
    for (int i = 0; i < n * n; i++) a[i] = i % 7, b[i] = i % 5;
}
static void dgemm_unit(void) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            const double factor = a[i * n + k];
            for (int j = 0; j < n; j++) c[i * n + j] += factor * b[k * n + j];
        }
    sink = c[n];
    if (!(sink < 1e300)) memset(c, 0, sizeof(double) * n * n);
}

/* The 27-point stencil on a cube of n points a side, as a sparse matrix in rows. */
static void stencil_init(int size) {
    n = size;
    const int points = n * n * n;
    row = memory(sizeof(int) * (points + 1));
    column = memory(sizeof(int) * 27 * points);
    a = memory(sizeof(double) * 27 * points);
    b = memory(sizeof(double) * points);
    c = memory(sizeof(double) * points);
    int at = 0;
    for (int p = 0; p < points; p++) {
        const int x = p % n, y = p / n % n, z = p / n / n;
        for (int d = 0; d < 27; d++) {
            const int u = x + d % 3 - 1, v = y + d / 3 % 3 - 1, w = z + d / 9 - 1;
            if (u < 0 || v < 0 || w < 0 || u >= n || v >= n || w >= n) continue;
            column[at] = (w * n + v) * n + u;
            a[at++] = d == 13 ? 26 : -1;
        }
        row[p + 1] = at;
        b[p] = 1 + p % 3;
    }
}
static void spmv_unit(void) {
    const int points = n * n * n;
    for (int p = 0; p < points; p++) {
        double sum = 0;
        for (int i = row[p]; i < row[p + 1]; i++) sum += a[i] * b[column[i]];
        c[p] = sum;
    }
    sink = c[0];
}
static void smooth(int p) {
    double sum = b[p];
    for (int i = row[p]; i < row[p + 1]; i++)
        if (column[i] != p) sum -= a[i] * c[column[i]];
    c[p] = sum / 26;
}
static void hpcg_unit(void) { /* a symmetric Gauss-Seidel sweep */
    const int points = n * n * n;
    for (int p = 0; p < points; p++) smooth(p);
    for (int p = points - 1; p >= 0; p--) smooth(p);
    sink = c[0];
}

static const struct workload {
    const char* name;
    int size;
    void (*init)(int);
    void (*unit)(void);
} workloads[] = {{"work", 0, no_init, chain_unit},
                 {"time", 0, no_init, NULL},
                 {"dgemm", 48, dgemm_init, dgemm_unit},
                 {"spmv", 12, stencil_init, spmv_unit},
                 {"hpcg", 10, stencil_init, hpcg_unit}};

static const struct workload* find_workload(const char* name) {
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
        if (strcmp(workloads[i].name, name) == 0) return &workloads[i];
    fprintf(stderr, "polter-bsp: no workload %s\n", name);
    MPI_Abort(MPI_COMM_WORLD, 2);
    return NULL;
}

static void work(const struct workload* load, long long units, long long grain) {
    if (load->unit) {
        for (long long i = 0; i < units; i++) load->unit();
    } else { /* fixed time: the work done varies with the noise, the time does not */
        spin(grain);
    }
}

/* Units that last this long: the fastest of several rounds counts, and all ranks take rank 0's. */
static long long calibrate(const struct workload* load, long long grain) {
    long long units = 1, least = 0;
    while (load->unit && units < (1ll << 40)) {
        least = 0;
        for (int round = 0; round < 5; round++) {
            const long long begin = now();
            work(load, units, 0);
            const long long took = now() - begin;
            if (least == 0 || took < least) least = took;
        }
        if (least > grain / 4 && least > 20000) break;
        if (least > grain) break;
        units *= 2;
    }
    if (load->unit) {
        units = (long long)((double)units * (double)grain / (double)(least > 0 ? least : 1));
        if (units < 1) units = 1;
    }
    MPI_Bcast(&units, 1, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
    return units;
}

/* A periodic two-dimensional grid; four neighbours, which may be the same rank. */
static struct halo {
    int count, neighbours[4];
    double *in, *out;
} halo;
static void halo_init(int count) {
    int size, sizes[2] = {0, 0}, periods[2] = {1, 1};
    MPI_Comm grid;
    halo.count = count;
    if (!count) return;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 2, sizes);
    MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, periods, 0, &grid);
    MPI_Cart_shift(grid, 0, 1, &halo.neighbours[0], &halo.neighbours[1]);
    MPI_Cart_shift(grid, 1, 1, &halo.neighbours[2], &halo.neighbours[3]);
    MPI_Comm_free(&grid);
    halo.in = memory(sizeof(double) * 4 * count);
    halo.out = memory(sizeof(double) * 4 * count);
}
static void halo_post(MPI_Request* requests) {
    for (int i = 0; i < 4; i++)
        MPI_Irecv(halo.in + i * halo.count, halo.count, MPI_DOUBLE, halo.neighbours[i], i, MPI_COMM_WORLD, &requests[i]);
}
static void halo_exchange(MPI_Request* requests) {
    for (int i = 0; i < 4; i++) /* what goes out on one side comes in on the other */
        MPI_Isend(halo.out + i * halo.count, halo.count, MPI_DOUBLE, halo.neighbours[i], i ^ 1, MPI_COMM_WORLD, &requests[4 + i]);
    MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
}

static const char* const collectives[] = {"barrier", "allreduce", "bcast", "reduce", "alltoall", "none"};
static double *mine, *all;
static int collective_of(const char* name, int size) {
    mine = memory(sizeof(double) * size);
    all = memory(sizeof(double) * size);
    for (int i = 0; i < 6; i++)
        if (strcmp(collectives[i], name) == 0) return i;
    fprintf(stderr, "polter-bsp: no collective %s\n", name);
    MPI_Abort(MPI_COMM_WORLD, 2);
    return 5;
}
static void synchronise(int collective) {
    switch (collective) {
        case 0:
            MPI_Barrier(MPI_COMM_WORLD);
            break;
        case 1:
            MPI_Allreduce(mine, all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            break;
        case 2:
            MPI_Bcast(mine, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
            break;
        case 3:
            MPI_Reduce(mine, all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
            break;
        case 4:
            MPI_Alltoall(mine, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, MPI_COMM_WORLD);
            break;
        default:
            break;
    }
}

/* Where the launcher did not bind the rank: to the CPU that its number on the node says. */
#ifndef POLTER_BSP_SIMULATED /* all ranks are in one process there */
static void bind(int rank) {
    cpu_set_t allowed, one;
    MPI_Comm node;
    int on_node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &on_node);
    MPI_Comm_free(&node);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) == 1) return;
    on_node %= CPU_COUNT(&allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || on_node-- > 0) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        return;
    }
}
#else
static void bind(int rank) {
    (void)rank;
}
#endif

static void list(FILE* file, const char* name, const long long* values, long count) {
    fprintf(file, ",\n \"%s\": [", name);
    for (long i = 0; i < count; i++) fprintf(file, "%s%lld", i ? "," : "", values[i]);
    fprintf(file, "]");
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 11) {
        if (rank == 0) fprintf(stderr, "polter-bsp: is started by polter bench bsp\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const struct workload* load = find_workload(argv[1]);
    const long long grain = atoll(argv[2]);
    long long units = atoll(argv[3]);
    const long phases = atol(argv[4]), warmups = atol(argv[5]);
    const int collective = collective_of(argv[6], size);
    const double imbalance = atof(argv[7]) / 100, share = size > 1 ? (double)rank / (size - 1) : 0;
    bind(rank);
    halo_init(atoi(argv[8]));
    load->init(atoi(argv[9]) > 0 ? atoi(argv[9]) : load->size);
    if (units <= 0) units = calibrate(load, grain);
    const long long own_units = (long long)((double)units * (1 + imbalance * share));
    const long long own_grain = (long long)((double)grain * (1 + imbalance * share));
    long long *worked = memory(sizeof *worked * phases), *waited = memory(sizeof *waited * phases);
    long long *slowest = memory(sizeof *slowest * phases), *longest_wait = memory(sizeof *longest_wait * phases);
    long long *shortest_wait = memory(sizeof *shortest_wait * phases), *slowest_rank = memory(sizeof *slowest_rank * phases);
    MPI_Request requests[8];
    long long begin = 0;

    MPI_Barrier(MPI_COMM_WORLD);
    for (long phase = -warmups; phase < phases; phase++) {
        const long long start = now();
        if (phase == 0) begin = start;
        if (halo.count) halo_post(requests);
        work(load, own_units, own_grain);
        if (halo.count) halo_exchange(requests);
        const long long end = now();
        synchronise(collective);
        if (phase < 0) continue;
        worked[phase] = end - start;
        waited[phase] = now() - end;
    }
    const long long elapsed = now() - begin;

    /* The shortest time in the collective is the last arrival's: what the collective itself takes. */
    MPI_Allreduce(worked, slowest, (int)phases, MPI_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
    MPI_Reduce(waited, longest_wait, (int)phases, MPI_LONG_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(waited, shortest_wait, (int)phases, MPI_LONG_LONG, MPI_MIN, 0, MPI_COMM_WORLD);
    for (long phase = 0; phase < phases; phase++) worked[phase] = worked[phase] == slowest[phase] ? rank : size;
    MPI_Reduce(worked, slowest_rank, (int)phases, MPI_LONG_LONG, MPI_MIN, 0, MPI_COMM_WORLD);
    int failed = 0;
    if (rank == 0) {
        FILE* file = strcmp(argv[10], "-") == 0 ? stdout : fopen(argv[10], "w");
        if (file) {
            fprintf(file,
                    "{\"schema\": \"polter.bench.bsp/1\", \"workload\": \"%s\", \"ranks\": %d, \"grain_ns\": %lld, \"units\": %lld, "
                    "\"phases\": %ld, "
                    "\"warmups\": %ld, \"collective\": \"%s\", \"imbalance_percent\": %s, \"halo\": %d,\n \"elapsed_ns\": %lld",
                    argv[1], size, grain, units, phases, warmups, argv[6], argv[7], halo.count, elapsed);
            list(file, "slowest_work_ns", slowest, phases);
            list(file, "slowest_rank", slowest_rank, phases);
            list(file, "longest_wait_ns", longest_wait, phases);
            list(file, "shortest_wait_ns", shortest_wait, phases);
            fprintf(file, "}\n");
        }
        if (!file || fflush(file) != 0 || (file != stdout && fclose(file) != 0)) {
            fprintf(stderr, "polter-bsp: %s: the result cannot be written: %s\n", argv[10], strerror(errno));
            failed = 1;
        }
    }
    MPI_Finalize();
    return failed;
}
