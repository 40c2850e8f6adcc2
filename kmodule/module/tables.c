// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The tables that probes read: threads by tid and processes by tgid of the initial pid namespace. They do not depend on the registry,
 * which fills them.
 */
#include <linux/hash.h>
#include <linux/rculist.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>

#include "compat.h"
#include "polter.h"

#define POLTER_GROUP_BITS 11

struct hlist_head polter_members[1 << POLTER_MEMBER_BITS];
u32 polter_generation;
static struct hlist_head groups[1 << POLTER_GROUP_BITS];
static DEFINE_RAW_SPINLOCK(tables_lock); /* protects changes of the tables, of the generation, of `hashed`, and of `ended` */

struct workqueue_struct *polter_works;

/* A member that has left is freed a grace period after this, so no CPU that still knows it uses it. */
static void members_changed(void)
{
	smp_store_release(&polter_generation, polter_generation + 1);
}

/* Under the lock. */
static void unhash(struct polter_member *member)
{
	hlist_del_init_rcu(&member->node);
	list_del_init(&member->hashed);
	members_changed();
}

struct polter_member *polter_find_member(pid_t tid)
{
	struct polter_member *member;

	hlist_for_each_entry_rcu_notrace(member, &polter_members[hash_32(tid, POLTER_MEMBER_BITS)], node)
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

void polter_freeze(struct polter_member *member)
{
	struct polter_page_header *header = &member->page->header;

	if (READ_ONCE(header->state) != POLTER_PAGE_LIVE)
		return;
	header->end_ns = ktime_get_mono_fast_ns();
	/* The store is a release: a reader that finds the page frozen (reader/session.c, acquire) also finds the time. */
	smp_store_release(&header->state, POLTER_PAGE_FROZEN);
}

void polter_untable_member(struct polter_member *member)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&tables_lock, flags);
	if (!hlist_unhashed(&member->node))
		unhash(member);
	raw_spin_unlock_irqrestore(&tables_lock, flags);
}

/* Removes one of the group's members from the table. Returns false if none is left. */
static bool unhash_one(struct polter_group *group)
{
	struct polter_member *member;
	unsigned long flags;

	raw_spin_lock_irqsave(&tables_lock, flags);
	member = list_first_entry_or_null(&group->hashed, struct polter_member, hashed);
	if (member)
		unhash(member);
	raw_spin_unlock_irqrestore(&tables_lock, flags);
	return member;
}

void polter_member_exits(struct polter_member *member)
{
	WRITE_ONCE(member->thread.gone, 1);
	polter_freeze(member);
	polter_untable_member(member);
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
	/* No member is added any more. Remove one at a time: interrupts are off while the lock is held. */
	while (unhash_one(group))
		;
	queue_rcu_work(polter_works, &group->release);
}

void polter_table_group(struct polter_group *group)
{
	raw_spin_lock_irq(&tables_lock);
	hlist_add_head_rcu(&group->node, &groups[hash_32(group->tgid, POLTER_GROUP_BITS)]);
	raw_spin_unlock_irq(&tables_lock);
}

bool polter_table_member(struct polter_member *member)
{
	struct polter_group *group = member->group;
	bool ended;

	raw_spin_lock_irq(&tables_lock);
	ended = group->ended; /* another thread has ended the group meanwhile */
	if (!ended) {
		WRITE_ONCE(group->process.measured, 1);
		list_add(&member->hashed, &group->hashed);
		hlist_add_head_rcu(&member->node, &polter_members[hash_32(member->thread.tid, POLTER_MEMBER_BITS)]);
		members_changed();
	}
	raw_spin_unlock_irq(&tables_lock);
	return !ended;
}

void polter_groups_end(void)
{
	struct polter_group *group;
	unsigned int bucket;

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
}
