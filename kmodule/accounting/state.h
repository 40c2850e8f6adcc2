/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The private state of the accounting: what an exporter keeps beside the pages. Compiled by the BPF program, and by any backend that runs
 * the same code elsewhere (a kernel module, the tests in user space). Includers bring the fixed-width types (page.h does outside the
 * kernel).
 */
#ifndef POLTER_STATE_H
#define POLTER_STATE_H

#include "../page.h"

#define POLTER_WINDOWS 64u     /* a power of two; of what one CPU ran lately */
#define POLTER_WINDOW_TASKS 8u /* a power of two; that one window can tell apart */
#define POLTER_NESTING 8u      /* a power of two; hardware nests at most four: task, softirq, interrupt, NMI */
#define POLTER_STAYS 4u        /* a power of two; CPUs on whose queues a thread waited during one wait */

/* The whole of one thread's mapping, as page.h lays it out. */
struct polter_page {
    struct polter_page_header header;
    struct polter_counters copy[2];
    unsigned char padding0[POLTER_RING_OFFSET - POLTER_COPY_OFFSET - 2 * POLTER_COPY_STRIDE];
    struct polter_ring_entry ring[POLTER_RING_ENTRIES];
    unsigned char padding1[POLTER_PAGE_SIZE - POLTER_RING_OFFSET - POLTER_RING_ENTRIES * 48u];
};
POLTER_STATIC_ASSERT(sizeof(struct polter_page) == POLTER_PAGE_SIZE, "page layout");

/* Fills the constant part of a header; the thread's ids and times are left out. `seen`: bit set of accounts, all of them net. */
static inline void polter_page_layout(struct polter_page_header* header, polter_u32 backend, polter_u32 seen) {
    header->magic = POLTER_PAGE_MAGIC;
    header->version = POLTER_PAGE_VERSION;
    header->size = POLTER_PAGE_SIZE;
    header->copy_offset = POLTER_COPY_OFFSET;
    header->copy_stride = POLTER_COPY_STRIDE;
    header->ring_offset = POLTER_RING_OFFSET;
    header->ring_entries = POLTER_RING_ENTRIES;
    header->backend = backend;
    header->accounts_seen = seen;
    header->accounts_net = seen;
}

/* Why a thread is off the CPU. */
enum polter_off {
    POLTER_RUNNING = 0,
    POLTER_BLOCKED,   /* sleeping or stopped; the time after its wake-up is a wait */
    POLTER_WOKEN,     /* runnable again, not yet running */
    POLTER_PREEMPTED, /* taken off while runnable */
    POLTER_YIELDED,   /* gave way by sched_yield */
    POLTER_THROTTLED  /* its cgroup's CPU quota is used up */
};

/* What the tasks of a CPU's newest window had run at some moment. */
struct polter_mark {
    polter_u64 window; /* its number */
    polter_u64 ran_ns[POLTER_WINDOW_TASKS];
};

#define POLTER_OWNER_KERNEL 0xffffffffu /* of no user: the kernel's own threads, the idle task */

/* What a task ran on a CPU within one window. */
struct polter_ran {
    polter_u64 ns;
    polter_s32 tid; /* 0: idle; -1: not known which */
    polter_u32 tgid;
    polter_u64 work; /* the function that a kworker executed; 0: anything else */
    char comm[POLTER_CULPRIT_LEN];
    polter_u32 owner; /* the real user id, in the initial user namespace; or POLTER_OWNER_KERNEL */
    polter_u32 padding;
};

/* A stretch of a wait on one CPU's queue: it lasts until the next stay begins, or the thread runs. */
struct polter_stay {
    polter_u64 from_ns;
    struct polter_mark begin;
    struct polter_mark end; /* of a stay that another follows; the last one lasts until now */
    polter_u64 begin_ns;    /* when the mark of its begin was made: after from_ns only where stays were merged */
    struct polter_ran by;   /* who ran, for how long, before the CPU kept windows; see polter_waiting_before */
    polter_u32 cpu;
    polter_u32 padding;
};

/* One registered thread. Written by the CPU it runs on; while it waits, under its run queue's lock. The fields that each event needs come
 * first, in one or two cache lines: after an interrupt on a virtual CPU the cache is mostly cold. */
struct polter_thread {
    polter_u64 pub;          /* 1: a writer publishes */
    polter_u64 dirty;        /* a nested writer changed the master meanwhile */
    polter_u64 changed;      /* changes in the master that the front copy lacks, see publish.h */
    polter_u64 changed_last; /* changes in the front copy that the back copy lacks */
    polter_u64 nmi_count;    /* not recorded yet, see publish.h */
    polter_s32 tid;          /* ids in the initial pid namespace */
    polter_u32 gone;         /* exited: its page is frozen */
    polter_u32 slot;
    polter_u32 page;    /* the eBPF backend's number of its page */
    polter_u32 off;     /* enum polter_off */
    polter_u32 tgid;
    struct polter_counters master;
    polter_u64 job;
    polter_u64 off_ns; /* since when it is off the CPU */
    polter_u32 stays;
    polter_u32 stolen_known; /* 1: seen to come to its CPU, so the increase of the CPU's stolen_ns since then is its own */
    struct polter_stay stay[POLTER_STAYS];
    polter_u64 nmi_ns;
    polter_u64 nmi_end_ns;
    polter_u64 interrupted_ns;          /* noise of interruptions and page faults when stolen_ns was read last */
    polter_u64 fault_ns;                /* since when it is in a page fault; 0: in none (faults.h) */
    polter_u64 fault_others_ns;         /* sum of the other accounts at that time */
    polter_u64 fault_count;             /* begun, and not recorded yet */
    char throttler[POLTER_CULPRIT_LEN]; /* the cgroup whose quota holds it */
    polter_u32 owner;                   /* as in polter_process */
    polter_u32 names;
    polter_u32 made_way; /* see polter_waiting_queue */
    polter_u32 waits_on; /* the CPU on whose queue it waits, + 1; 0: none. Counted there, see polter_cpu */
};

/* One registered process. */
struct polter_process {
    polter_u64 job;      /* node-wide number of the job, never 0 */
    polter_u32 owner;    /* the user who registered it; only this user's tasks are named on its page */
    polter_u32 names;    /* 1: other users' tasks are named as well */
    polter_u32 measured; /* 1: it has registered a thread, so its children belong to its job (started.h); a launcher has registered none */
    polter_u32 padding;
};

enum polter_frame_kind { POLTER_FRAME_TIMER = 1, POLTER_FRAME_IRQ, POLTER_FRAME_IPI, POLTER_FRAME_SOFTIRQ };

/* An interruption that has begun. */
struct polter_frame {
    polter_u64 start_ns; /* 0 until it is known, and once it has ended */
    polter_u64 began_ns; /* the same, for good */
    polter_u64 child_ns; /* what nested interruptions took of it */
    polter_u32 kind;
    polter_u32 id; /* interrupt line, vector, softirq */
    polter_s32 tid;
    polter_u32 padding;
};

/* A time in which a CPU ran few enough tasks to tell them apart, however often it switched between them. */
struct polter_window {
    polter_u64 number; /* + 1; another value: it was written over */
    polter_u32 tasks;
    polter_u32 padding;
    struct polter_ran task[POLTER_WINDOW_TASKS];
};

/* The state of the split of one wait among those who ran during it. */
struct polter_split {
    polter_u64 cursor_ns;    /* all before is distributed */
    polter_u64 end_ns;       /* of the stay at hand */
    polter_u64 window;       /* the first one */
    polter_u64 part_from_ns; /* the part not recorded yet, [part_from_ns, cursor_ns] */
    polter_u32 stay;
    polter_u32 part_account;
    polter_s32 part_tid;
    polter_u64 part_work;
    polter_u32 counted;  /* bit set of the accounts that have counted this wait */
    polter_u32 gave_way; /* 1: the one task that ran was giving way: none held the CPU, and the wait is the kernel's wake-up latency */
    char part_culprit[POLTER_CULPRIT_LEN];
};

/* The task that ran when a CPU began to keep windows, and is in none of them. */
enum polter_first { POLTER_FIRST_GONE = 0, POLTER_FIRST_LEAVES /* at this switch */, POLTER_FIRST_RUNS };

/* One CPU. Written by that CPU; the windows are read by others. What each switch and interrupt needs comes first, in one cache line. */
struct polter_cpu {
    polter_u64 thread;     /* the registered thread that runs here, as the backend knows it; 0: none. As of `generation` */
    polter_u32 generation; /* of the registrations: if they have changed since, `thread` is not known */
    polter_u32 depth;      /* of the frames below */
    polter_u32 known;      /* 1: a switch has been seen, and this task came: */
    polter_s32 tid;
    polter_u32 tgid;
    polter_u32 owner; /* as in polter_ran */
    char comm[POLTER_CULPRIT_LEN];
    polter_u32 waiting;       /* registered threads that wait for this CPU: those counted under its run queue's lock, */
    polter_u32 moved;         /* and those counted without, atomically. Only the sum means something */
    polter_u32 following;     /* 1: the windows are being kept */
    polter_u32 running;       /* which of the newest window's */
    polter_u64 work;          /* the first function that the current task, a kworker, has executed since it came */
    polter_u64 head;          /* windows begun so far */
    polter_u64 followed_ns;   /* since when they have all that ran; until then `first` did */
    polter_u64 since_ns;      /* since when the current task runs, or the windows are kept */
    polter_u64 came_ns;       /* the same of the one before it */
    polter_u64 stolen_ns;     /* stolen by the hypervisor, at the last reading */
    polter_u64 steal_end_ns;  /* of what was stolen last */
    polter_u64 steal_look_ns; /* when it was read last */
    struct polter_ran first;
    polter_u32 first_is; /* enum polter_first */
    polter_u32 padding;
    struct polter_frame frame[POLTER_NESTING];
    struct polter_split split;
    struct polter_window window[POLTER_WINDOWS];
};

/* The fields of a task that the accounting uses, so that it needs no kernel types. */
struct polter_culprit {
    polter_s32 pid; /* 0: no task */
    char name[POLTER_CULPRIT_LEN];
};

#define POLTER_LOAD(x) (*(const volatile __typeof__(x)*)&(x))
#define POLTER_STORE(x, v) (*(volatile __typeof__(x)*)&(x) = (v))
#define POLTER_BARRIER() __asm__ volatile("" ::: "memory")
/* Atomic against writers that nest on the same CPU, and ordered for readers on others. */
#define POLTER_ADD(x, v) ((void)__sync_fetch_and_add(&(x), (v)))
#define POLTER_FETCH_ADD(x, v) __sync_fetch_and_add(&(x), (v))
#define POLTER_SWAP(x, v) __sync_lock_test_and_set(&(x), (v))
/* Stores `v` if `x` is `old`; what it was. */
#define POLTER_SWAP_IF(x, old, v) __sync_val_compare_and_swap(&(x), (old), (v))
/* On CPUs that keep stores in order, a writer in which nothing nests needs neither: an atomic instruction costs as much as twenty others. */
#if defined(__x86_64__) || defined(__TARGET_ARCH_x86)
#define POLTER_ADD_ALONE(x, v) POLTER_STORE(x, POLTER_LOAD(x) + (v))
/* A load before all that follow. */
#define POLTER_LOAD_FIRST(x)               \
    ({                                     \
        __typeof__(x) v_ = POLTER_LOAD(x); \
        POLTER_BARRIER();                  \
        v_;                                \
    })
#else
#define POLTER_ADD_ALONE(x, v) POLTER_ADD(x, v)
#define POLTER_LOAD_FIRST(x) __sync_fetch_and_add(&(x), 0)
#endif
/* Makes the compiler forget where a pointer points. clang 14's BPF back end turns loads from constants into numbers and loses the stores
 * before them on the way (BPFDAGToDAGISel::PreprocessLoad gives the load's chain away); constants are read through this. */
#define POLTER_HIDE(pointer) __asm__ volatile("" : "+r"(pointer))
#ifdef __clang__
#define POLTER_UNROLL _Pragma("clang loop unroll(full)")
#define POLTER_NO_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define POLTER_UNROLL
#define POLTER_NO_UNROLL
#endif
#define POLTER_INLINE static inline __attribute__((always_inline))
/* A function of its own within a BPF program. `used`, since clang drops a result that no caller looks at; what is then left in r0 may be a
 * pointer into the stack, and verifiers refuse a function that returns that. */
#define POLTER_SUBPROGRAM static __attribute__((noinline, used))
/* A function that a verifier checks once, for any arguments, instead of anew for each state of each caller. It takes numbers and pointers
 * to whole structures, which may be NULL, and returns a number, of which the verifier knows nothing: all paths come together there. */
#ifdef __bpf__
#define POLTER_CHECKED_ALONE __attribute__((noinline))
#else
#define POLTER_CHECKED_ALONE static inline __attribute__((unused))
#endif

#endif
