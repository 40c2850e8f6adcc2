/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages that the measured thread writes itself, where no exporter can be had: the tiers perf (../perf) and proc (../proc). The same page,
 * in private memory, brought up to date by the thread when it asks. Internal.
 */
#ifndef POLTER_OWN_H
#define POLTER_OWN_H

#include <stddef.h>

#include "../accounting/state.h"

struct polter_own;

struct polter_own_tier {
    const char* name;
    /* Whether there is anything new to account; may cost a system call. `now_ns`: the page's clock; ~0: look whatever that costs. */
    int (*moved)(struct polter_own*, polter_u64 now_ns);
    /* Accounts all up to now, as far as the tier's interval lets it look. */
    void (*update)(struct polter_own*);
    /* sched_yield(), whose time off the CPU is accounted as such. Returns what it does. */
    int (*yield)(struct polter_own*);
    void (*close)(struct polter_own*);
};

/* What both tiers begin with. Used by the thread that it measures alone. */
struct polter_own {
    const struct polter_own_tier* tier;
    struct polter_page* page;
    struct polter_thread account;
    int busy; /* in one of the functions above: a signal handler that yields finds it so */
};

/* Makes the calling thread's. NULL, with the reason (what, where, what to do). `tracepoints`: see polter_noise_options. */
struct polter_own* polter_perf_own(const char* tracepoints, char* error, size_t error_size);
struct polter_own* polter_proc_own(char* error, size_t error_size);

/* Zeroed memory for a tier's state that begins with a polter_own, its page included; NULL with the reason. `seen`: bit set of accounts. */
struct polter_own* polter_own_new(size_t size, const struct polter_own_tier*, polter_u32 backend, polter_u32 seen, char* error,
                                  size_t error_size);
void polter_own_free(struct polter_own*, size_t size);

#endif
