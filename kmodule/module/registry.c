// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Which processes and threads are registered, on which pages; the probes are attached while there are any.
 *
 * What has left the tables (tables.c) is released after a grace period of RCU, by a work item: then no probe writes its page any more.
 */
#include <linux/cred.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "compat.h"
#include "device.h"
#include "polter.h"

#define POLTER_DETACH_AFTER HZ

/* Protects everything below, the groups of users, and the members of groups. Nothing slow runs under it: no user waits for another user's
 * request. */
static DEFINE_MUTEX(registry_lock);
static u64 jobs_made;
static unsigned int processes, threads;
static bool attached;

/* ---- releasing ---- */

static void free_member(struct polter_member *member)
{
	polter_freeze(member);
	polter_member_waits_no_more(member);
	polter_memory_retire(member->memory, member->page);
	kfree(member);
}

static void release_member(struct work_struct *work)
{
	free_member(container_of(to_rcu_work(work), struct polter_member, release));
}

static void detach_probes(void)
{
	if (attached)
		polter_detach();
	attached = false;
}

/* Detaching waits for all CPUs and attaching patches kernel text. Delay the detach, so that a series of short jobs does not pay for both
 * each time. */
static void detach_if_idle(struct work_struct *work)
{
	mutex_lock(&registry_lock);
	if (!processes)
		detach_probes();
	mutex_unlock(&registry_lock);
}

static DECLARE_DELAYED_WORK(detach, detach_if_idle);

static void free_group(struct polter_group *group)
{
	xa_destroy(&group->member);
	polter_uncharge(group->user, POLTER_PROCESSES);
	kfree(group);
}

static void release_group(struct work_struct *work)
{
	struct polter_group *group = container_of(to_rcu_work(work), struct polter_group, release);
	struct polter_member *member;
	unsigned long slot;

	mutex_lock(&registry_lock);
	list_del(&group->list);
	processes--;
	threads -= group->used;
	if (!processes)
		mod_delayed_work(polter_works, &detach, POLTER_DETACH_AFTER);
	mutex_unlock(&registry_lock);
	xa_for_each(&group->member, slot, member)
		free_member(member);
	free_group(group);
}

/* ---- registering, for the calling process ---- */

static struct polter_group *own_group(void)
{
	struct polter_group *group;

	rcu_read_lock();
	group = polter_find_group(task_tgid_nr(current));
	rcu_read_unlock();
	/* The group stays valid while the caller holds the mutex: its release takes the mutex first. */
	return group;
}

/* The node-wide number of a job. The same key under two users means two jobs: no user may claim another user's threads. */
static u64 job_number(const struct polter_user *user, u64 key)
{
	struct polter_group *group;

	if (key)
		list_for_each_entry_reverse(group, &user->groups, list)
			if (!READ_ONCE(group->ended) && group->job_key == key)
				return group->process.job;
	return ++jobs_made;
}

static struct polter_group *new_group(u64 job, unsigned int slots)
{
	struct polter_user *user = polter_charge(POLTER_PROCESSES);
	struct polter_group *group;

	if (IS_ERR(user))
		return ERR_CAST(user);
	group = kzalloc(sizeof(*group), GFP_KERNEL_ACCOUNT);
	if (!group) {
		polter_uncharge(user, POLTER_PROCESSES);
		return ERR_PTR(-ENOMEM);
	}
	/* Tree nodes are not charged to the cgroup: a cgroup at its memory limit would make the allocation wait under the mutex. */
	xa_init_flags(&group->member, XA_FLAGS_ALLOC);
	INIT_LIST_HEAD(&group->hashed);
	INIT_RCU_WORK(&group->release, release_group);
	group->slots = slots;
	group->tgid = task_tgid_nr(current);
	group->user = user;
	group->job_key = job;
	/* The effective user of the process itself, even where a namespace's creator is charged: the right to see task names depends on it. */
	group->process.owner = from_kuid(&init_user_ns, current_euid());
	group->process.names = polter_user_sees_names();
	return group;
}

static int add_group(struct polter_group *group)
{
	int error;

	if (own_group())
		return -EEXIST;
	if (!attached) {
		error = polter_attach();
		if (error)
			return error;
		attached = true;
	}
	group->process.job = job_number(group->user, group->job_key);
	list_add_tail(&group->list, &group->user->groups);
	processes++;
	polter_table_group(group);
	return 0;
}

int polter_register_process(u64 job, unsigned int slots)
{
	struct polter_group *group;
	int error;

	if (!slots)
		return -EINVAL;
	if (slots > POLTER_DEVICE_MAX_THREADS)
		return -ENOSPC;
	polter_net_irqs_refresh();
	group = new_group(job, slots);
	if (IS_ERR(group))
		return PTR_ERR(group);
	mutex_lock(&registry_lock);
	error = add_group(group);
	mutex_unlock(&registry_lock);
	if (error)
		free_group(group);
	return error;
}

static void begin_page(struct polter_member *member)
{
	struct polter_page_header *header = &member->page->header;

	polter_page_layout(header, POLTER_BACKEND_MODULE, polter_accounts_seen());
	header->tid = member->thread.tid;
	header->pid = member->thread.tgid;
	header->start_ns = ktime_get_mono_fast_ns();
	header->state = POLTER_PAGE_LIVE;
}

static struct polter_member *new_member(void)
{
	struct polter_member *member = kzalloc(sizeof(*member), GFP_KERNEL_ACCOUNT);

	if (!member)
		return ERR_PTR(-ENOMEM);
	member->memory = polter_memory_new(&member->page);
	if (IS_ERR(member->memory)) {
		void *error = ERR_CAST(member->memory);

		kfree(member);
		return error;
	}
	INIT_LIST_HEAD(&member->hashed);
	INIT_RCU_WORK(&member->release, release_member);
	member->thread.tid = task_pid_nr(current);
	member->thread.tgid = task_tgid_nr(current);
	member->thread.off = POLTER_RUNNING; /* it is the one that asks */
	begin_page(member);
	return member;
}

static bool is_registered_thread(void)
{
	struct polter_member *member;
	bool registered;

	rcu_read_lock();
	member = polter_find_member(task_pid_nr(current));
	/* The id may stand for a thread of another process, which lost it to an exec still in progress: compare the tgid. */
	registered = member && member->thread.tgid == task_tgid_nr(current);
	rcu_read_unlock();
	return registered;
}

static int add_member(struct polter_member *member, unsigned int *slot)
{
	struct polter_group *group = own_group();
	int error;

	if (!group)
		return -ESRCH;
	if (is_registered_thread())
		return -EEXIST;
	error = xa_alloc(&group->member, slot, member, XA_LIMIT(0, group->slots - 1), GFP_KERNEL);
	if (error)
		return error == -EBUSY ? -ENOSPC : error;
	member->group = group;
	member->thread.slot = *slot;
	member->thread.job = group->process.job;
	member->thread.owner = group->process.owner;
	member->thread.names = group->process.names;
	if (!polter_table_member(member)) {
		xa_erase(&group->member, *slot);
		return -ESRCH;
	}
	group->used++;
	threads++;
	return 0;
}

int polter_register_thread(unsigned int *slot)
{
	struct polter_member *member;
	int error;

	if (!polter_is_registered())
		return -ESRCH;
	/* Allocate before taking the mutex: in a cgroup at its memory limit the allocation may wait. */
	member = new_member();
	if (IS_ERR(member))
		return PTR_ERR(member);
	mutex_lock(&registry_lock);
	error = add_member(member, slot);
	mutex_unlock(&registry_lock);
	if (error)
		free_member(member);
	return error;
}

int polter_leave(unsigned int slot)
{
	struct polter_member *member = NULL;
	struct polter_group *group;

	mutex_lock(&registry_lock);
	group = own_group();
	if (group && slot < group->slots)
		member = xa_erase(&group->member, slot);
	if (member) {
		group->used--;
		threads--;
		polter_untable_member(member);
	}
	mutex_unlock(&registry_lock);
	if (!member)
		return group ? -EINVAL : -ESRCH;
	/* A probe may still be writing another thread's page. */
	if (member->thread.tid == task_pid_nr(current))
		polter_freeze(member);
	queue_rcu_work(polter_works, &member->release);
	return 0;
}

int polter_end(void)
{
	struct polter_group *group;

	mutex_lock(&registry_lock);
	group = own_group();
	if (group)
		polter_group_ends(group);
	mutex_unlock(&registry_lock);
	return group ? 0 : -ESRCH;
}

int polter_map(struct vm_area_struct *vma, unsigned int slot)
{
	struct page *pages[POLTER_MEMORY_PAGES];
	struct polter_member *member = NULL;
	struct polter_group *group;

	mutex_lock(&registry_lock);
	group = own_group();
	if (group && slot < group->slots)
		member = xa_load(&group->member, slot);
	if (member)
		polter_memory_hold(member->memory, pages);
	mutex_unlock(&registry_lock);
	return member ? polter_memory_map(vma, pages) : -ENXIO;
}

void polter_registry_count(u32 *process_count, u32 *thread_count)
{
	mutex_lock(&registry_lock);
	*process_count = processes;
	*thread_count = threads;
	mutex_unlock(&registry_lock);
}

bool polter_is_registered(void)
{
	return own_group();
}

int polter_registry_init(void)
{
	int error = polter_pages_init();

	if (error)
		return error;
	/* Ordered: thousands of threads that leave at once must not start thousands of workers. */
	polter_works = alloc_workqueue("polter", WQ_UNBOUND, 1);
	if (polter_works)
		return 0;
	polter_pages_exit();
	return -ENOMEM;
}

static void end_all(void)
{
	mutex_lock(&registry_lock);
	polter_groups_end();
	mutex_unlock(&registry_lock);
}

void polter_registry_exit(void)
{
	end_all();
	mutex_lock(&registry_lock);
	detach_probes();
	mutex_unlock(&registry_lock);
	/* No probe runs any more, so all releases have been queued. */
	rcu_barrier();
	flush_workqueue(polter_works);
	cancel_delayed_work_sync(&detach);
	polter_pages_exit();
	destroy_workqueue(polter_works);
}
