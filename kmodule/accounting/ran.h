/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What a CPU ran lately: a ring of windows, each with the time of up to eight tasks. A switch to a task that the newest window knows makes
 * no new window, so that tasks which give way to each other a thousand times in a millisecond (ranks of an oversubscribed job that poll and
 * yield) do not overwrite the windows that a wait needs. A wait is measured from a mark: what each task had run when it began. All of
 * this runs under the CPU's run queue lock, except for marks of a CPU to which a thread is being moved: there the division among tasks
 * may be off by one time slice, never the total.
 *
 * Windows are kept (`following`) only while a registered thread waits for the CPU; at other switches the CPU just notes who comes. The task
 * that runs when somebody begins to wait is noted as the first one, and the windows have those that come after it.
 *
 * The includer may define POLTER_RAN_HOOK(cpu, ran, ns), called when the current task, with the entry `ran`, has run for `ns`.
 */
#ifndef POLTER_RAN_H
#define POLTER_RAN_H

#include "state.h"

#ifndef POLTER_RAN_HOOK
#define POLTER_RAN_HOOK(cpu, ran, ns) (void)0
#endif

POLTER_INLINE struct polter_window* polter_ran_newest(struct polter_cpu* cpu) {
    return &cpu->window[(cpu->head - 1) & (POLTER_WINDOWS - 1)];
}

/* Whether anybody waits for this CPU. */
POLTER_INLINE int polter_ran_wanted(const struct polter_cpu* cpu) {
    return POLTER_LOAD(cpu->waiting) + POLTER_LOAD(cpu->moved) != 0;
}

/* From now on windows are kept on this CPU, whoever waits. */
POLTER_INLINE void polter_ran_always(struct polter_cpu* cpu) {
    cpu->waiting = 1u << 30; /* more than can wait, so that no sum is 0 */
    cpu->following = 1;
}

/* The current task has run until now. */
POLTER_INLINE void polter_ran_close(struct polter_cpu* cpu, polter_u64 now_ns) {
    struct polter_ran* ran = &polter_ran_newest(cpu)->task[cpu->running & (POLTER_WINDOW_TASKS - 1)];

    if (cpu->first_is == POLTER_FIRST_RUNS) {
        cpu->first_is = POLTER_FIRST_LEAVES;
        POLTER_STORE(cpu->followed_ns, now_ns);
        cpu->came_ns = cpu->since_ns;
        cpu->since_ns = now_ns;
        return;
    }
    cpu->first_is = POLTER_FIRST_GONE;
    if (cpu->head && now_ns > cpu->since_ns) {
        POLTER_STORE(ran->ns, ran->ns + (now_ns - cpu->since_ns));
        POLTER_RAN_HOOK(cpu, ran, now_ns - cpu->since_ns);
    }
    cpu->came_ns = cpu->since_ns;
    cpu->since_ns = now_ns;
}

/* The task's index among the first `tasks` entries of a window; POLTER_WINDOW_TASKS if it is not there. */
POLTER_CHECKED_ALONE polter_u32 polter_ran_find(const struct polter_window* window, polter_u32 tasks, polter_s32 tid, polter_u64 work) {
    polter_u32 slot = POLTER_WINDOW_TASKS;

    if (!window) return slot;
    POLTER_UNROLL
    for (polter_u32 i = 0; i < POLTER_WINDOW_TASKS; i++)
        if (i < tasks && window->task[i].tid == tid && window->task[i].work == work) slot = i;
    return slot;
}

/* Called after polter_ran_close: a task begins to run now. Called before it: the leaving task turns out to have done `work`, and its run
 * time since it came is booked there. The includer fills in the name. */
POLTER_INLINE struct polter_ran* polter_ran_open_as(struct polter_cpu* cpu, polter_s32 tid, polter_u32 tgid, polter_u32 owner,
                                                    polter_u64 work) {
    struct polter_window* window = polter_ran_newest(cpu);
    polter_u32 tasks = cpu->head ? window->tasks : POLTER_WINDOW_TASKS, slot = polter_ran_find(window, cpu->head ? tasks : 0, tid, work);
    struct polter_ran* ran;

    if (slot >= POLTER_WINDOW_TASKS) slot = tasks;
    if (slot >= POLTER_WINDOW_TASKS) {
        window = &cpu->window[cpu->head & (POLTER_WINDOWS - 1)];
        POLTER_STORE(window->number, 0ull);
        POLTER_BARRIER();
        window->tasks = tasks = slot = 0;
        POLTER_BARRIER();
        POLTER_STORE(window->number, cpu->head + 1);
        POLTER_STORE(cpu->head, cpu->head + 1);
    }
    POLTER_HIDE(slot); /* else the mask is optimised away, and verifiers before 6.8 do not see the bound */
    ran = &window->task[slot & (POLTER_WINDOW_TASKS - 1)];
    if (slot == tasks) {
        ran->ns = 0;
        ran->work = work;
        ran->tid = tid;
        POLTER_BARRIER();
        POLTER_STORE(window->tasks, tasks + 1);
    }
    ran->tgid = tgid;
    ran->owner = owner;
    cpu->running = slot;
    cpu->tid = tid;
    cpu->known = 1;
    return ran;
}

POLTER_INLINE struct polter_ran* polter_ran_open(struct polter_cpu* cpu, polter_s32 tid, polter_u32 tgid, polter_u32 owner) {
    return polter_ran_open_as(cpu, tid, tgid, owner, 0);
}

/* Notes the task that comes to the CPU. The includer fills in cpu->comm, then calls polter_ran_go_on. */
POLTER_INLINE void polter_ran_come(struct polter_cpu* cpu, polter_s32 tid, polter_u32 tgid, polter_u32 owner) {
    cpu->tid = tid;
    cpu->tgid = tgid;
    cpu->owner = owner;
    cpu->known = 1;
}

static const char polter_unknown[POLTER_CULPRIT_LEN] = "unknown";

/* It is not known who runs. */
POLTER_INLINE void polter_ran_come_unknown(struct polter_cpu* cpu) {
    const char* unknown = polter_unknown;

    polter_ran_come(cpu, -1, 0, POLTER_OWNER_KERNEL);
    POLTER_HIDE(unknown);
    __builtin_memcpy(cpu->comm, unknown, POLTER_CULPRIT_LEN);
}

/* The current task as one that ran for `ns`. */
POLTER_INLINE void polter_ran_current(const struct polter_cpu* cpu, struct polter_ran* ran, polter_u64 ns) {
    ran->ns = ns;
    ran->tid = cpu->tid;
    ran->tgid = cpu->tgid;
    ran->work = 0;
    ran->owner = cpu->owner;
    __builtin_memcpy(ran->comm, cpu->comm, POLTER_CULPRIT_LEN);
}

POLTER_CHECKED_ALONE int polter_ran_open_current(struct polter_cpu* cpu) {
    struct polter_ran* ran;

    if (!cpu) return 0;
    ran = polter_ran_open(cpu, cpu->tid, cpu->tgid, cpu->owner);
    __builtin_memcpy(ran->comm, cpu->comm, POLTER_CULPRIT_LEN);
    return 0;
}

/* The current task has come, after polter_ran_close if windows are kept: it has its place there, or they end since nobody waits any more.
 */
POLTER_INLINE void polter_ran_go_on(struct polter_cpu* cpu) {
    /* Whoever has been moved here just now is found at the next switch; the first one is in no window. */
    if (!cpu->following || cpu->first_is == POLTER_FIRST_RUNS) return;
    if (polter_ran_wanted(cpu))
        polter_ran_open_current(cpu);
    else
        POLTER_STORE(cpu->following, 0u);
}

/* From now on windows are kept. Under the run queue's lock. */
POLTER_INLINE void polter_ran_follow(struct polter_cpu* cpu, polter_u64 now_ns) {
    if (!cpu->known) polter_ran_come_unknown(cpu);
    polter_ran_current(cpu, &cpu->first, 0);
    cpu->since_ns = cpu->came_ns = now_ns;
    POLTER_STORE(cpu->first_is, (polter_u32)POLTER_FIRST_RUNS);
    POLTER_BARRIER();
    POLTER_STORE(cpu->following, 1u);
}

/* The task that leaves, a kworker, has done `work` since it came, and goes by its name. Before polter_ran_close. A mark made meanwhile has
 * its time under the task's own name. */
POLTER_INLINE void polter_ran_did(struct polter_cpu* cpu, polter_s32 tid, polter_u32 tgid, polter_u64 work, const char* name) {
    if (cpu->first_is == POLTER_FIRST_RUNS) {
        cpu->first.work = work;
        __builtin_memcpy(cpu->first.comm, name, POLTER_CULPRIT_LEN);
    } else {
        struct polter_ran* ran = polter_ran_open_as(cpu, tid, tgid, POLTER_OWNER_KERNEL, work);

        __builtin_memcpy(ran->comm, name, POLTER_CULPRIT_LEN);
    }
}

POLTER_CHECKED_ALONE int polter_ran_mark(struct polter_cpu* cpu, struct polter_mark* mark, polter_u64 now_ns) {
    struct polter_window* window;
    polter_u32 tasks, running, following;
    polter_u64 since;

    if (!cpu || !mark) return 0;
    window = polter_ran_newest(cpu);
    tasks = cpu->head ? POLTER_LOAD(window->tasks) : 0;
    running = POLTER_LOAD(cpu->running);
    following = POLTER_LOAD(cpu->following) && POLTER_LOAD(cpu->first_is) != POLTER_FIRST_RUNS;
    since = POLTER_LOAD(cpu->since_ns);
    mark->window = cpu->head ? cpu->head - 1 : 0;
    POLTER_UNROLL
    for (polter_u32 i = 0; i < POLTER_WINDOW_TASKS; i++) {
        polter_u64 ns = i < tasks ? POLTER_LOAD(window->task[i].ns) : 0;
        if (i < tasks && i == running && following && now_ns > since) ns += now_ns - since;
        mark->ran_ns[i] = ns;
    }
    return 0;
}

/* Whether the tracepoint missed a switch: the task that leaves is not the one last seen to come. */
POLTER_INLINE int polter_ran_gap(struct polter_cpu* cpu, polter_s32 leaving) {
    return cpu->known && cpu->tid != leaving;
}

/* Handles a missed switch: the leaving task came at `arrival_ns` by the kernel's own record, and the previous one ran until then. Returns
 * that time, or 0 if it is unknown or impossible; then the task that ran since the last reported switch is unknown. If not 0, the includer
 * opens the leaving task and calls polter_ran_found. */
POLTER_INLINE polter_u64 polter_ran_came(struct polter_cpu* cpu, polter_u64 arrival_ns, polter_u64 now_ns) {
    int first = cpu->following && cpu->first_is == POLTER_FIRST_RUNS;

    if (arrival_ns && arrival_ns <= now_ns) {
        if (!cpu->following || (first && arrival_ns < cpu->since_ns)) return arrival_ns;
        if (arrival_ns >= cpu->since_ns) {
            polter_ran_close(cpu, arrival_ns);
            return arrival_ns;
        }
    }
    polter_ran_come_unknown(cpu);
    if (!cpu->following) return 0;
    if (first)
        polter_ran_current(cpu, &cpu->first, 0);
    else
        polter_ran_open_current(cpu);
    polter_ran_close(cpu, now_ns);
    return 0;
}

/* The task that runs is known again. If it is the first one, it had come before anybody waited. */
POLTER_INLINE void polter_ran_found(struct polter_cpu* cpu) {
    if (cpu->first_is == POLTER_FIRST_RUNS) polter_ran_current(cpu, &cpu->first, 0);
}

#endif
