/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The processes that registered ones have started: a table from their thread group ids to jobs, written at forks and exits, read when a
 * wait is split. Any CPU may do any of that at any time, without a lock: an entry is one word.
 *
 * The table never grows. A job may use at most two entries of a bucket, so a job that starts very many processes overwrites only its own
 * entries, and only its own figures become wrong. Registrations are not kept here.
 */
#ifndef POLTER_STARTED_H
#define POLTER_STARTED_H

#include "state.h"

#define POLTER_STARTED_BUCKET_BITS 12u
#define POLTER_STARTED_BUCKETS (1u << POLTER_STARTED_BUCKET_BITS)
#define POLTER_STARTED_WAYS 8u     /* a cache line */
#define POLTER_STARTED_OF_A_JOB 2u /* ways of one bucket */
#define POLTER_STARTED_ID_BITS 22u /* of a task id, by PID_MAX_LIMIT; the other 42: the number of the job, counted up */

struct polter_started {
    polter_u64 way[POLTER_STARTED_WAYS]; /* job and thread group id; 0: empty */
};

POLTER_INLINE polter_u32 polter_started_id(polter_u64 entry) {
    return (polter_u32)entry & ((1u << POLTER_STARTED_ID_BITS) - 1);
}

/* `seed` is secret, so that no user can choose ids that share another user's bucket. Consecutive ids lie far apart. */
POLTER_INLINE struct polter_started* polter_started_bucket(struct polter_started* table, polter_u32 seed, polter_u32 tgid) {
    return &table[(polter_u32)((tgid ^ seed) * 2654435761u) >> (32 - POLTER_STARTED_BUCKET_BITS)];
}

/* A process of that job has started `tgid`. Of two that enter one bucket in the same moment one may be lost. */
POLTER_INLINE void polter_started_enter(struct polter_started* bucket, polter_u32 tgid, polter_u64 job) {
    polter_u32 place = tgid & (POLTER_STARTED_WAYS - 1), own = 0; /* of a full bucket any */

    POLTER_UNROLL
    for (polter_u32 i = 0; i < POLTER_STARTED_WAYS; i++)
        if (!POLTER_LOAD(bucket->way[i])) place = i;
    POLTER_UNROLL
    for (polter_u32 i = 0; i < POLTER_STARTED_WAYS; i++)
        if (POLTER_LOAD(bucket->way[i]) >> POLTER_STARTED_ID_BITS == job && ++own >= POLTER_STARTED_OF_A_JOB) place = i;
    /* An entry of a process whose end was not seen. */
    POLTER_UNROLL
    for (polter_u32 i = 0; i < POLTER_STARTED_WAYS; i++)
        if (polter_started_id(POLTER_LOAD(bucket->way[i])) == tgid) place = i;
    POLTER_STORE(bucket->way[place & (POLTER_STARTED_WAYS - 1)], job << POLTER_STARTED_ID_BITS | tgid);
}

/* The process has ended. */
POLTER_INLINE void polter_started_end(struct polter_started* bucket, polter_u32 tgid) {
    POLTER_UNROLL
    for (polter_u32 i = 0; i < POLTER_STARTED_WAYS; i++) {
        polter_u64 entry = POLTER_LOAD(bucket->way[i]);
        if (entry && polter_started_id(entry) == tgid) (void)POLTER_SWAP_IF(bucket->way[i], entry, 0ull);
    }
}

/* The job of a process that was started by one of its own; 0: of any other. */
POLTER_INLINE polter_u64 polter_started_job(const struct polter_started* bucket, polter_u32 tgid) {
    polter_u64 job = 0;

    POLTER_UNROLL
    for (polter_u32 i = 0; i < POLTER_STARTED_WAYS; i++) {
        polter_u64 entry = POLTER_LOAD(bucket->way[i]);
        if (entry && polter_started_id(entry) == tgid) job = entry >> POLTER_STARTED_ID_BITS;
    }
    return job;
}

#endif
