/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock of the latency benchmark, and what a reading of it costs. */
#ifndef POLTER_LATENCY_CLOCK_H
#define POLTER_LATENCY_CLOCK_H

#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tally.h"

#define PAIRS_TIMED 100000 /* readings of the clock in its calibration */

/* The clock: the processor's counter where it ticks evenly, else the system's; simulated time in the simulator. In ticks. */
struct clock {
    int counter;                                       /* use the processor's counter */
    double ticks_per_ns, least_pair, mean_pair, drift; /* pair: two readings one behind the other, ticks */
    uint64_t began;
    double began_ns;
};

static double system_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline uint64_t ticks(const struct clock* clock) {
#if defined(POLTER_LATENCY_SIMULATED)
    (void)clock;
    return (uint64_t)llround(MPI_Wtime() * 1e9);
#elif defined(__x86_64__)
    if (clock->counter) {
        uint32_t low, high;
        __asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory"); /* without a fence: README.md */
        return (uint64_t)high << 32 | low;
    }
#endif
    return (uint64_t)system_ns();
}

static int ticks_evenly(void) {
    int even = 0;
#if defined(__x86_64__) && !defined(POLTER_LATENCY_SIMULATED)
    char line[8192];
    FILE* file = fopen("/proc/cpuinfo", "r");
    while (file && !even && fgets(line, sizeof line, file))
        even = strncmp(line, "flags", 5) == 0 && strstr(line, " constant_tsc") && strstr(line, " nonstop_tsc");
    if (file) fclose(file);
#endif
    return even;
}

static void measure_frequency(struct clock* clock) {
    if (!clock->counter) return;
    const double before = clock->ticks_per_ns;
    clock->ticks_per_ns = (double)(ticks(clock) - clock->began) / (system_ns() - clock->began_ns);
    if (before > 0 && fabs(clock->ticks_per_ns / before - 1) > clock->drift) clock->drift = fabs(clock->ticks_per_ns / before - 1);
}

static void calibrate(struct clock* clock) {
    uint64_t* times = memory(2 * PAIRS_TIMED * sizeof *times);
    memset(clock, 0, sizeof *clock);
    clock->counter = ticks_evenly();
    clock->ticks_per_ns = 1;
    clock->began_ns = system_ns();
    clock->began = ticks(clock);
#ifndef POLTER_LATENCY_SIMULATED
    for (double now = system_ns(), until = now + 5e7; now < until;) now = system_ns();
    if (clock->counter) clock->ticks_per_ns = 0;
    measure_frequency(clock);
    clock->least_pair = 1e9;
    double sum = 0;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < PAIRS_TIMED; i++) {
            times[2 * i] = ticks(clock);
            times[2 * i + 1] = ticks(clock);
        }
        sum = 0;
        for (int i = 1; i < PAIRS_TIMED; i++) {
            const double pair = (double)(times[2 * i] - times[2 * i - 1]);
            sum += pair;
            if (pair < clock->least_pair) clock->least_pair = pair;
        }
    }
    clock->mean_pair = sum / (PAIRS_TIMED - 1);
#endif
    free(times);
}

#endif
