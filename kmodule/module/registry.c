// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Which processes and threads are registered, on which pages.
 *
 * Threads are found by tid and processes by tgid of the initial pid namespace, in tables that probes read. What leaves them is released
 * after a grace period of RCU, by a work item: then no probe writes its page any more.
 */
#include <linux/cred.h>
#include <linux/hash.h>
#include <linux/mutex.h>
#include <linux/rculist.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "compat.h"
#include "device.h"
#include "polter.h"

#define POLTER_MEMBER_BITS 13
#define POLTER_GROUP_BITS 11
#define POLTER_DETACH_AFTER HZ

static struct hlist_head members[1 << POLTER_MEMBER_BITS];
static struct hlist_head groups[1 << POLTER_GROUP_BITS];
static DEFINE_RAW_SPINLOCK(tables_lock); /* changes of the tables, of `hashed`, and of `ended` */

/* All below, the groups of users, and the members of groups. Nothing that may take long is done under it: no user waits for another's. */
static DEFINE_MUTEX(registry_lock);
static u64 jobs_made;
static unsigned int processes, threads;
static bool attached;

struct workqueue_struct *polter_works;

/* ---- for probes ---- */

struct polter_member *polter_find_member(pid_t tid)
{
	struct polter_member *member;

	hlist_for_each_entry_rcu_notrace(member, &members[hash_32(tid, POLTER_MEMBER_BITS)], node)
		if (member->thread.tid == tid)
			return member;
	return NULL;
}

struct polter_group *polter_find_group(pid_t tgid)
{
	struct polter_group *group;

	hlist_for_each_entry_rcu_notrace(group, &groups[hash_32(tgid, POLTER_GROUP_BITS)], node)
		if (group->tgid == tgid)
			return group;
	return NULL;
}

/* What stands there is final. By then nobody writes the page, or it is the writer that says so. */
static void freeze(struct polter_member *member)
{
	struct polter_page_header *header = &member->page->header;

	if (READ_ONCE(header->state) != POLTER_PAGE_LIVE)
		return;
	header->end_ns = ktime_get_mono_fast_ns();
	/* Whoever finds it frozen finds the time too: reader/session.c loads it with acquire semantics. */
	smp_store_release(&header->state, POLTER_PAGE_FROZEN);
}

static void unhash_member(struct polter_member *member)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&tables_lock, flags);
	if (!hlist_unhashed(&member->node)) {
		hlist_del_init_rcu(&member->node);
		list_del_init(&member->hashed);
	}
	raw_spin_unlock_irqrestore(&tables_lock, flags);
}

/* Takes one of its members out of the table. False: there is none. */
static bool unhash_one(struct polter_group *group)
{
	struct polter_member *member;
	unsigned long flags;

	raw_spin_lock_irqsave(&tables_lock, flags);
	member = list_first_entry_or_null(&group->hashed, struct polter_member, hashed);
	if (member) {
		hlist_del_init_rcu(&member->node);
		list_del_init(&member->hashed);
	}
	raw_spin_unlock_irqrestore(&tables_lock, flags);
	return member;
}

void polter_member_exits(struct polter_member *member)
{
	WRITE_ONCE(member->thread.gone, 1);
	freeze(member);
	unhash_member(member);
}

void polter_group_ends(struct polter_group *group)
{
	unsigned long flags;
	bool first;

	raw_spin_lock_irqsave(&tables_lock, flags);
	first = !group->ended;
	group->ended = true;
	if (first)
		hlist_del_init_rcu(&group->node);
	raw_spin_unlock_irqrestore(&tables_lock, flags);
	if (!first)
		return;
	/* Nobody is added any more. One at a time, since interrupts are off meanwhile. */
	while (unhash_one(group))
		;
	queue_rcu_work(polter_works, &group->release);
}

/* ---- releasing ---- */

static void free_member(struct polter_member *member)
{
	freeze(member);
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

/* Detaching waits for all CPUs, attaching patches the kernel's text: neither is done for each job of a row of short ones. */
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
	/* It lives as long as the caller holds the mutex, which its release takes first. */
	return group;
}

/* The number of a job for the whole node. The same key of two users is two jobs: nobody may declare a stranger's threads to be his own. */
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
	/* Its nodes are not charged to the cgroup: one that has no memory left would wait for some under the mutex. */
	xa_init_flags(&group->member, XA_FLAGS_ALLOC);
	INIT_LIST_HEAD(&group->hashed);
	INIT_RCU_WORK(&group->release, release_group);
	group->slots = slots;
	group->tgid = task_tgid_nr(current);
	group->user = user;
	group->job_key = job;
	/* Whoever that counts for: names are told by the ids that tasks have. */
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
	raw_spin_lock_irq(&tables_lock);
	hlist_add_head_rcu(&group->node, &groups[hash_32(group->tgid, POLTER_GROUP_BITS)]);
	raw_spin_unlock_irq(&tables_lock);
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
	/* That of another process gave its id away by an exec that has not ended. */
	registered = member && member->thread.tgid == task_tgid_nr(current);
	rcu_read_unlock();
	return registered;
}

static int add_member(struct polter_member *member, unsigned int *slot)
{
	struct polter_group *group = own_group();
	bool ended;
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
	raw_spin_lock_irq(&tables_lock);
	ended = group->ended; /* by another thread, meanwhile */
	if (!ended) {
		WRITE_ONCE(group->process.measured, 1);
		list_add(&member->hashed, &group->hashed);
		hlist_add_head_rcu(&member->node, &members[hash_32(member->thread.tid, POLTER_MEMBER_BITS)]);
	}
	raw_spin_unlock_irq(&tables_lock);
	if (ended) {
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
	/* Its memory first: a cgroup that has none left waits for some. */
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
		unhash_member(member);
	}
	mutex_unlock(&registry_lock);
	if (!member)
		return group ? -EINVAL : -ESRCH;
	/* Of another thread a probe may still be writing. */
	if (member->thread.tid == task_pid_nr(current))
		freeze(member);
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
	/* One after the other: thousands of threads that leave at once are no thousand workers. */
	polter_works = alloc_workqueue("polter", WQ_UNBOUND, 1);
	if (polter_works)
		return 0;
	polter_pages_exit();
	return -ENOMEM;
}

static void end_all(void)
{
	struct polter_group *group;
	unsigned int bucket;

	mutex_lock(&registry_lock);
	for (bucket = 0; bucket < ARRAY_SIZE(groups); bucket++)
		for (;;) {
			rcu_read_lock();
			group = hlist_entry_safe(rcu_dereference(hlist_first_rcu(&groups[bucket])), struct polter_group, node);
			if (group)
				polter_group_ends(group);
			rcu_read_unlock();
			if (!group)
				break;
		}
	mutex_unlock(&registry_lock);
}

void polter_registry_exit(void)
{
	end_all();
	mutex_lock(&registry_lock);
	detach_probes();
	mutex_unlock(&registry_lock);
	/* None runs any more, so all ends have been queued. */
	rcu_barrier();
	flush_workqueue(polter_works);
	cancel_delayed_work_sync(&detach);
	polter_pages_exit();
	destroy_workqueue(polter_works);
}
