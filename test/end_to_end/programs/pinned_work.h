/* SPDX-License-Identifier: BSD-3-Clause */
/* Work of a length that the compiler cannot shorten, and the CPU that does it. Define _GNU_SOURCE before any include. */
#pragma once

#include <sched.h>
#include <stdint.h>

static inline uint64_t work(int amount) {
    volatile uint64_t x = 1;
    for (int i = 0; i < amount; i++) x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}

static inline void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}
