// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The kernel's events. Each probe finds the registered thread that it is about, calls one function of the accounting and returns;
 * anything else is left alone after one look at what the CPU's state says of it. The same as ../bpf/polter.bpf.c, event by event.
 */
#include <linux/cpumask.h>
#include <linux/cgroup.h>
#include <linux/hash.h>
#include <linux/interrupt.h>
#include <linux/kernfs.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/timekeeping.h>

#include "compat.h"
#include "polter.h"
#include "../accounting/started.h"

/* Indexed by number: a thread that moved while it waited reads the log of the CPU that it left. */
static struct polter_cpu **cpus;
static u64 unseen_switches;
static struct polter_started started[POLTER_STARTED_BUCKETS];
static u32 started_seed __read_mostly;

static __always_inline struct polter_cpu *cpu_state(u32 cpu)
{
	return likely(cpu < nr_cpu_ids) ? cpus[cpu] : NULL;
}

static __always_inline struct polter_started *started_bucket(u32 tgid)
{
	return polter_started_bucket(started, started_seed, tgid);
}

static __always_inline u64 job_of(u32 tgid)
{
	struct polter_group *group = polter_find_group(tgid);

	return group ? group->process.job : polter_started_job(started_bucket(tgid), tgid);
}

static __always_inline void repeat(u32 n, long (*callback)(u32 i, void *context), void *context)
{
	u32 i;

	for (i = 0; i < n; i++)
		if (callback(i, context))
			return;
}

#define POLTER_NOW() ktime_get_mono_fast_ns()
#define POLTER_CPU(n) cpu_state(n)
#define POLTER_JOB_OF(tgid) job_of(tgid)
#define POLTER_REPEAT(n, callback, context) repeat(n, callback, context)
#include "../accounting/culprits.h"
#include "../accounting/nesting.h"
#include "../accounting/steal.h"
#include "../accounting/waiting.h"

/*
 * A thread that is not the leader loses its id when it executes another program; on_exec is called later, much later where reading the
 * program takes long. So the tid alone does not identify the thread. The tgid does: it is unique as long as the process lives.
 */
static __always_inline struct polter_member *member_known_as(pid_t tid, pid_t tgid)
{
	struct polter_member *member = tid ? polter_find_member(tid) : NULL;

	return member && !READ_ONCE(member->thread.gone) && member->thread.tgid == (u32)tgid ? member : NULL;
}

static __always_inline struct polter_member *member_of(struct task_struct *task)
{
	return member_known_as(task->pid, task->tgid);
}

/* Whether the task that comes to a CPU may be a member: nearly always the table has nothing at its place. */
static __always_inline struct polter_member *member_if_any(struct task_struct *task)
{
	return polter_members_at(task->pid) ? member_of(task) : NULL;
}

/* As the CPU's state has it, of the table's present generation. */
static __always_inline struct polter_member *member_named(u64 name, pid_t tid, pid_t tgid)
{
	struct polter_member *member = (struct polter_member *)(unsigned long)name;

	if (!member || READ_ONCE(member->thread.gone) || member->thread.tid != tid || member->thread.tgid != (u32)tgid)
		return NULL;
	return member;
}

static __always_inline u64 name_of(struct polter_member *member)
{
	return (u64)(unsigned long)member;
}

/* The table has changed, or a switch was not shown, so that the CPU's state is not of the task that runs. */
static noinline struct polter_member *look_up_here(struct polter_cpu *cpu)
{
	u32 generation = smp_load_acquire(&polter_generation);
	struct polter_member *member = member_of(current);

	if (cpu->known && cpu->tid == current->pid) {
		POLTER_STORE(cpu->thread, name_of(member));
		POLTER_BARRIER();
		POLTER_STORE(cpu->generation, generation);
	}
	return member;
}

/* The member that runs on this CPU. */
static __always_inline struct polter_member *member_here(struct polter_cpu *cpu)
{
	bool known = POLTER_LOAD(cpu->generation) == READ_ONCE(polter_generation);
	u64 name = POLTER_LOAD(cpu->thread);

	if (known && cpu->known && cpu->tid == current->pid) {
		struct polter_member *member = member_named(name, current->pid, current->tgid);

		if (member || !name)
			return member;
	}
	return look_up_here(cpu);
}

static __always_inline struct polter_member *leaver(struct polter_cpu *cpu, struct task_struct *task, bool gap)
{
	u32 generation = smp_load_acquire(&polter_generation);
	bool known = !gap && cpu->known && cpu->generation == generation;

	cpu->generation = generation; /* read before the table is, for the task that comes */
	return known ? member_named(cpu->thread, task->pid, task->tgid) : member_of(task);
}

/* `alone`: see publish.h; softirqs run with interrupts on. */
static __always_inline void record(struct polter_member *member, u64 end, u64 duration, u32 account,
				   const struct polter_culprit *culprit, int alone)
{
	int outermost = polter_publish_begin(&member->thread, alone);

	if (polter_publish_has_nmi(&member->thread))
		polter_publish_noted_nmi(&member->thread, member->page, &polter_nmi, alone);
	polter_publish_record(&member->thread, member->page, end, duration, account, 1, culprit, alone);
	polter_publish_end(&member->thread, member->page, outermost, end, alone);
}

/* ---- time stolen by the hypervisor ---- */

/* Whether a hypervisor reports stolen time; set before anything is attached. */
static bool has_steal __read_mostly;

/* Called when an interruption of `member` that is nested in no other one ends. */
static __always_inline void look_for_steal(struct polter_member *member, struct polter_cpu *cpu)
{
	u64 taken;

	/* Stolen time advances only at timer ticks, of which there are at most a thousand a second. */
	if (cpu->frame[0].began_ns - cpu->steal_look_ns < 500000)
		return;
	cpu->steal_look_ns = cpu->frame[0].began_ns;
	taken = polter_steal_look(cpu, &member->thread, polter_stolen_from_cpu(), &cpu->frame[0]);
	if (taken)
		record(member, cpu->frame[0].began_ns, taken, POLTER_STEAL, &polter_hypervisor, POLTER_ALONE);
}

/* ---- kernel workers are named by the function they execute ---- */

#define WORK_NAMES 32 /* a power of two */

/* A symbol lookup takes a microsecond, so each CPU caches the names. Accessed under its run queue's lock. */
struct work_names {
	struct {
		u64 function;
		char name[POLTER_CULPRIT_LEN];
	} known[WORK_NAMES];
};

static struct work_names **work_names;

static void on_work(void *data, struct work_struct *work)
{
	struct polter_cpu *cpu = cpu_state(raw_smp_processor_id());

	/* Keep the first work item: flushers queue barrier items behind it. */
	if (!cpu->work)
		cpu->work = (u64)(unsigned long)work->func;
}

/* A kworker leaves the CPU. Call before polter_ran_close. */
static noinline void name_work(struct polter_cpu *cpu, u32 number, struct task_struct *task)
{
	u64 function = cpu->work;
	unsigned int slot = hash_64(function, 16) & (WORK_NAMES - 1);
	char symbol[64];

	cpu->work = 0;
	if (work_names[number]->known[slot].function != function) {
		polter_symbol(symbol, sizeof(symbol), function);
		if (!symbol[0] || (symbol[0] == '0' && symbol[1] == 'x'))
			return; /* no symbols: keep the kworker's own name */
		memset(work_names[number]->known[slot].name, 0, POLTER_CULPRIT_LEN);
		strscpy(work_names[number]->known[slot].name, symbol, POLTER_CULPRIT_LEN);
		work_names[number]->known[slot].function = function;
	}
	polter_ran_did(cpu, task->pid, task->tgid, function, work_names[number]->known[slot].name);
}

/* ---- scheduling ---- */

static noinline void returns(struct polter_member *member, struct polter_cpu *cpu, u64 now)
{
	polter_waiting_return(&member->thread, member->page, cpu, raw_smp_processor_id(), now);
}

static __always_inline void runs(struct polter_cpu *cpu, struct task_struct *task)
{
	polter_ran_come(cpu, task->pid, task->tgid, polter_task_owner(task));
	memcpy(cpu->comm, task->comm, sizeof(cpu->comm));
	polter_ran_go_on(cpu);
}

/* The cgroup whose CPU controller the task is under; the nearest one, which need not be the one whose quota is used up. */
static void name_throttler(struct task_struct *task, char name[POLTER_CULPRIT_LEN])
{
	const char *from = NULL;

#ifdef CONFIG_CGROUP_SCHED
	/* Under the run queue's lock, so the task stays in its cgroup. */
	struct cgroup_subsys_state *css = task_css_check(task, cpu_cgrp_id, true);

	if (css && css->cgroup && css->cgroup->kn)
		from = css->cgroup->kn->name;
#endif
	memset(name, 0, POLTER_CULPRIT_LEN);
	strscpy(name, from && *from ? from : "cpu quota", POLTER_CULPRIT_LEN);
}

/* A switch at which a member leaves or comes, or waits for this CPU, or after one that was not shown (`gap`). */
static noinline void switched(struct polter_cpu *cpu, struct polter_member *member, struct polter_member *coming, bool gap, bool preempt,
			      struct task_struct *prev POLTER_SWITCH_STATE_ARG)
{
	u64 now = ktime_get_mono_fast_ns();
	u32 number = raw_smp_processor_id(), off = POLTER_PREEMPTED;

	polter_nesting_reset(cpu, member ? &member->thread : NULL);
	if (unlikely(gap)) {
		/* The tracepoint did not report a switch: recover it from the scheduler's own record of when this task came. */
		u64 came = polter_ran_came(cpu, polter_task_arrival(prev, now), now);

		POLTER_ADD(unseen_switches, 1ull);
		if (member && member->thread.off != POLTER_RUNNING) {
			if (came)
				returns(member, cpu, came);
			else
				POLTER_ADD(member->thread.master.unbalanced, 1ull);
		}
		if (came) {
			runs(cpu, prev);
			polter_ran_found(cpu);
		}
	}
	if (!cpu->following && polter_ran_wanted(cpu))
		polter_ran_follow(cpu, now);
	if (cpu->work && cpu->following)
		name_work(cpu, number, prev);
	cpu->work = 0;
	if (cpu->following)
		polter_ran_close(cpu, now);
	if (member) {
		if (!preempt && polter_task_is_blocked(prev, POLTER_SWITCH_STATE)) {
			off = POLTER_BLOCKED;
		} else if (polter_task_is_throttled(prev)) {
			off = POLTER_THROTTLED;
			name_throttler(prev, member->thread.throttler);
		} else if (!preempt && polter_task_in_yield(prev)) {
			off = POLTER_YIELDED;
		}
		polter_waiting_leave(&member->thread, cpu, number, off, now);
	}
	if (coming) {
		returns(coming, cpu, now);
		if (has_steal)
			polter_steal_begin(cpu, &coming->thread, polter_stolen_from_cpu(), now, polter_steal_interrupted(&coming->thread));
	}
}

static void on_switch(void *data, bool preempt, struct task_struct *prev, struct task_struct *next POLTER_SWITCH_STATE_ARG)
{
	struct polter_cpu *cpu = cpu_state(raw_smp_processor_id());
	bool gap = polter_ran_gap(cpu, prev->pid);
	struct polter_member *member = leaver(cpu, prev, gap), *coming = member_if_any(next);

	if (member || coming || gap || cpu->depth || cpu->following || polter_ran_wanted(cpu))
		switched(cpu, member, coming, gap, preempt, prev POLTER_SWITCH_STATE_PASSED);
	else
		cpu->work = 0;
	cpu->thread = name_of(coming);
	runs(cpu, next);
}

/* Woken, or moved to the queue of another CPU while it waits. Private state only: the thread's page belongs to the CPU it ran on. */
static void queued(struct task_struct *task, u32 number, int woken)
{
	struct polter_member *member = member_if_any(task);
	struct polter_cpu *cpu = member ? cpu_state(number) : NULL;
	pid_t running;

	if (!cpu)
		return;
	running = cpu->known ? cpu->tid : 0;
	polter_waiting_queue(&member->thread, cpu, number, woken, woken && running && polter_task_makes_way(running, number),
			     ktime_get_mono_fast_ns());
}

static void on_wakeup(void *data, struct task_struct *task)
{
	queued(task, task_cpu(task), 1);
}

static void on_migrate(void *data, struct task_struct *task, int dest_cpu)
{
	queued(task, dest_cpu, 0);
}

void polter_member_waits_no_more(struct polter_member *member)
{
	polter_waiting_give_up(&member->thread);
}

static noinline void end_member(struct polter_member *member)
{
	int outermost = polter_publish_begin(&member->thread, POLTER_NESTED);

	polter_publish_end(&member->thread, member->page, outermost, ktime_get_mono_fast_ns(), POLTER_NESTED);
	polter_member_exits(member);
}

/* All descendants of a measured process belong to its job, whatever they execute. */
static void on_fork(void *data, struct task_struct *parent, struct task_struct *child)
{
	struct polter_group *group;
	u64 job;

	if (parent->tgid == child->tgid)
		return; /* a thread */
	group = polter_find_group(parent->tgid);
	if (group && READ_ONCE(group->process.measured))
		job = group->process.job;
	else
		job = polter_started_job(started_bucket(parent->tgid), parent->tgid);
	if (job)
		polter_started_enter(started_bucket(child->tgid), child->tgid, job);
}

static void on_exit(void *data, struct task_struct *task POLTER_EXIT_GROUP_DEAD_ARG)
{
	struct polter_member *member = member_if_any(task);
	struct polter_group *group;

	if (member)
		end_member(member);
	/* Each thread has decremented the count by now; the one that sees zero ends the process. */
	if (atomic_read(&task->signal->live))
		return;
	polter_started_end(started_bucket(task->tgid), task->tgid);
	group = polter_find_group(task->tgid);
	if (group)
		polter_group_ends(group);
}

/* The new program may have more privileges and does not know of the registration, and exec has dropped the mappings of the pages: end it. */
static void on_exec(void *data, struct task_struct *task, pid_t old_pid, struct linux_binprm *program)
{
	struct polter_member *member = member_known_as(old_pid, task->tgid);
	struct polter_group *group = polter_find_group(task->tgid);

	if (member)
		end_member(member);
	if (group)
		polter_group_ends(group);
}

#include "interruptions.h"

#define ACCOUNT(name) (1u << POLTER_##name)
#define SCHEDULING (ACCOUNT(PREEMPT) | ACCOUNT(RUNQUEUE) | ACCOUNT(PREEMPT_JOB) | ACCOUNT(WAKEUP) | ACCOUNT(THROTTLE))
#define PAIR(name, accounts) { #name "_entry", on_##name##_entry, accounts }, { #name "_exit", on_##name##_exit, accounts }

struct polter_probe polter_probes[] = {
	{ "sched_switch", on_switch, SCHEDULING },
	{ "sched_wakeup", on_wakeup, SCHEDULING },
	{ "sched_migrate_task", on_migrate, SCHEDULING },
	{ "sched_process_fork", on_fork, 0 },
	{ "sched_process_exit", on_exit, SCHEDULING },
	{ "sched_process_exec", on_exec, SCHEDULING },
	PAIR(local_timer, ACCOUNT(TIMER)),
	PAIR(irq_handler, ACCOUNT(IRQ) | ACCOUNT(NET)),
	PAIR(softirq, ACCOUNT(SOFTIRQ) | ACCOUNT(NET)),
	PAIR(reschedule, ACCOUNT(IPI)),
	PAIR(call_function, ACCOUNT(IPI)),
	PAIR(call_function_single, ACCOUNT(IPI)),
	PAIR(irq_work, ACCOUNT(IPI)),
	{ "nmi_handler", on_nmi_handler, ACCOUNT(NMI) },
	{ "workqueue_execute_start", on_work, 0 },
	{ "page_fault_user", on_page_fault, 0 },
	{ "page_fault_kernel", on_page_fault, 0 },
};
const unsigned int polter_probe_count = ARRAY_SIZE(polter_probes);

u64 polter_unseen_switches(void)
{
	return READ_ONCE(unseen_switches);
}

int polter_cpus_init(void)
{
	int cpu;

	has_steal = polter_hypervisor_above() == POLTER_HYPERVISOR_TELLS;
	cpus = kcalloc(nr_cpu_ids, sizeof(*cpus), GFP_KERNEL);
	work_names = kcalloc(nr_cpu_ids, sizeof(*work_names), GFP_KERNEL);
	if (!cpus || !work_names) {
		kfree(cpus);
		kfree(work_names);
		return -ENOMEM;
	}
	for_each_possible_cpu(cpu) {
		cpus[cpu] = kvzalloc_node(sizeof(**cpus), GFP_KERNEL, cpu_to_node(cpu));
		work_names[cpu] = kvzalloc_node(sizeof(**work_names), GFP_KERNEL, cpu_to_node(cpu));
		if (!cpus[cpu] || !work_names[cpu]) {
			polter_cpus_exit();
			return -ENOMEM;
		}
	}
	return 0;
}

/* Only while no probe is attached. */
void polter_cpus_reset(void)
{
	int cpu;

	memset(started, 0, sizeof(started));
	started_seed = get_random_u32();
	/* A module may have been replaced, so cached function names may be wrong. */
	for_each_possible_cpu(cpu) {
		u32 waiting = cpus[cpu]->waiting, moved = cpus[cpu]->moved;

		memset(cpus[cpu], 0, sizeof(**cpus));
		/* Members that are not released yet take themselves back. */
		cpus[cpu]->waiting = waiting;
		cpus[cpu]->moved = moved;
		memset(work_names[cpu], 0, sizeof(**work_names));
	}
}

void polter_cpus_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		kvfree(cpus[cpu]);
		kvfree(work_names[cpu]);
	}
	kfree(cpus);
	kfree(work_names);
}
