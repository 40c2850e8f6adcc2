/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Scheduling: why a task leaves its CPU, on whose queue it waits, who runs. The programs of both objects; the object that includes them
 * brings, beside what ../accounting/waiting.h asks for,
 *   cpu_state(n)                      the state of CPU n; NULL: leave it alone
 *   may_wait(task)                    whether the waits of a task may be accounted; cheap
 *   waiter(task)                      the state of a task whose waits are accounted; NULL: of another
 *   leaver(cpu, task, gap)            the same of the one that leaves the CPU; `gap`: it was not seen to come
 *   goes(cpu, thread)                 that thread comes to the CPU, or none (NULL)
 *   known_as(cpu, task)               as whom the task was last opened on that CPU (polter_ran_open)
 *   reset(cpu, thread)                no interruption survives a switch; the thread, which leaves, may be NULL
 *   returns(thread, cpu, now)         the task's wait is over
 *   begins(thread, cpu, task, now)    and it has come to the CPU just now
 *   leaves(cpu, task)                 gives what the leaving task ran to another name, if it is to go by one
 *   owner_of(task)                    whose task it is; asked before all branches, since verifiers look long for the type behind a pointer
 *   owner_of_seldom(task)             the same
 *   runs(cpu, task, owner)            notes the task as the one that runs on the CPU
 */
#ifndef POLTER_SCHEDULING_BPF_H
#define POLTER_SCHEDULING_BPF_H

#include "arch.bpf.h"
#include "core_fixes.bpf.h"

/* Switches that no program was called for; see on_switch. */
unsigned long long unseen_switches;

/* A switch at which a thread leaves or may come, or waits for this CPU, or after one that was not shown (`gap`). Returns the one that
 * comes, which is looked up late: a verifier goes through all that follows once with it and once without. */
static __always_inline struct polter_thread* switched(struct polter_cpu* cpu, u32 number, struct polter_thread* thread, bool gap,
                                                      bool preempt, struct task_struct* prev, struct task_struct* next,
                                                      unsigned int prev_state) {
    u64 now = bpf_ktime_get_ns();

    reset(cpu, thread);
    if (gap) {
        /* There are kernels that do not call the tracepoint for each switch away from some tasks (seen on a 6.18 guest, not counted as
         * recursion by the kernel). What is missed is made good from the scheduler's own record of when this task came. */
        u64 came = polter_ran_came(cpu, task_arrival(prev, now), now);
        __sync_fetch_and_add(&unseen_switches, 1);
        if (thread && thread->off != POLTER_RUNNING) {
            if (came)
                returns(thread, cpu, came);
            else
                POLTER_ADD(thread->master.unbalanced, 1ull);
        }
        if (came) {
            runs(cpu, prev, owner_of_seldom(prev));
            polter_ran_found(cpu);
        }
    }
    if (!cpu->following && polter_ran_wanted(cpu)) polter_ran_follow(cpu, now);
    leaves(cpu, prev);
    if (cpu->following) polter_ran_close(cpu, now);
    if (thread) {
        u32 off = POLTER_PREEMPTED;
        if (!preempt && task_is_blocked(prev, prev_state)) {
            off = POLTER_BLOCKED;
        } else if (task_is_throttled(prev)) {
            off = POLTER_THROTTLED;
            task_throttler(prev, thread->throttler);
        } else if (!preempt && in_sched_yield(prev)) {
            off = POLTER_YIELDED;
        }
        polter_waiting_leave(thread, cpu, number, off, now);
    }
    struct polter_thread* coming = waiter(next);
    if (coming) {
        returns(coming, cpu, now);
        begins(coming, cpu, next, now);
    }
    return coming;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct* prev, struct task_struct* next, unsigned int prev_state) {
    u32 number = bpf_get_smp_processor_id();
    u32 owner = owner_of(next);
    struct polter_cpu* cpu = cpu_state(number);
    if (!cpu) return 0;

    bool gap = polter_ran_gap(cpu, known_as(cpu, prev));
    struct polter_thread* thread = leaver(cpu, prev, gap);
    struct polter_thread* coming = NULL;
    u32 busy = gap | may_wait(next) | cpu->depth | cpu->following | (cpu->waiting + cpu->moved);
    POLTER_HIDE(busy); /* else clang calculates with the pointer */
    if (thread || busy)
        coming = switched(cpu, number, thread, gap, preempt, prev, next, prev_state);
    else
        cpu->work = 0;
    goes(cpu, coming);
    runs(cpu, next, owner);
    return 0;
}

/* Woken, or moved to the queue of another CPU while it waits. Private state only: the thread's page belongs to the CPU it ran on. */
static __always_inline void queued(struct polter_thread* thread, u32 number, bool woken, bool made_way) {
    struct polter_cpu* cpu = cpu_state(number);
    if (cpu) polter_waiting_queue(thread, cpu, number, woken, made_way, bpf_ktime_get_ns());
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct* task) {
    struct polter_thread* thread = waiter(task);
    if (thread) queued(thread, task_cpu(task), true, task_makes_way_for(task));
    return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct* task, int dest_cpu) {
    struct polter_thread* thread = waiter(task);
    if (thread) queued(thread, dest_cpu, false, false);
    return 0;
}

#endif
