/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* The table from task ids to accounts that the daemon writes and its programs read. Compiled by both. */
#ifndef POLTER_TIDS_H
#define POLTER_TIDS_H

#include "../page.h"

#define POLTER_BPF_PROCESSES 1024u
#define POLTER_BPF_THREADS 4096u
#define POLTER_BPF_BUCKETS 8192u /* a power of two */
#define POLTER_BPF_WAYS 4u

/* The registered tasks whose ids have these low bits. An entry is valid while its tid is not 0; `thread` is written before it. */
struct polter_tids {
    polter_u32 tid[POLTER_BPF_WAYS];
    polter_u32 thread[POLTER_BPF_WAYS]; /* index into the map of threads */
};

#endif
