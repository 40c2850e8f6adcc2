/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* The table from task ids to accounts that the daemon writes and its programs read. Compiled by both. */
#ifndef POLTER_TIDS_H
#define POLTER_TIDS_H

#include "../page.h"

#define POLTER_BPF_PROCESSES 4096u
#define POLTER_BPF_THREADS 11264u  /* also the number of pages: those of POLTER_MAX_THREADS, and those prepared or being released */
#define POLTER_BPF_BUCKET_BITS 15u /* three buckets a thread: the few threads that share a bucket fit into its entries */
#define POLTER_BPF_BUCKETS (1u << POLTER_BPF_BUCKET_BITS)
#define POLTER_BPF_WAYS 4u
#define POLTER_BPF_FILTER_BITS 16u /* 8 KB */
#define POLTER_BPF_FILTER (1u << POLTER_BPF_FILTER_BITS)
#define POLTER_BPF_FREEZE 11u /* pages that one call freezes */
#define POLTER_BPF_PAGE_NAME "polter_page"

/* The registered tasks of one bucket. An entry is valid while its tid is not 0; `thread` is written before it. */
struct polter_tids {
    polter_u32 tid[POLTER_BPF_WAYS];
    polter_u32 thread[POLTER_BPF_WAYS]; /* index into the map of threads */
};

/* `seed` is the daemon's secret, so that no user can fill another user's bucket by choosing task ids. Consecutive ids lie far apart
 * (Knuth's multiplicative hashing). */
static inline polter_u32 polter_tids_bucket(polter_u32 tid, polter_u32 seed) {
    return (polter_u32)((tid ^ seed) * 2654435761u) >> (32 - POLTER_BPF_BUCKET_BITS);
}

/* The bit of the filter that is set if the task may be registered. */
static inline polter_u32 polter_tids_filter_bit(polter_u32 tid, polter_u32 seed) {
    return (polter_u32)((tid ^ seed) * 2654435761u) >> (32 - POLTER_BPF_FILTER_BITS);
}

#endif
