/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a region of the program, a local MPI call and a send to nobody take: one JSON line a case, nanoseconds, the median over the
 * repetitions. Run it with and without the tracer, with and without counters, in turn. A region is its begin and its end.
 *
 *     bench_regions [ROUNDS]     a repetition; with --read: also what a read of a group of perf counters takes, alone and on either side of
 *                                a send to nobody: the floor of a counter. The first group is one counter that does not move, the other
 *                                four, one of which (TASK-CLOCK) does at each reading.
 */
#include <linux/perf_event.h>
#include <mpi.h>
#include <polter.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { REPETITIONS = 21 };
static int rounds = 20000, group = -1;
static double data;

static void region(void) {
    POLTER_REGION_BEGIN("bench");
    POLTER_REGION_END("bench");
}
static void send_to_nobody(void) {
    MPI_Send(&data, 1, MPI_DOUBLE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
}
static void read_counter(void) {
    uint64_t values[8];
    if (read(group, values, sizeof values) < 0) exit(1);
}
static void send_between_readings(void) {
    read_counter();
    send_to_nobody();
    read_counter();
}

static int ascending(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return x < y ? -1 : x > y;
}

static void measure(const char* name, void (*round)(void)) {
    double times[REPETITIONS];
    for (int i = 0; i < rounds / 10; i++) round();
    for (int r = 0; r < REPETITIONS; r++) {
        const double start = MPI_Wtime();
        for (int i = 0; i < rounds; i++) round();
        times[r] = (MPI_Wtime() - start) / rounds * 1e9;
    }
    qsort(times, REPETITIONS, sizeof *times, ascending);
    printf("{\"case\": \"%s\", \"ns_per_call\": %.1f, \"least\": %.1f}\n", name, times[REPETITIONS / 2], times[0]);
}

/* The events of scripts/bench.d/regions.py, as `polter run --perf` opens them. The clock comes first: there are kernels that bring one that
   is the last of its group up to date only when they switch. */
enum { COUNTERS = 4 };
static int open_group(int size) {
    static const uint64_t events[COUNTERS] = {PERF_COUNT_SW_TASK_CLOCK, PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_PAGE_FAULTS_MIN,
                                              PERF_COUNT_SW_PAGE_FAULTS_MAJ};
    const uint64_t* const first = events + (size == 1);
    group = -1;
    for (int i = 0; i < size; i++) {
        struct perf_event_attr attributes;
        memset(&attributes, 0, sizeof attributes);
        attributes.size = sizeof attributes;
        attributes.type = PERF_TYPE_SOFTWARE;
        attributes.config = first[i];
        attributes.exclude_kernel = 1;
        attributes.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
        const int file = (int)syscall(SYS_perf_event_open, &attributes, 0, -1, group, 0);
        if (file < 0) return 0;
        if (i == 0) group = file;
    }
    return 1;
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    if (argc > 1 && atoi(argv[1]) > 0) rounds = atoi(argv[1]);
    measure("region", region);
    measure("send_to_nobody", send_to_nobody);
    if (argc > 2 && open_group(1)) {
        measure("read_counter", read_counter);
        measure("send_between_readings", send_between_readings);
        close(group);
    }
    if (argc > 2 && open_group(COUNTERS)) {
        measure("read_four_counters", read_counter);
        measure("send_between_readings_of_four", send_between_readings);
    }
    MPI_Finalize();
    return 0;
}
