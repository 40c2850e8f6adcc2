/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Time off the CPU: why a thread left it, on whose queue it waited, and who ran meanwhile.
 *
 * When a thread runs again, its wait is split by what its CPU ran meanwhile (ran.h) into one record for each task that ran in its place.
 * Where that history does not reach back far enough, the time goes to the right account under the name "unknown". The counters do not
 * depend on the history, except for the division between the job's own tasks and others. All of this runs under the run queue's lock.
 *
 * The includer defines
 *   POLTER_CPU(n)                     the state of CPU n, or NULL
 *   POLTER_JOB_OF(tgid)               the job of a registered process, 0 of any other
 *   POLTER_REPEAT(n, callback, ctx)   calls callback(i, ctx) for i < n until it returns nonzero
 * and, where the records do not go to a page, POLTER_PUBLISH_H with functions of its own in place of those of publish.h.
 */
#ifndef POLTER_WAITING_H
#define POLTER_WAITING_H

#include "publish.h"
#include "ran.h"

/* The pseudo-account of time after a sched_yield that tasks outside of the job did not take: it has no slot, see page.h. */
#define POLTER_AFTER_YIELD (POLTER_ACCOUNT_SLOTS + 1)

struct polter_waiting {
    struct polter_thread* thread;
    struct polter_page* page;
    struct polter_split* split;
};

/* Records the current part and begins an empty one. */
POLTER_CHECKED_ALONE int polter_waiting_flush(struct polter_thread* thread, struct polter_page* page, struct polter_split* s) {
    struct polter_culprit culprit;
    polter_u32 account;

    if (!thread || !s || POLTER_NO_PAGE(page)) return 0;
    account = s->part_account & (POLTER_ACCOUNT_SLOTS - 1);
    if (s->cursor_ns > s->part_from_ns && s->part_account == POLTER_AFTER_YIELD) {
        POLTER_ADD_ALONE(thread->master.after_yield_ns, s->cursor_ns - s->part_from_ns);
    } else if (s->cursor_ns > s->part_from_ns) {
        culprit.pid = s->part_tid;
        __builtin_memcpy(culprit.name, s->part_culprit, POLTER_CULPRIT_LEN);
        polter_publish_record(thread, page, s->cursor_ns, s->cursor_ns - s->part_from_ns, account, !(s->counted & (1u << account)),
                              &culprit, POLTER_ALONE);
        s->counted |= 1u << account;
    }
    s->part_from_ns = s->cursor_ns;
    return 0;
}

/* Books the time up to `until_ns` to a task. */
POLTER_INLINE void polter_waiting_give(struct polter_waiting* w, polter_u64 until_ns, polter_u32 account, polter_s32 tid, polter_u64 work,
                                       const char* name) {
    struct polter_split* s = w->split;

    if (until_ns > s->end_ns) until_ns = s->end_ns;
    if (until_ns <= s->cursor_ns) return;
    if (s->part_account != account || s->part_tid != tid || s->part_work != work) {
        polter_waiting_flush(w->thread, w->page, s);
        s->part_account = account;
        s->part_tid = tid;
        s->part_work = work;
        POLTER_HIDE(name);
        __builtin_memcpy(s->part_culprit, name, POLTER_CULPRIT_LEN);
    }
    s->cursor_ns = until_ns;
}

/* The account of what another task, or idleness, took of a wait. What a yield gives away to the own job is what it asked for; what a
 * stranger takes then it would have had back at once. */
POLTER_INLINE polter_u32 polter_waiting_account(const struct polter_thread* thread, polter_s32 tid, polter_u32 tgid) {
    int woken = thread->off == POLTER_WOKEN, yielded = thread->off == POLTER_YIELDED;

    if (tid == 0) return woken ? POLTER_WAKEUP : yielded ? POLTER_AFTER_YIELD : POLTER_PREEMPT;
    if (tid < 0 && yielded) return POLTER_AFTER_YIELD; /* task unknown: book no noise */
    if (tgid == thread->tgid || POLTER_JOB_OF(tgid) == thread->job) return yielded ? POLTER_AFTER_YIELD : POLTER_PREEMPT_JOB;
    return woken ? POLTER_RUNQUEUE : POLTER_PREEMPT;
}

/* The account of time whose tasks are no longer known. */
POLTER_INLINE polter_u32 polter_waiting_account_unknown(const struct polter_thread* thread) {
    return thread->off == POLTER_WOKEN ? POLTER_RUNQUEUE : thread->off == POLTER_YIELDED ? POLTER_AFTER_YIELD : POLTER_PREEMPT;
}

/* Other users' tasks form one culprit without name or id, unless the registered user may see their names. */
static const char polter_another_user[POLTER_CULPRIT_LEN] = POLTER_ANOTHER_USER;
#define POLTER_WORK_HIDDEN ~0ull /* not a function address: distinguishes hidden tasks from the idle task */

POLTER_INLINE int polter_waiting_may_name(const struct polter_thread* thread, const struct polter_ran* ran) {
    return thread->names || ran->owner == thread->owner || ran->owner == POLTER_OWNER_KERNEL;
}

/* Books the time up to `until_ns` to the task in `ran`. */
POLTER_CHECKED_ALONE int polter_waiting_give_to(struct polter_thread* thread, struct polter_page* page, struct polter_split* split,
                                                const struct polter_ran* ran, polter_u64 until_ns) {
    struct polter_waiting w = {thread, page, split};
    polter_u32 account;

    if (!thread || !split || !ran || POLTER_NO_PAGE(page)) return 0;
    account = split->gave_way ? (polter_u32)POLTER_WAKEUP : polter_waiting_account(thread, ran->tid, ran->tgid);
    if (polter_waiting_may_name(thread, ran))
        polter_waiting_give(&w, until_ns, account, ran->tid, ran->work, ran->comm);
    else
        polter_waiting_give(&w, until_ns, account, 0, POLTER_WORK_HIDDEN, polter_another_user);
    return 0;
}

/* One task of one window. */
static long polter_waiting_step(polter_u32 i, void* context) {
    struct polter_waiting* w = (struct polter_waiting*)context;
    struct polter_split* s = w->split;
    struct polter_stay* stay = &w->thread->stay[s->stay & (POLTER_STAYS - 1)];
    struct polter_cpu* cpu = POLTER_CPU(stay->cpu);
    polter_u64 number = s->window + i / POLTER_WINDOW_TASKS, ns;
    polter_u32 slot = i & (POLTER_WINDOW_TASKS - 1);
    int left = s->stay + 1 < w->thread->stays; /* another stay follows: this one ends before now */
    struct polter_window* window;
    struct polter_ran* ran;

    if (!cpu || s->cursor_ns >= s->end_ns) return 1;
    if (i == 0 && stay->by.ns && stay->by.tid != w->thread->tid)
        polter_waiting_give_to(w->thread, w->page, s, &stay->by, s->cursor_ns + stay->by.ns);
    if (left && number > stay->end.window) return 1;
    window = &cpu->window[number & (POLTER_WINDOWS - 1)];
    if (POLTER_LOAD(window->number) != number + 1) return 1;
    if (slot >= POLTER_LOAD(window->tasks)) return 0;
    ran = &window->task[slot];
    ns = left && number == stay->end.window ? stay->end.ran_ns[slot] : POLTER_LOAD(ran->ns);
    if (number == stay->begin.window) ns = ns > stay->begin.ran_ns[slot] ? ns - stay->begin.ran_ns[slot] : 0;
    if (!ns || ran->tid == w->thread->tid) return 0;
    polter_waiting_give_to(w->thread, w->page, s, ran, s->cursor_ns + ns);
    return 0;
}

/* Splits the stay `k` of the wait, which ends at `end_ns`. */
POLTER_INLINE void polter_waiting_stay(struct polter_waiting* w, polter_u32 k, polter_u64 end_ns) {
    struct polter_split* s = w->split;
    struct polter_stay* stay = &w->thread->stay[k & (POLTER_STAYS - 1)];
    struct polter_cpu* cpu = POLTER_CPU(stay->cpu);
    polter_u64 head = cpu ? POLTER_LOAD(cpu->head) : 0;

    s->end_ns = end_ns;
    s->stay = k;
    s->window = stay->begin.window;
    if (head > POLTER_WINDOWS && s->window < head - POLTER_WINDOWS) s->window = head - POLTER_WINDOWS;
    POLTER_REPEAT(POLTER_WINDOWS * POLTER_WINDOW_TASKS, polter_waiting_step, w);
    polter_waiting_give(w, end_ns, polter_waiting_account_unknown(w->thread), -1, 0, polter_unknown);
}

/* The thread waits for no CPU any more; it comes to the CPU `cpu_number` or leaves it. It may be given up at this moment: each count is
 * taken back once, since with a sum that is too low a CPU would keep no windows for who waits. */
POLTER_INLINE void polter_waiting_uncount(struct polter_thread* thread, struct polter_cpu* cpu, polter_u32 cpu_number) {
    polter_u32 on = POLTER_LOAD(thread->waits_on);

    if (on) on = POLTER_SWAP(thread->waits_on, 0u);
    if (on == cpu_number + 1) {
        cpu->waiting--;
    } else if (on) { /* a move to this CPU was not seen */
        cpu = POLTER_CPU(on - 1);
        if (cpu) POLTER_ADD(cpu->moved, -1u);
    }
}

/* The thread is accounted no more, wherever it is. */
POLTER_INLINE void polter_waiting_give_up(struct polter_thread* thread) {
    polter_u32 on = POLTER_SWAP(thread->waits_on, 0u);
    struct polter_cpu* cpu = on ? POLTER_CPU(on - 1) : (struct polter_cpu*)0;

    if (cpu) POLTER_ADD(cpu->moved, -1u);
}

/* A stay begins. */
POLTER_INLINE void polter_waiting_begin(struct polter_stay* stay, struct polter_cpu* cpu, polter_u32 cpu_number, polter_u64 now_ns) {
    stay->cpu = cpu_number;
    stay->begin_ns = now_ns;
    stay->by.ns = 0;
    polter_ran_mark(cpu, &stay->begin, now_ns);
}

/* The thread leaves the CPU, after polter_ran_close: `off` says why. */
POLTER_INLINE void polter_waiting_leave(struct polter_thread* thread, struct polter_cpu* cpu, polter_u32 cpu_number, polter_u32 off,
                                        polter_u64 now_ns) {
    thread->off = off;
    thread->off_ns = now_ns;
    thread->stolen_known = 0; /* until it is seen to come back */
    thread->stays = 0;
    polter_waiting_uncount(thread, cpu, cpu_number);
    if (off != POLTER_PREEMPTED && off != POLTER_YIELDED) return;
    if (!cpu->following) {
        polter_ran_follow(cpu, now_ns);
        polter_ran_close(cpu, now_ns);
    }
    cpu->waiting++;
    POLTER_STORE(thread->waits_on, cpu_number + 1);
    thread->stays = 1;
    thread->stay[0].from_ns = now_ns;
    polter_waiting_begin(&thread->stay[0], cpu, cpu_number, now_ns);
}

/* The stay ends. If it began before the CPU's windows had all that ran, the first task ran until they did, or until now. */
POLTER_CHECKED_ALONE int polter_waiting_before(struct polter_stay* stay, const struct polter_cpu* cpu, polter_u64 now_ns) {
    polter_u64 followed_ns;

    if (!stay || !cpu) return 0;
    followed_ns = POLTER_LOAD(cpu->followed_ns);
    if (!POLTER_LOAD(cpu->following) || POLTER_LOAD(cpu->first_is) == POLTER_FIRST_RUNS) {
        polter_ran_current(cpu, &stay->by, cpu->known && now_ns > stay->begin_ns ? now_ns - stay->begin_ns : 0);
    } else if (followed_ns > stay->begin_ns) {
        stay->by = cpu->first;
        stay->by.ns = followed_ns - stay->begin_ns;
    }
    return 0;
}

/* The thread is put on the queue of a CPU: woken, or moved there while it waits. `made_way`: woken, and the scheduler has told the task
 * that runs there to give way at once. */
POLTER_INLINE void polter_waiting_queue(struct polter_thread* thread, struct polter_cpu* cpu, polter_u32 cpu_number, int woken,
                                        int made_way, polter_u64 now_ns) {
    polter_u32 k;

    if (woken) {
        /* It was about to sleep and still runs, or it waits already. The same of one that has been registered while it ran, and whose state
         * is not known yet: who wakes itself does not have the run queue's lock. */
        if (thread->off != POLTER_BLOCKED || (cpu->known && cpu->tid == thread->tid)) return;
        thread->off = POLTER_WOKEN;
        thread->stays = 0;
    } else if (thread->off != POLTER_WOKEN && thread->off != POLTER_PREEMPTED && thread->off != POLTER_YIELDED) {
        return;
    }
    /* An idle CPU gives way at any time. */
    thread->made_way = made_way && cpu->known && cpu->tid != 0;
    k = thread->stays;
    if (k > 0 && k <= POLTER_STAYS) {
        struct polter_stay* left = &thread->stay[(k - 1) & (POLTER_STAYS - 1)];
        struct polter_cpu* from = POLTER_CPU(left->cpu);
        if (from) {
            polter_waiting_before(left, from, now_ns);
            polter_ran_mark(from, &left->end, now_ns);
        }
    }
    if (woken) { /* under the run queue's lock */
        if (!cpu->following) polter_ran_follow(cpu, now_ns);
        cpu->waiting++;
    } else { /* under that of the CPU that is left; this one begins with its windows at its next switch */
        polter_waiting_give_up(thread);
        POLTER_ADD(cpu->moved, 1u);
    }
    POLTER_STORE(thread->waits_on, cpu_number + 1);
    if (k >= POLTER_STAYS) {
        k = POLTER_STAYS - 1; /* too many moves: merge the last ones into one stay, of which only the last CPU's part is known */
    } else {
        thread->stay[k & (POLTER_STAYS - 1)].from_ns = now_ns;
        thread->stays = k + 1;
    }
    polter_waiting_begin(&thread->stay[k & (POLTER_STAYS - 1)], cpu, cpu_number, now_ns);
}

/* Where one task alone ran on one CPU for the whole of the wait, which most waits are, it is the one that leaves the CPU now, and there is
 * nothing to split. */
POLTER_INLINE const struct polter_ran* polter_waiting_only_one(const struct polter_thread* thread, struct polter_cpu* cpu,
                                                               polter_u32 cpu_number) {
    const struct polter_ran* ran =
        cpu->first_is == POLTER_FIRST_LEAVES ? &cpu->first : &polter_ran_newest(cpu)->task[cpu->running & (POLTER_WINDOW_TASKS - 1)];

    return thread->stays == 1 && thread->stay[0].cpu == cpu_number && (cpu->head || cpu->first_is == POLTER_FIRST_LEAVES) &&
                   cpu->came_ns <= thread->stay[0].from_ns && ran->tid != thread->tid
               ? ran
               : (const struct polter_ran*)0;
}

/* Splits the wait by the tasks that ran meanwhile. */
POLTER_INLINE void polter_waiting_split(struct polter_waiting* w, struct polter_cpu* cpu, polter_u32 cpu_number, polter_u64 now_ns) {
    struct polter_thread* thread = w->thread;
    struct polter_split* split = w->split;
    const struct polter_ran* one = polter_waiting_only_one(thread, cpu, cpu_number);
    polter_u32 stays = thread->stays;

    split->part_from_ns = split->cursor_ns = thread->stay[0].from_ns;
    if (one) {
        split->end_ns = now_ns;
        split->gave_way = thread->off == POLTER_WOKEN && thread->made_way;
        polter_waiting_give_to(thread, w->page, split, one, now_ns);
        return;
    }
    if (stays > 0 && stays <= POLTER_STAYS) {
        struct polter_stay* last = &thread->stay[(stays - 1) & (POLTER_STAYS - 1)];
        polter_waiting_before(last, POLTER_CPU(last->cpu), now_ns);
    }
    for (polter_u32 k = 0; k < POLTER_STAYS; k++) {
        if (k >= stays) break;
        polter_waiting_stay(w, k, k + 1 < stays ? thread->stay[(k + 1) & (POLTER_STAYS - 1)].from_ns : now_ns);
    }
}

/* The thread runs again, on the CPU `cpu_number`, after polter_ran_close: its wait is accounted and published. */
POLTER_INLINE void polter_waiting_return(struct polter_thread* thread, struct polter_page* page, struct polter_cpu* cpu,
                                         polter_u32 cpu_number, polter_u64 now_ns) {
    struct polter_split* split = &cpu->split;
    struct polter_waiting w = {thread, page, split};
    int outermost;

    polter_waiting_uncount(thread, cpu, cpu_number);
    if (thread->off == POLTER_RUNNING) { /* its departure was not seen */
        POLTER_ADD(thread->master.unbalanced, 1ull);
        POLTER_STORE(thread->fault_ns, 0ull);
    }
    if (thread->off == POLTER_RUNNING || thread->off == POLTER_BLOCKED) {
        thread->off = POLTER_RUNNING;
        return;
    }
    outermost = polter_publish_begin(thread, POLTER_ALONE);
    split->counted = 0;
    split->gave_way = 0;
    split->part_account = POLTER_ACCOUNT_SLOTS; /* none */
    split->part_tid = 0;
    split->part_work = 0;
    if (thread->off == POLTER_THROTTLED) {
        split->part_from_ns = split->cursor_ns = thread->off_ns;
        split->end_ns = now_ns;
        polter_waiting_give(&w, now_ns, POLTER_THROTTLE, 0, 0, thread->throttler);
    } else {
        polter_waiting_split(&w, cpu, cpu_number, now_ns);
    }
    polter_waiting_flush(thread, page, split);
    /* Each time it is taken off the CPU while runnable counts once: as a yield, or as a preemption. */
    if (thread->off == POLTER_YIELDED && !(split->counted & (1u << POLTER_PREEMPT))) POLTER_ADD_ALONE(thread->master.yields, 1ull);
    thread->off = POLTER_RUNNING;
    polter_publish_end(thread, page, outermost, now_ns, POLTER_ALONE);
}

#endif
