// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Which processes and threads are registered, on which pages.
 *
 * Threads are found by tid and processes by tgid of the initial pid namespace, in tables that probes read. What leaves them is released
 * after a grace period of RCU, by a work item: then no probe writes its page any more.
 */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/rculist.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "device.h"
#include "polter.h"

#define POLTER_MEMBER_BITS 11
#define POLTER_GROUP_BITS 8

static struct hlist_head members[1 << POLTER_MEMBER_BITS];
static struct hlist_head groups[1 << POLTER_GROUP_BITS];
static DEFINE_RAW_SPINLOCK(tables_lock); /* changes of the tables, and of `ended` */

static DEFINE_MUTEX(registry_lock); /* all below, and the members of a group */
static LIST_HEAD(all_groups);
static u64 jobs_made;
static unsigned int processes, threads;

static struct workqueue_struct *releases;
/* Mappings are of this file, which is empty and not the module's: so they do not keep the module, and it leaves nothing behind in them. */
static struct file *mapping_file;

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
	if (!hlist_unhashed(&member->node))
		hlist_del_init_rcu(&member->node);
	raw_spin_unlock_irqrestore(&tables_lock, flags);
}

void polter_member_exits(struct polter_member *member)
{
	WRITE_ONCE(member->thread.gone, 1);
	freeze(member);
	unhash_member(member);
}

static void release_group(struct work_struct *work);

void polter_group_ends(struct polter_group *group)
{
	unsigned long flags;
	unsigned int slot;
	bool first;

	raw_spin_lock_irqsave(&tables_lock, flags);
	first = !group->ended;
	group->ended = true;
	if (first) {
		hlist_del_init_rcu(&group->node);
		for (slot = 0; slot < group->slots; slot++)
			if (group->member[slot] && !hlist_unhashed(&group->member[slot]->node))
				hlist_del_init_rcu(&group->member[slot]->node);
	}
	raw_spin_unlock_irqrestore(&tables_lock, flags);
	if (first)
		queue_rcu_work(releases, &group->release);
}

/* ---- releasing ---- */

static void free_member(struct polter_member *member)
{
	freeze(member);
	vfree(member->page);
	kfree(member);
}

static void release_member(struct work_struct *work)
{
	free_member(container_of(to_rcu_work(work), struct polter_member, release));
}

static void release_group(struct work_struct *work)
{
	struct polter_group *group = container_of(to_rcu_work(work), struct polter_group, release);
	unsigned int slot;

	mutex_lock(&registry_lock);
	list_del(&group->list);
	processes--;
	threads -= group->used;
	polter_detach();
	mutex_unlock(&registry_lock);
	for (slot = 0; slot < group->slots; slot++)
		if (group->member[slot])
			free_member(group->member[slot]);
	kvfree(group->member);
	kfree(group);
}

/* ---- registering; all with registry_lock held, for the calling process ---- */

static struct polter_group *own_group(void)
{
	struct polter_group *group;

	rcu_read_lock();
	group = polter_find_group(task_tgid_nr(current));
	rcu_read_unlock();
	/* Its release takes the mutex first. */
	return group;
}

/* The number of a job for the whole node. The same key of two users is two jobs: nobody may declare a stranger's threads to be his own. */
static u64 job_number(kuid_t user, u64 key)
{
	struct polter_group *group;

	if (key)
		list_for_each_entry(group, &all_groups, list)
			if (!READ_ONCE(group->ended) && group->job_key == key && uid_eq(group->user, user))
				return group->process.job;
	return ++jobs_made;
}

/* Whether the user may have `more` of what there are `limit` of: half of them, since one user must not keep the others out. */
static bool may_have(bool of_processes, unsigned int limit)
{
	kuid_t user = current_euid();
	unsigned int all = of_processes ? processes : threads, his = 0;
	struct polter_group *group;

	if (all >= limit)
		return false;
	if (uid_eq(user, GLOBAL_ROOT_UID))
		return true;
	list_for_each_entry(group, &all_groups, list)
		if (uid_eq(group->user, user))
			his += of_processes ? 1 : group->used;
	return his < limit / 2;
}

static struct polter_group *new_group(u64 job, unsigned int slots)
{
	struct polter_group *group = kzalloc(sizeof(*group), GFP_KERNEL_ACCOUNT);

	if (!group)
		return NULL;
	group->member = kvcalloc(slots, sizeof(*group->member), GFP_KERNEL_ACCOUNT);
	if (!group->member) {
		kfree(group);
		return NULL;
	}
	group->slots = slots;
	group->tgid = task_tgid_nr(current);
	group->user = current_euid();
	group->job_key = job;
	group->process.job = job_number(group->user, job);
	group->process.owner = from_kuid(&init_user_ns, group->user);
	group->process.names = polter_user_sees_names();
	INIT_RCU_WORK(&group->release, release_group);
	return group;
}

static int add_group(u64 job, unsigned int slots)
{
	struct polter_group *group;
	int error;

	if (own_group())
		return -EEXIST;
	if (!may_have(true, POLTER_DEVICE_MAX_PROCESSES))
		return -EDQUOT;
	group = new_group(job, slots);
	if (!group)
		return -ENOMEM;
	error = polter_attach();
	if (error) {
		kvfree(group->member);
		kfree(group);
		return error;
	}
	list_add_tail(&group->list, &all_groups);
	processes++;
	raw_spin_lock_irq(&tables_lock);
	hlist_add_head_rcu(&group->node, &groups[hash_32(group->tgid, POLTER_GROUP_BITS)]);
	raw_spin_unlock_irq(&tables_lock);
	return 0;
}

int polter_register_process(u64 job, unsigned int slots)
{
	int error;

	if (!slots)
		return -EINVAL;
	if (slots > POLTER_DEVICE_MAX_THREADS)
		return -ENOSPC;
	polter_net_irqs_refresh();
	mutex_lock(&registry_lock);
	error = add_group(job, slots);
	mutex_unlock(&registry_lock);
	return error;
}

static void begin_page(struct polter_member *member, unsigned int slot)
{
	struct polter_page_header *header = &member->page->header;

	polter_page_layout(header, POLTER_BACKEND_MODULE, polter_accounts_seen());
	header->tid = member->thread.tid;
	header->pid = member->group->tgid;
	header->start_ns = ktime_get_mono_fast_ns();
	header->state = POLTER_PAGE_LIVE;
}

static struct polter_member *new_member(struct polter_group *group, unsigned int slot)
{
	struct polter_member *member = kzalloc(sizeof(*member), GFP_KERNEL_ACCOUNT);

	if (!member)
		return NULL;
	member->page = vmalloc_user(POLTER_PAGE_SIZE);
	if (!member->page) {
		kfree(member);
		return NULL;
	}
	member->group = group;
	member->thread.tid = task_pid_nr(current);
	member->thread.tgid = group->tgid;
	member->thread.slot = slot;
	member->thread.job = group->process.job;
	member->thread.owner = group->process.owner;
	member->thread.names = group->process.names;
	member->thread.off = POLTER_RUNNING; /* it is the one that asks */
	INIT_RCU_WORK(&member->release, release_member);
	begin_page(member, slot);
	return member;
}

static int add_member(unsigned int *slot)
{
	struct polter_group *group = own_group();
	struct polter_member *member;
	bool ended;

	if (!group)
		return -ESRCH;
	if (polter_find_member(task_pid_nr(current)))
		return -EEXIST;
	for (*slot = 0; *slot < group->slots; ++*slot)
		if (!group->member[*slot])
			break;
	if (*slot == group->slots)
		return -ENOSPC;
	if (!may_have(false, POLTER_DEVICE_MAX_THREADS))
		return -EDQUOT;
	member = new_member(group, *slot);
	if (!member)
		return -ENOMEM;
	raw_spin_lock_irq(&tables_lock);
	ended = group->ended; /* by another thread, meanwhile */
	if (!ended) {
		group->member[*slot] = member;
		group->used++;
		threads++;
		hlist_add_head_rcu(&member->node, &members[hash_32(member->thread.tid, POLTER_MEMBER_BITS)]);
	}
	raw_spin_unlock_irq(&tables_lock);
	if (!ended)
		return 0;
	free_member(member);
	return -ESRCH;
}

int polter_register_thread(unsigned int *slot)
{
	int error;

	mutex_lock(&registry_lock);
	error = add_member(slot);
	mutex_unlock(&registry_lock);
	return error;
}

int polter_leave(unsigned int slot)
{
	struct polter_member *member = NULL;
	struct polter_group *group;

	mutex_lock(&registry_lock);
	group = own_group();
	raw_spin_lock_irq(&tables_lock);
	if (group && !group->ended && slot < group->slots) {
		member = group->member[slot];
		group->member[slot] = NULL;
	}
	if (member) {
		group->used--;
		threads--;
		if (!hlist_unhashed(&member->node))
			hlist_del_init_rcu(&member->node);
	}
	raw_spin_unlock_irq(&tables_lock);
	mutex_unlock(&registry_lock);
	if (!member)
		return group ? -EINVAL : -ESRCH;
	/* Of another thread a probe may still be writing. */
	if (member->thread.tid == task_pid_nr(current))
		freeze(member);
	queue_rcu_work(releases, &member->release);
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
	struct polter_member *member = NULL;
	struct polter_group *group;
	struct file *device;
	int error = -ENXIO;

	mutex_lock(&registry_lock);
	group = own_group();
	if (group && slot < group->slots)
		member = group->member[slot];
	if (member)
		error = remap_vmalloc_range(vma, member->page, 0);
	mutex_unlock(&registry_lock);
	if (error)
		return error;
	/* A child must not take its parent's noise for its own. */
	vm_flags_set(vma, VM_DONTCOPY);
	device = vma->vm_file;
	vma->vm_file = get_file(mapping_file);
	fput(device);
	return 0;
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
	bool registered;

	mutex_lock(&registry_lock);
	registered = own_group() != NULL;
	mutex_unlock(&registry_lock);
	return registered;
}

int polter_registry_init(void)
{
	mapping_file = polter_empty_file("polter");
	if (IS_ERR(mapping_file))
		return PTR_ERR(mapping_file);
	releases = alloc_workqueue("polter", WQ_UNBOUND, 0);
	if (releases)
		return 0;
	fput(mapping_file);
	return -ENOMEM;
}

void polter_registry_exit(void)
{
	struct polter_group *group;

	mutex_lock(&registry_lock);
	list_for_each_entry(group, &all_groups, list)
		polter_group_ends(group);
	mutex_unlock(&registry_lock);
	rcu_barrier(); /* they have queued their works */
	destroy_workqueue(releases);
	fput(mapping_file);
}
