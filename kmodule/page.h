/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The page: written by an exporter, read by the measured program. One mapping a thread, read-only for its user.
 *
 * Compiled unchanged by the BPF program, the kernel module, C and C++.
 *
 * Who writes what
 *   header        the daemon, once, before the mapping is handed over; `seq`, `state`, `end_ns` by the exporter
 *   copy[2]       the exporter, the back copy only; which one is front is the lowest bit of `seq`
 *   ring          the exporter; entries [recorded - ring_entries, recorded) of the front copy are valid
 *
 * How it is read (implemented once, in reader/)
 *   do { s = load_acquire(seq); c = copy[s & 1]; fence_acquire } while (load(seq) != s);
 *   `seq` unchanged since the last look: nothing has moved, and that one load is the whole cost.
 *   Ring entries up to `recorded` of that copy may then be read; afterwards `seq`'s copy is read again, and an entry whose
 *   index lies more than ring_entries below the new `reserved` may have been overwritten meanwhile and counts as lost.
 *
 * How it is written
 *   Writers of one page run on one CPU at a time and nest (interrupt in softirq in switch). The master counters live outside
 *   the page. The outermost writer takes `pub`; nested ones update the master only (ring entries included: a slot is claimed
 *   after `pub` is taken or inside its holder) and set `dirty`. To publish: bring the back copy up to date, store `seq` + 1,
 *   look at `dirty` before that store and again after `pub` is released; retries are bounded and a give-up is counted.
 *   Only writers on the thread's own CPU write the page: a wake-up on another CPU changes private state only.
 *
 * When the version changes: any change of the layout or of the meaning of a field or enumerator. A reader refuses a version or
 * a size that it does not know. Units are nanoseconds of CLOCK_MONOTONIC of the initial time namespace.
 */
#ifndef POLTER_PAGE_H
#define POLTER_PAGE_H

#if !defined(__KERNEL__) && !defined(__bpf__)
#include <stdint.h>
typedef uint64_t polter_u64;
typedef uint32_t polter_u32;
typedef int32_t polter_s32;
typedef int64_t polter_s64;
#else
typedef __u64 polter_u64;
typedef __u32 polter_u32;
typedef __s32 polter_s32;
typedef __s64 polter_s64;
#endif

#define POLTER_PAGE_MAGIC 0x315245544c4f50ull /* "POLTER1" in memory order */
#define POLTER_PAGE_VERSION 2u

/*
 * The sources of noise, then the services; X(enumerator, name). The names are those of the trace: os:<name>, os-service:<name>.
 *
 * Off the CPU while runnable:
 *   preempt      taken off for tasks outside of the job; and what such tasks take after a sched_yield, which would have returned at once
 *   preempt_job  taken off for a task of the own job, or woken and waiting for one
 *   runqueue     woken, and a task outside of the job goes on running
 *   wakeup       woken, and nobody holds the CPU: it is idle, or its task has been told to give way at once and does so to this thread
 *   throttle     its cgroup's CPU quota is used up
 * Time that tasks of the own job run after a sched_yield is in none of them (after_yield_ns): the program asked for it. Neither is sleep.
 * The job consists of the threads of its processes and of all descendants started since they registered a thread. The sum without
 * `wakeup` is at least the kernel's run-delay.
 */
#define POLTER_NOISE_SOURCES(X) \
    X(TIMER, "timer")           \
    X(IRQ, "irq")               \
    X(IPI, "ipi")               \
    X(SOFTIRQ, "softirq")       \
    X(NMI, "nmi")               \
    X(PREEMPT, "preempt")       \
    X(RUNQUEUE, "runqueue")     \
    X(THROTTLE, "throttle")     \
    X(STEAL, "steal")
#define POLTER_SERVICES(X)        \
    X(PREEMPT_JOB, "preempt_job") \
    X(WAKEUP, "wakeup")           \
    X(NET, "net")                 \
    X(FAULT, "fault")

#define POLTER_ENUMERATE(id, name) POLTER_##id,
enum polter_account {
    POLTER_NOISE_SOURCES(POLTER_ENUMERATE) POLTER_SERVICES(POLTER_ENUMERATE) POLTER_ACCOUNTS /* how many there are */
};
#undef POLTER_ENUMERATE
#define POLTER_FIRST_SERVICE POLTER_PREEMPT_JOB
#define POLTER_WITHOUT_RECORDS (1u << POLTER_FAULT) /* bit set of accounts with counters only, no ring entries */
#define POLTER_ACCOUNT_SLOTS 16                     /* room in the layout; the rest is zero */

enum polter_backend { POLTER_BACKEND_NONE, POLTER_BACKEND_PROC, POLTER_BACKEND_PERF, POLTER_BACKEND_BPF, POLTER_BACKEND_MODULE };

enum polter_page_state {
    POLTER_PAGE_LIVE = 1,  /* being written */
    POLTER_PAGE_FROZEN = 2 /* the thread or the exporter has ended; the contents are final */
};

#define POLTER_CULPRIT_LEN 16 /* a task's comm; interrupt names are cut to it; NUL-terminated */
/* The culprit, without a pid, where it is a task of another user whose names the registered one may not know. */
#define POLTER_ANOTHER_USER "another user"

/* One noise event, 48 bytes. Fills [end_ns - duration_ns, end_ns] less what nested entries of later index or earlier end took. */
struct polter_ring_entry {
    polter_u64 end_ns;
    polter_u64 duration_ns; /* net of what is nested in it */
    polter_u32 account;     /* enum polter_account */
    polter_s32 culprit_pid; /* initial pid namespace; 0 where the culprit is no task */
    char culprit[POLTER_CULPRIT_LEN];
    polter_u64 index; /* its number since registration; says whether the slot was recycled under the reader */
};

/* One consistent state of the accounts, 320 bytes. */
struct polter_counters {
    polter_u64 ns[POLTER_ACCOUNT_SLOTS];    /* stolen since registration */
    polter_u64 count[POLTER_ACCOUNT_SLOTS]; /* noise events since registration */
    polter_u64 recorded;                    /* ring entries complete since registration */
    polter_u64 updated_ns;                  /* the latest time of what was published; never goes back */
    polter_u64 after_yield_ns;              /* after sched_yield, of the own job or an unknown task: not noise, counted apart */
    polter_u64 yields;                      /* yields after which no task outside of the job ran; the others count as preemptions */
    polter_u64 unbalanced;                  /* inconsistent readings that were dropped, such as entries without exit */
    polter_u64 give_ups;                    /* publications postponed to the next event */
    polter_u64 dropped;                     /* noise events that are in ns but could not be put into the ring */
    polter_u64 reserved_;
};

/* 128 bytes, at offset 0 of the mapping. */
struct polter_page_header {
    polter_u64 magic;
    polter_u32 version;
    polter_u32 size;        /* bytes of the whole mapping of this thread */
    polter_u32 copy_offset; /* of copy[0]; copy[1] follows at copy_stride */
    polter_u32 copy_stride;
    polter_u32 ring_offset;
    polter_u32 ring_entries;  /* a power of two */
    polter_u32 backend;       /* enum polter_backend */
    polter_u32 accounts_seen; /* bit set of enum polter_account: what this backend can see */
    polter_u32 accounts_net;  /* bit set: durations are net of what is nested */
    polter_s32 tid;           /* in the initial pid namespace */
    polter_s32 pid;
    polter_u32 state;    /* enum polter_page_state */
    polter_u64 start_ns; /* registration */
    polter_u64 end_ns;   /* when it froze; 0 while live */
    polter_u64 padding0[5];
    polter_u64 seq;      /* generation << 1 | front, in effect: the copy in front is copy[seq & 1]; alone on what changes often */
    polter_u64 reserved; /* ring entries begun; recorded <= reserved */
};

#define POLTER_RING_ENTRIES 1024u
#define POLTER_COPY_OFFSET 128u
#define POLTER_COPY_STRIDE 320u
#define POLTER_RING_OFFSET 1024u
#define POLTER_PAGE_SIZE 53248u /* 13 pages of 4096: header, two copies, ring */

#if defined(__cplusplus)
#define POLTER_STATIC_ASSERT static_assert
#else
#define POLTER_STATIC_ASSERT _Static_assert
#endif
POLTER_STATIC_ASSERT(sizeof(struct polter_ring_entry) == 48, "ring entry layout");
POLTER_STATIC_ASSERT(sizeof(struct polter_counters) == POLTER_COPY_STRIDE, "counters layout");
POLTER_STATIC_ASSERT(sizeof(struct polter_page_header) == POLTER_COPY_OFFSET, "header layout");
POLTER_STATIC_ASSERT(POLTER_COPY_OFFSET + 2 * POLTER_COPY_STRIDE <= POLTER_RING_OFFSET, "copies before ring");
POLTER_STATIC_ASSERT(POLTER_RING_OFFSET + POLTER_RING_ENTRIES * 48u <= POLTER_PAGE_SIZE, "ring in the mapping");
POLTER_STATIC_ASSERT(POLTER_ACCOUNTS <= POLTER_ACCOUNT_SLOTS, "room for all accounts");

#endif
