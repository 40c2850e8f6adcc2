/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The module's parts, and what they share.
 *
 *   registry.c   which processes and threads are registered, on which pages
 *   probes.c     the kernel's events, fed into the accounting (../accounting/)
 *   attach.c     finds the tracepoints; attaches the probes while anybody is registered
 *   device.c     /dev/polter (device.h)
 *   net_irqs.c   which interrupts belong to network devices
 *
 * Probes run with preemption off, which is a read-side critical section of RCU: what they find in the tables lives until they return.
 * They take no lock. Everything is changed under one mutex, but for what leaves the tables: that is also done where one may not sleep
 * (a task that exits or execs), under a raw spinlock.
 */
#ifndef POLTER_H
#define POLTER_H

#include <linux/list.h>
#include <linux/types.h>
#include <linux/uidgid.h>
#include <linux/workqueue.h>

#include "../accounting/state.h"

#define POLTER_MODULE_VERSION "0.1.0"

struct polter_group;
struct file;
struct task_struct;
struct tracepoint;
struct vm_area_struct;

/* One registered thread. */
struct polter_member {
	struct hlist_node node; /* in the table by tid, while it is accounted */
	struct polter_page *page; /* lives on where it is mapped */
	struct polter_group *group;
	struct polter_thread thread;
	struct rcu_work release;
};

/* One registered process. */
struct polter_group {
	struct hlist_node node; /* in the table by tgid, until it ends */
	struct list_head list; /* of all, those included that have ended and are not released yet */
	struct polter_process process;
	pid_t tgid;
	kuid_t user;
	u64 job_key; /* as the user named it; 0: a job of its own */
	bool ended;
	unsigned int slots;
	unsigned int used;
	struct polter_member **member; /* by slot */
	struct rcu_work release;
};

/* registry.c: looked at by probes. */
struct polter_member *polter_find_member(pid_t tid);
struct polter_group *polter_find_group(pid_t tgid);
/* The thread is exiting; the process ends. Callable where one may not sleep. */
void polter_member_exits(struct polter_member *member);
void polter_group_ends(struct polter_group *group);

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

/* probes.c */
struct polter_probe {
	const char *tracepoint;
	void *function;
	u32 accounts; /* those that cannot be seen without it */
	struct tracepoint *found;
};
extern struct polter_probe polter_probes[];
extern const unsigned int polter_probe_count;
u64 polter_unseen_switches(void);
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
