/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The module's parts, and what they share.
 *
 *   registry.c   which processes and threads are registered, on which pages
 *   tables.c     the tables of them that probes read
 *   pages.c      the memory of pages; what each user has of it, and may have
 *   probes.c     the kernel's events, fed into the accounting (../accounting/)
 *   attach.c     finds the tracepoints; attaches the probes while anybody is registered
 *   device.c     /dev/polter (device.h)
 *   net_irqs.c   which interrupts belong to network devices
 *
 * Probes run with preemption off, which is a read-side critical section of RCU: what they find in the tables lives until they return.
 * They take no lock. Everything of the registry is changed under one mutex, but for what leaves the tables: that is also done where one may not sleep
 * (a task that exits or execs), under a raw spinlock.
 */
#ifndef POLTER_H
#define POLTER_H

#include <linux/hash.h>
#include <linux/list.h>
#include <linux/types.h>
#include <linux/uidgid.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "../accounting/state.h"

#define POLTER_MODULE_VERSION "0.1.0"

struct polter_group;
struct polter_memory;
struct file;
struct page;
struct task_struct;
struct tracepoint;
struct vm_area_struct;

#define POLTER_MEMORY_PAGES (POLTER_PAGE_SIZE / PAGE_SIZE)

/* One registered thread. */
struct polter_member {
	struct hlist_node node; /* in the table by tid, while it is accounted */
	struct polter_page *page; /* stays valid wherever it is mapped */
	struct polter_group *group;
	struct polter_thread thread;
	struct list_head hashed; /* threads of the group that are in the table */
	struct polter_memory *memory;
	struct rcu_work release;
};

/* Resources limited for the whole node. Pages that are still mapped after their registration count. */
enum polter_quota { POLTER_PROCESSES, POLTER_PAGES, POLTER_QUOTAS };

/* A user who holds any of these resources. */
struct polter_user {
	struct hlist_node node;
	kuid_t id;
	unsigned int has[POLTER_QUOTAS];
	struct list_head groups; /* the registry's */
};

/* One registered process. */
struct polter_group {
	struct hlist_node node; /* in the table by tgid, until it ends */
	struct list_head list; /* processes of this user, including those that have ended but are not released yet */
	struct polter_process process;
	pid_t tgid;
	struct polter_user *user;
	u64 job_key; /* the number that the user gave; 0: a job of its own */
	bool ended;
	unsigned int slots;
	unsigned int used;
	struct xarray member; /* by slot */
	struct list_head hashed; /* members in the table */
	struct rcu_work release;
};

/* tables.c: read by probes, under RCU. */
#define POLTER_MEMBER_BITS 13
extern struct hlist_head polter_members[1 << POLTER_MEMBER_BITS];
struct polter_member *polter_find_member(pid_t tid);
/* Whether the table has any member where that one would stand. */
static inline bool polter_members_at(pid_t tid)
{
	return READ_ONCE(polter_members[hash_32(tid, POLTER_MEMBER_BITS)].first);
}
/* Counted up after each change of the members: what a CPU knows of the thread that runs there is of one state of the table. */
extern u32 polter_generation;
struct polter_group *polter_find_group(pid_t tgid);
/* The thread exits; the process ends. Both may be called in atomic context. */
void polter_member_exits(struct polter_member *member);
void polter_group_ends(struct polter_group *group);
/* tables.c: changed by the registry. False: its group has ended meanwhile. */
void polter_table_group(struct polter_group *group);
bool polter_table_member(struct polter_member *member);
void polter_untable_member(struct polter_member *member);
void polter_groups_end(void);
/* Marks the page as final. Either no writer exists any more, or the writer itself calls this. */
void polter_freeze(struct polter_member *member);

/* registry.c: for the calling process and thread. 0 or an error of device.h. */
int polter_register_process(u64 job, unsigned int slots);
int polter_register_thread(unsigned int *slot);
int polter_leave(unsigned int slot);
int polter_end(void);
int polter_map(struct vm_area_struct *vma, unsigned int slot);
bool polter_is_registered(void);
void polter_registry_count(u32 *processes, u32 *threads);
int polter_registry_init(void);
/* Ends all registrations, and waits until nothing of them is left. */
void polter_registry_exit(void);

/* tables.c: the work queue for deferred releases, run one at a time; created by the registry. */
extern struct workqueue_struct *polter_works;

/* pages.c: charges one resource to the calling process's user (an error of device.h if the limit is reached); releases one. */
struct polter_user *polter_charge(enum polter_quota what);
void polter_uncharge(struct polter_user *user, enum polter_quota what);
/* pages.c: a zeroed page, charged to the caller and, where the kernel can, to the caller's memory cgroup; or an error. */
struct polter_memory *polter_memory_new(struct polter_page **page);
/* Retires a page that is no longer registered and has no writer. While it is mapped it stays valid and stays charged. */
void polter_memory_retire(struct polter_memory *memory, struct polter_page *page);
/* Its pages, with a reference to each; maps them and gives the references back. Mapping may wait for memory. */
void polter_memory_hold(struct polter_memory *memory, struct page **pages);
int polter_memory_map(struct vm_area_struct *vma, struct page **pages);
unsigned int polter_pages_count(void);
int polter_pages_init(void);
/* Call after all pages are retired. */
void polter_pages_exit(void);

/* probes.c */
struct polter_probe {
	const char *tracepoint;
	void *function;
	u32 accounts; /* accounts that need this tracepoint */
	struct tracepoint *found;
};
extern struct polter_probe polter_probes[];
extern const unsigned int polter_probe_count;
u64 polter_unseen_switches(void);
/* Call once no probe can find the member any more: it waits for no CPU. */
void polter_member_waits_no_more(struct polter_member *member);
int polter_cpus_init(void);
void polter_cpus_reset(void);
void polter_cpus_exit(void);

/* main.c: whether the calling process may know the names of other users' tasks. */
bool polter_user_sees_names(void);

/* attach.c */
int polter_find_tracepoints(void);
u32 polter_accounts_seen(void);
/* Nested: attached from the first to the last. Under the registry's mutex. */
int polter_attach(void);
void polter_detach(void);

/* device.c */
int polter_device_init(void);
void polter_device_exit(void);

/* net_irqs.c */
void polter_net_irqs_refresh(void);
bool polter_is_net_irq(unsigned int irq);

#endif
