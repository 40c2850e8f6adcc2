/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Differences between kernels, each in one place, found by the existence of fields, never by version number.
 * Tasks come typed from the tracepoints, so that fields are loaded directly; a helper call to read one would cost 15 ns in each switch.
 */
#ifndef POLTER_CORE_FIXES_BPF_H
#define POLTER_CORE_FIXES_BPF_H

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "../accounting/state.h"
#include "vmlinux.h"

/* task_struct.state became __state in 2f064a59a11f ("sched: Change task_struct::state", 5.14): not needed here, since sched_switch passes
 * the state that decided, from fa2c3254d7cf ("sched/tracing: Don't re-read p->state when emitting sched_switch event", 5.18) on. */

/* What is looked for, in one description of each structure: for each libbpf goes through all types of the kernel, which takes it 0.6 ms. No
 * kernel has all of it. */
struct rq___any {
    u64 clock;
    unsigned int clock_update_flags;
    u64 prev_steal_time;
    u64 prev_steal_time_rq;
} __attribute__((preserve_access_index));
struct cfs_rq___any {
    int throttle_count;
    struct rq___any* rq;
} __attribute__((preserve_access_index));
struct sched_entity___any {
    struct cfs_rq___any* cfs_rq;
    unsigned char sched_delayed;
} __attribute__((preserve_access_index));
struct sched_info___any {
    unsigned long long last_arrival;
} __attribute__((preserve_access_index));
struct thread_info___any {
    u32 cpu;
} __attribute__((preserve_access_index));
struct task_group___any;
struct task_struct___any {
    struct thread_info___any thread_info;
    unsigned int cpu;
    unsigned int on_rq; /* a u8 in 7.3: only a load of an unsigned field is made to fit another size */
    struct sched_entity___any se;
    bool throttled;
    struct sched_info___any sched_info;
    struct task_group___any* sched_task_group;
    int pid;
} __attribute__((preserve_access_index));

/* bcf9033e5449 ("sched: move CPU field back into thread_info if THREAD_INFO_IN_TASK=y", 5.16) */
static __always_inline u32 task_cpu(struct task_struct* task) {
    struct task_struct___any* t = (void*)task;
    return bpf_core_field_exists(t->cpu) ? t->cpu : t->thread_info.cpu;
}

/* 152e11f6df29 ("sched/fair: Implement delayed dequeue", 6.12): a task that blocks may stay on the queue. Before b9c55a8ad4b6-era fixes of
 * __schedule the tracepoint named a state although a pending signal had kept the task runnable; that shows in on_rq. */
static __always_inline bool task_is_blocked(struct task_struct* task, unsigned int prev_state) {
    struct task_struct___any* t = (void*)task;
    if (!prev_state) return false;
    if (!t->on_rq) return true;
    return bpf_core_field_exists(t->se.sched_delayed) && t->se.sched_delayed;
}

/* The CPU quota. From e1fad12dcb66 ("sched/fair: Switch to task based throttle model", 6.18) on a throttled task is marked itself; before,
 * its queue was taken off as a whole, by then counted in throttle_count of every queue below the one whose quota is used up. */
static __always_inline bool task_is_throttled(struct task_struct* task) {
    struct task_struct___any* t = (void*)task;
    if (bpf_core_field_exists(t->throttled)) return t->throttled;
    if (bpf_core_field_exists(struct cfs_rq___any, throttle_count) && bpf_core_field_exists(t->se.cfs_rq))
        return t->se.cfs_rq->throttle_count > 0;
    return false;
}

/* Whether the task that runs on the CPU of a task that is being woken has been told to give way at once. The run queue says so by leaving
 * out its clock's next update (RQCF_REQ_SKIP of kernel/sched/sched.h, 1 since 9edfbfed3f54, 4.1, which has its name by cb42c9a3ebbb, 4.9):
 * then the time until the switch is no run-delay either. Not where the scheduler waits for the next tick or return to user space
 * (CONFIG_PREEMPT_LAZY): there the clock goes on. */
static __always_inline bool task_makes_way_for(struct task_struct* woken) {
    struct task_struct___any* t = (void*)woken;
    if (!bpf_core_field_exists(t->se.cfs_rq) || !bpf_core_field_exists(struct cfs_rq___any, rq) ||
        !bpf_core_field_exists(struct rq___any, clock_update_flags))
        return false;
    return t->se.cfs_rq->rq->clock_update_flags & 1;
}

/* The task's real user, which a set-user-id program does not change. PF_KTHREAD has been this since 2.6.27. */
static __always_inline u32 task_owner(struct task_struct* task) {
    const struct cred* credentials = task->real_cred;
    return task->flags & 0x00200000 || !credentials ? POLTER_OWNER_KERNEL : credentials->uid.val;
}

/* The same through helpers, for rare calls: each pointer that is followed directly costs the verifier time. */
static __always_inline u32 task_owner_seldom(struct task_struct* task) {
    const struct cred* credentials = BPF_CORE_READ(task, real_cred);
    return task->flags & 0x00200000 || !credentials ? POLTER_OWNER_KERNEL : BPF_CORE_READ(credentials, uid.val);
}

/* When the task came to its CPU, in CLOCK_MONOTONIC: the scheduler's record is on the run queue's clock, which is of this moment in
 * sched_switch. 0 where there is none (CONFIG_SCHED_INFO, CONFIG_FAIR_GROUP_SCHED; the idle task). */
static __always_inline u64 task_arrival(struct task_struct* task, u64 now) {
    struct task_struct___any* t = (void*)task;
    if (!bpf_core_field_exists(t->sched_info.last_arrival) || !bpf_core_field_exists(t->se.cfs_rq) ||
        !bpf_core_field_exists(struct cfs_rq___any, rq) || t->pid == 0)
        return 0;
    u64 clock = BPF_CORE_READ(t, se.cfs_rq, rq, clock), arrival = t->sched_info.last_arrival;
    return arrival && clock >= arrival && clock - arrival < now ? now - (clock - arrival) : 0;
}

/* The time that the hypervisor has taken from the task's CPU, as the scheduler saw it last, which is at each tick and switch. With
 * CONFIG_PARAVIRT_TIME_ACCOUNTING (e6e6685accfa, 3.2) that is prev_steal_time_rq, else prev_steal_time, which the tick alone moves. (KVM's
 * own clock, steal_time, is finer, but kernels without CONFIG_KALLSYMS_ALL do not let programs have it.) */
static __always_inline u64 stolen_from_cpu_of(struct task_struct* task) {
    struct task_struct___any* t = (void*)task;
    if (!bpf_core_field_exists(t->se.cfs_rq) || !bpf_core_field_exists(struct cfs_rq___any, rq)) return 0;
    if (bpf_core_field_exists(struct rq___any, prev_steal_time_rq)) {
        u64 stolen = t->se.cfs_rq->rq->prev_steal_time_rq;
        if (stolen) return stolen;
    }
    return bpf_core_field_exists(struct rq___any, prev_steal_time) ? t->se.cfs_rq->rq->prev_steal_time : 0;
}

/* What handle_mm_fault returned (3d3539018d2c, 5.1, names the values): the locks were given up, and the fault is handled from the start. */
enum vm_fault_reason___retry { VM_FAULT_RETRY___retry };

static __always_inline bool fault_is_tried_again(unsigned int result) {
    return result & bpf_core_enum_value(enum vm_fault_reason___retry, VM_FAULT_RETRY___retry);
}

/* The name of the cgroup whose CPU controller a task is under; the nearest one, which need not be the one whose quota is used up. */
struct kernfs_node___name {
    const char* name;
} __attribute__((preserve_access_index));
struct cgroup___name {
    struct kernfs_node___name* kn;
} __attribute__((preserve_access_index));
struct cgroup_subsys_state___name {
    struct cgroup___name* cgroup;
} __attribute__((preserve_access_index));
struct task_group___any {
    struct cgroup_subsys_state___name css;
} __attribute__((preserve_access_index));

static __always_inline void task_throttler(struct task_struct* task, char name[POLTER_CULPRIT_LEN]) {
    struct task_struct___any* t = (void*)task;
    name[0] = 0;
    if (bpf_core_field_exists(t->sched_task_group)) {
        const char* from = BPF_CORE_READ(t, sched_task_group, css.cgroup, kn, name);
        if (from) bpf_probe_read_kernel_str(name, POLTER_CULPRIT_LEN, from);
    }
    if (!name[0]) {
        static const char unnamed[POLTER_CULPRIT_LEN] = "cpu quota";
        const char* from = unnamed;
        POLTER_HIDE(from);
        __builtin_memcpy(name, from, POLTER_CULPRIT_LEN);
    }
}

#endif
