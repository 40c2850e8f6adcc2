/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Differences between kernels, 5.10 to 6.18, each in one place and found by what the headers have (Kbuild), never by version number.
 */
#ifndef POLTER_COMPAT_H
#define POLTER_COMPAT_H

#include <linux/binfmts.h>
#include <linux/cred.h>
#include <linux/kernel.h>
#include <linux/kernel_stat.h>
#include <linux/mm.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/task_stack.h>
#include <linux/shmem_fs.h>
#include <linux/user_namespace.h>
#include <asm/syscall.h>
#include <asm/unistd.h>
#if defined(CONFIG_X86) && defined(CONFIG_KVM_GUEST)
#include <asm/cpufeature.h>
#include <asm/processor.h>
/* 968e30006807 ("x86/cpuid: Set <asm/cpuid/api.h> as the main CPUID header", 6.16): <asm/processor.h> no longer brings it. */
#ifdef POLTER_HAVE_CPUID_API
#include <asm/cpuid/api.h>
#endif
#include <linux/kvm_para.h>
#endif

#include "../accounting/state.h"

/*
 * sched_switch passes the state that decided from fa2c3254d7cf ("sched/tracing: Don't re-read p->state when emitting sched_switch
 * event", 5.18) on, as its last argument by 9c2136be0878 ("sched/tracing: Append prev_state to tp args instead", 5.18). Before, the
 * state that may be read here can be that of a wake-up already; whether the task was taken off the queue tells the same.
 */
#ifdef POLTER_HAVE_SWITCH_STATE
#define POLTER_SWITCH_STATE_ARG , unsigned int prev_state
#define POLTER_SWITCH_STATE prev_state
#define POLTER_SWITCH_STATE_PASSED , prev_state
#else
#define POLTER_SWITCH_STATE_ARG
#define POLTER_SWITCH_STATE 1
#define POLTER_SWITCH_STATE_PASSED
#endif

/* 3e816361e94a ("sched/tracepoints: Move and extend the sched_process_exit() tracepoint", 6.16) */
#ifdef POLTER_HAVE_EXIT_GROUP_DEAD
#define POLTER_EXIT_GROUP_DEAD_ARG , bool group_dead
#else
#define POLTER_EXIT_GROUP_DEAD_ARG
#endif

/*
 * From 152e11f6df29 ("sched/fair: Implement delayed dequeue", 6.12) on, a task that blocks may stay on the queue for a while. A state
 * alone says nothing: a signal that was pending may have kept the task runnable.
 */
static inline bool polter_task_is_blocked(struct task_struct *task, unsigned int prev_state)
{
	if (!prev_state)
		return false;
	if (!READ_ONCE(task->on_rq))
		return true;
#ifdef POLTER_HAVE_SCHED_DELAYED
	return READ_ONCE(task->se.sched_delayed);
#else
	return false;
#endif
}

/*
 * The CPU quota. From e1fad12dcb66 ("sched/fair: Switch to task based throttle model", 6.18) on a throttled task is marked itself.
 * Before, the queue of the group whose quota is used up is taken off as a whole, while the tasks stay on theirs. (The count that the
 * scheduler keeps of it is in a structure that modules do not see.)
 */
static inline bool polter_task_is_throttled(struct task_struct *task)
{
#if defined(POLTER_HAVE_TASK_THROTTLED) && defined(CONFIG_CFS_BANDWIDTH)
	return READ_ONCE(task->throttled);
#elif defined(CONFIG_CFS_BANDWIDTH)
	struct sched_entity *group;

	if (!READ_ONCE(task->se.on_rq)) /* of another scheduling class, which has no such quota */
		return false;
	for (group = task->se.parent; group; group = group->parent)
		if (!READ_ONCE(group->on_rq))
			return true;
	return false;
#else
	return false;
#endif
}

/*
 * Whether a task that runs has been told to give way at once; for the one that is running on a CPU by its id, which may be out of date. Not
 * where the scheduler waits for the next tick or return to user space (CONFIG_PREEMPT_LAZY). Under RCU.
 */
static inline bool polter_task_makes_way(pid_t tid, unsigned int cpu)
{
	struct task_struct *task = current;

	if (cpu != raw_smp_processor_id()) {
		struct pid *pid = find_pid_ns(tid, &init_pid_ns);

		task = pid ? pid_task(pid, PIDTYPE_PID) : NULL;
		if (!task || task_cpu(task) != cpu)
			return false;
	}
	return test_tsk_need_resched(task);
}

/* The task's real user, which a set-user-id program does not change. Call under RCU. */
static inline u32 polter_task_owner(struct task_struct *task)
{
	return task->flags & PF_KTHREAD ? POLTER_OWNER_KERNEL : from_kuid(&init_user_ns, __task_cred(task)->uid);
}

/* When the task came to its CPU, in CLOCK_MONOTONIC; 0 where it is not known. The scheduler's record is on its own clock. */
static inline u64 polter_task_arrival(struct task_struct *task, u64 now)
{
#ifdef CONFIG_SCHED_INFO
	u64 clock = local_clock(), arrival = task->sched_info.last_arrival;

	if (task->pid && arrival && clock >= arrival && clock - arrival < now)
		return now - (clock - arrival);
#endif
	return 0;
}

/* Whether a task that is off the CPU left it by sched_yield. In an interrupt the system call number is -1. */
static inline bool polter_task_in_yield(struct task_struct *task)
{
	int number = syscall_get_nr(task, task_pt_regs(task));

#if defined(CONFIG_X86_64) && defined(CONFIG_IA32_EMULATION)
	/* arch/x86/entry/syscalls/syscall_32.tbl */
	if (task_thread_info(task)->status & TS_COMPAT)
		return number == 158;
#endif
	return number == __NR_sched_yield;
}

/* Whether a hypervisor reports stolen CPU time to this kernel. The kernel accounts stolen time under the same conditions; for KVM ask the
 * processor, since a machine that has just booted may not have accounted any yet.
 */
enum polter_hypervisor_above { POLTER_HYPERVISOR_NONE, POLTER_HYPERVISOR_TELLS, POLTER_HYPERVISOR_SILENT };

static inline enum polter_hypervisor_above polter_hypervisor_above(void)
{
	int cpu;

#ifdef CONFIG_X86
	if (!boot_cpu_has(X86_FEATURE_HYPERVISOR))
		return POLTER_HYPERVISOR_NONE;
#ifdef CONFIG_KVM_GUEST
	/* kvm_para_has_feature() is not for modules. */
	if (kvm_para_available() && cpuid_eax(KVM_CPUID_FEATURES) & 1u << KVM_FEATURE_STEAL_TIME)
		return POLTER_HYPERVISOR_TELLS;
#endif
#endif
	for_each_possible_cpu(cpu)
		if (kcpustat_cpu(cpu).cpustat[CPUTIME_STEAL])
			return POLTER_HYPERVISOR_TELLS;
	return POLTER_HYPERVISOR_SILENT;
}

/* From this CPU, so far, in nanoseconds. */
static inline u64 polter_stolen_from_cpu(void)
{
	return kcpustat_this_cpu->cpustat[CPUTIME_STEAL];
}

/* The name of a function, or its address where the kernel has no symbols. */
static inline void polter_symbol(char *to, size_t size, u64 function)
{
	snprintf(to, size, "%ps", (void *)(unsigned long)function);
}

/* An empty file owned by the kernel. A mapping's flags became a type of their own, vma_flags_t, in 7.x. */
static inline struct file *polter_empty_file(const char *name)
{
#ifdef POLTER_HAVE_SHMEM_VMA_FLAGS
	return shmem_file_setup(name, 0, EMPTY_VMA_FLAGS);
#else
	return shmem_file_setup(name, 0, 0);
#endif
}

/*
 * Memory that programs map, charged to the caller's memory cgroup. Before 18b2db3b0385 ("mm: Convert page kmemcg type to a page memcg
 * flag", 5.11) what is charged cannot be mapped: the mark of it lies where mappings are counted.
 */
#ifdef POLTER_HAVE_KMEMCG_PAGE_TYPE
#define POLTER_MAPPED_MEMORY GFP_KERNEL
#else
#define POLTER_MAPPED_MEMORY GFP_KERNEL_ACCOUNT
#endif

/* bc292ab00f6c ("mm: introduce vma->vm_flags wrapper functions", 6.3) */
#ifndef POLTER_HAVE_VM_FLAGS_SET
static inline void vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags |= flags;
}

static inline void vm_flags_clear(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags &= ~flags;
}
#endif

#endif
