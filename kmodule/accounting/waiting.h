/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Time off the CPU: why a thread left it, on whose queue it waited, and who ran meanwhile.
 *
 * Each CPU logs what it runs. When a thread runs again, its wait is split by that log into one record for each task that ran in its
 * place; neighbours of one task are one record. Where the log no longer reaches back, the time goes to the right account under the name
 * "?": the counters do not depend on the log, but for the division between the job's own tasks and others. All of this runs under the run
 * queue's lock.
 *
 * The includer defines
 *   POLTER_CPU(n)                     the state of CPU n, or NULL
 *   POLTER_JOB_OF(tgid)               the job of a registered process, 0 of any other
 *   POLTER_REPEAT(n, callback, ctx)   calls callback(i, ctx) for i < n until it returns nonzero
 */
#ifndef POLTER_WAITING_H
#define POLTER_WAITING_H

#include "publish.h"

struct polter_waiting {
    struct polter_thread* thread;
    struct polter_page* page;
    struct polter_split* split;
};

/* Records the part that has been put together, and begins an empty one. */
POLTER_INLINE void polter_waiting_flush(struct polter_waiting* w) {
    struct polter_split* s = w->split;
    struct polter_culprit culprit;
    polter_u32 account = s->part_account & (POLTER_ACCOUNT_SLOTS - 1);

    if (s->cursor_ns > s->part_from_ns) {
        culprit.pid = s->part_tid;
        __builtin_memcpy(culprit.name, s->part_culprit, POLTER_CULPRIT_LEN);
        polter_publish_record(w->thread, w->page, s->cursor_ns, s->cursor_ns - s->part_from_ns, account, !(s->counted & (1u << account)),
                              &culprit);
        s->counted |= 1u << account;
    }
    s->part_from_ns = s->cursor_ns;
}

/* Gives the time up to `until_ns` to a task. */
POLTER_INLINE void polter_waiting_give(struct polter_waiting* w, polter_u64 until_ns, polter_u32 account, polter_s32 tid,
                                       const char* name) {
    struct polter_split* s = w->split;

    if (until_ns > s->end_ns) until_ns = s->end_ns;
    if (until_ns <= s->cursor_ns) return;
    if (s->part_account != account || s->part_tid != tid) {
        polter_waiting_flush(w);
        s->part_account = account;
        s->part_tid = tid;
        POLTER_HIDE(name);
        __builtin_memcpy(s->part_culprit, name, POLTER_CULPRIT_LEN);
    }
    s->cursor_ns = until_ns;
}

/* The account of what another task, or idleness, took of a wait. */
POLTER_INLINE polter_u32 polter_waiting_account(const struct polter_thread* thread, polter_s32 tid, polter_u32 tgid) {
    int woken = thread->off == POLTER_WOKEN;

    if (tid == 0) return woken ? POLTER_WAKEUP : POLTER_PREEMPT;
    if (tgid == thread->tgid || POLTER_JOB_OF(tgid) == thread->job) return POLTER_PREEMPT_JOB;
    return woken ? POLTER_RUNQUEUE : POLTER_PREEMPT;
}

/* One segment of the log. */
static long polter_waiting_step(polter_u32 i, void* context) {
    struct polter_waiting* w = (struct polter_waiting*)context;
    struct polter_split* s = w->split;
    struct polter_cpu* cpu = POLTER_CPU(s->cpu);
    struct polter_segment *segment, *next;
    polter_u64 until;
    (void)i;

    if (!cpu || s->cursor_ns >= s->end_ns) return 1;
    segment = &cpu->log[s->segment & (POLTER_LOG_SEGMENTS - 1)];
    next = &cpu->log[(s->segment + 1) & (POLTER_LOG_SEGMENTS - 1)];
    if (POLTER_LOAD(segment->number) != s->segment + 1) return 1;
    until = POLTER_LOAD(next->number) == s->segment + 2 ? next->start_ns : s->end_ns; /* the newest lasts until now */
    polter_waiting_give(w, until, polter_waiting_account(w->thread, segment->tid, segment->tgid), segment->tid, segment->comm);
    s->segment++;
    return 0;
}

static const char polter_unknown[POLTER_CULPRIT_LEN] = "?";

/* Splits the stay `k` of the wait, which ends at `end_ns`. */
POLTER_INLINE void polter_waiting_stay(struct polter_waiting* w, polter_u32 k, polter_u64 end_ns) {
    struct polter_split* s = w->split;
    struct polter_stay* stay = &w->thread->stay[k & (POLTER_STAYS - 1)];
    struct polter_cpu* cpu = POLTER_CPU(stay->cpu);
    polter_u32 rest = w->thread->off == POLTER_WOKEN ? POLTER_RUNQUEUE : POLTER_PREEMPT;

    s->end_ns = end_ns;
    s->cpu = stay->cpu;
    s->segment = stay->segment;
    if (cpu) {
        polter_u64 head = POLTER_LOAD(cpu->head);
        if (head >= POLTER_LOG_SEGMENTS && s->segment <= head - POLTER_LOG_SEGMENTS) {
            struct polter_segment* oldest;
            s->segment = head - POLTER_LOG_SEGMENTS + 1;
            oldest = &cpu->log[s->segment & (POLTER_LOG_SEGMENTS - 1)];
            polter_waiting_give(w, oldest->start_ns, rest, -1, polter_unknown);
        }
        POLTER_REPEAT(POLTER_LOG_SEGMENTS, polter_waiting_step, w);
    }
    polter_waiting_give(w, end_ns, rest, -1, polter_unknown);
}

/* The thread leaves the CPU: `off` says why. */
POLTER_INLINE void polter_waiting_leave(struct polter_thread* thread, const struct polter_cpu* cpu, polter_u32 cpu_number, polter_u32 off,
                                        polter_u64 now_ns) {
    thread->off = off;
    thread->off_ns = now_ns;
    thread->stays = off == POLTER_PREEMPTED;
    thread->stay[0].from_ns = now_ns;
    thread->stay[0].segment = cpu->head; /* the one that begins now */
    thread->stay[0].cpu = cpu_number;
}

/* The thread is put on the queue of a CPU: woken, or moved there while it waits. */
POLTER_INLINE void polter_waiting_queue(struct polter_thread* thread, const struct polter_cpu* cpu, polter_u32 cpu_number, int woken,
                                        polter_u64 now_ns) {
    polter_u64 head = POLTER_LOAD(cpu->head);
    polter_u32 k;

    if (woken) {
        if (thread->off != POLTER_BLOCKED) return; /* was on its way to sleep and still runs, or waits already */
        thread->off = POLTER_WOKEN;
        thread->stays = 0;
    } else if (thread->off != POLTER_WOKEN && thread->off != POLTER_PREEMPTED) {
        return;
    }
    k = thread->stays;
    if (k >= POLTER_STAYS) {
        k = POLTER_STAYS - 1; /* too many moves: the last ones are one stay, whose beginning the log of its CPU does not name */
    } else {
        thread->stay[k & (POLTER_STAYS - 1)].from_ns = now_ns;
        thread->stays = k + 1;
    }
    thread->stay[k & (POLTER_STAYS - 1)].segment = head ? head - 1 : 0;
    thread->stay[k & (POLTER_STAYS - 1)].cpu = cpu_number;
}

/* The thread runs again: its wait is accounted and published. `split` is the CPU's scratch. */
POLTER_INLINE void polter_waiting_return(struct polter_thread* thread, struct polter_page* page, struct polter_split* split,
                                         polter_u64 now_ns) {
    struct polter_waiting w = {thread, page, split};
    polter_u32 stays = thread->stays;
    int outermost;

    if (thread->off == POLTER_RUNNING) POLTER_ADD(thread->master.unbalanced, 1ull); /* it was not seen to leave */
    if (thread->off == POLTER_RUNNING || thread->off == POLTER_BLOCKED) {
        thread->off = POLTER_RUNNING;
        return;
    }
    outermost = polter_publish_begin(thread);
    if (thread->off == POLTER_YIELDED) {
        POLTER_ADD(thread->master.after_yield_ns, now_ns > thread->off_ns ? now_ns - thread->off_ns : 0ull);
        POLTER_ADD(thread->master.yields, 1ull);
    } else {
        split->counted = 0;
        split->part_account = POLTER_ACCOUNT_SLOTS; /* none */
        split->part_tid = 0;
        if (thread->off == POLTER_THROTTLED) {
            split->part_from_ns = split->cursor_ns = thread->off_ns;
            split->end_ns = now_ns;
            polter_waiting_give(&w, now_ns, POLTER_THROTTLE, 0, thread->throttler);
        } else {
            split->part_from_ns = split->cursor_ns = thread->stay[0].from_ns;
            for (polter_u32 k = 0; k < POLTER_STAYS; k++) {
                if (k >= stays) break;
                polter_waiting_stay(&w, k, k + 1 < stays ? thread->stay[(k + 1) & (POLTER_STAYS - 1)].from_ns : now_ns);
            }
        }
        polter_waiting_flush(&w);
    }
    thread->off = POLTER_RUNNING;
    polter_publish_end(thread, page, outermost, now_ns);
}

/* A CPU begins to run a task; the includer fills in tid, tgid and comm of the segment that polter_waiting_next gives. */
POLTER_INLINE struct polter_segment* polter_waiting_next(struct polter_cpu* cpu) {
    struct polter_segment* segment = &cpu->log[cpu->head & (POLTER_LOG_SEGMENTS - 1)];
    POLTER_STORE(segment->number, 0ull);
    POLTER_BARRIER();
    return segment;
}
POLTER_INLINE void polter_waiting_logged(struct polter_cpu* cpu, struct polter_segment* segment, polter_u64 now_ns) {
    segment->start_ns = now_ns;
    POLTER_BARRIER();
    POLTER_STORE(segment->number, cpu->head + 1);
    POLTER_STORE(cpu->head, cpu->head + 1);
}

/* Whether a switch was not shown to the exporter: the task that leaves is not the one that was seen to come. */
POLTER_INLINE int polter_waiting_gap(const struct polter_cpu* cpu, polter_s32 leaving) {
    return cpu->head && cpu->log[(cpu->head - 1) & (POLTER_LOG_SEGMENTS - 1)].tid != leaving;
}

/* When the leaving task came, by `arrival_ns`, the kernel's own record of it; 0 if that is unknown or impossible. Then nobody knows who ran
 * how long since the last switch that was seen, and the log says so. */
POLTER_INLINE polter_u64 polter_waiting_came(struct polter_cpu* cpu, polter_u64 arrival_ns, polter_u64 now_ns) {
    struct polter_segment* last = &cpu->log[(cpu->head - 1) & (POLTER_LOG_SEGMENTS - 1)];
    const char* unknown = polter_unknown;

    if (arrival_ns >= last->start_ns && arrival_ns <= now_ns) return arrival_ns;
    last->tid = -1;
    last->tgid = 0;
    POLTER_HIDE(unknown);
    __builtin_memcpy(last->comm, unknown, POLTER_CULPRIT_LEN);
    return 0;
}

#endif
