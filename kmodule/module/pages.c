// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Page memory, its mappings, and the pages charged to each user. A page is charged to its user until no process maps it any more, which
 * may be long after its registration ended. The kernel does not report the end of a mapping, so the module keeps a reference to the
 * memory and checks whether it is the last one.
 */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/hashtable.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "device.h"
#include "polter.h"

#define LONGEST_PAUSE (64 * HZ)

struct polter_memory {
	struct list_head list; /* of the retired ones */
	struct polter_user *user;
	struct page *page[POLTER_MEMORY_PAGES]; /* one reference each; NULL: released */
};

/* Mappings refer to this empty file of the kernel, not to the module: an open mapping does not prevent unloading, and holds no pointer
 * into the module. */
static struct file *mapping_file;

static DEFINE_MUTEX(users_lock); /* protects everything below and the users' counts */
static DEFINE_HASHTABLE(users, 6);
static unsigned int all[POLTER_QUOTAS];
static unsigned int limit[POLTER_QUOTAS] = { POLTER_DEVICE_MAX_PROCESSES, POLTER_DEVICE_MAX_THREADS };
module_param_named(max_processes, limit[POLTER_PROCESSES], uint, 0444);
MODULE_PARM_DESC(max_processes, "registered processes of the node");
module_param_named(max_threads, limit[POLTER_PAGES], uint, 0444);
MODULE_PARM_DESC(max_threads, "registered threads of the node, with pages that are still mapped afterwards");
static LIST_HEAD(retired); /* no longer registered, but still mapped by a process */
static unsigned long pause = HZ; /* delay until the retired pages are checked again */

static void look_later(struct work_struct *work);
/* Deferrable: an idle CPU is not woken for it. */
static DECLARE_DEFERRABLE_WORK(look, look_later);

/* ---- users; with users_lock held ---- */

/* The user that a page is charged to. Inside a user namespace one user has many ids; charge the creator of the outermost namespace
 * that root did not create. */
static kuid_t accountable(void)
{
	const struct user_namespace *space;
	kuid_t user = current_euid();

	for (space = current_user_ns(); space->level; space = space->parent)
		if (!uid_eq(space->owner, GLOBAL_ROOT_UID))
			user = space->owner;
	return user;
}

static struct polter_user *user_of(kuid_t id)
{
	struct polter_user *user;

	hash_for_each_possible(users, user, node, __kuid_val(id))
		if (uid_eq(user->id, id))
			return user;
	user = kzalloc(sizeof(*user), GFP_KERNEL);
	if (!user)
		return NULL;
	user->id = id;
	INIT_LIST_HEAD(&user->groups);
	hash_add(users, &user->node, __kuid_val(id));
	return user;
}

static void put_user_if_idle(struct polter_user *user)
{
	if (user->has[POLTER_PROCESSES] || user->has[POLTER_PAGES])
		return;
	hash_del(&user->node);
	kfree(user);
}

/* One user may take at most half of what the others leave, so that no two users can exclude a third. */
static bool may_have_more(const struct polter_user *user, enum polter_quota what)
{
	unsigned int others = all[what] - user->has[what];

	if (uid_eq(user->id, GLOBAL_ROOT_UID))
		return all[what] < limit[what];
	return user->has[what] < (limit[what] - others) / 2;
}

static void uncharge(struct polter_user *user, enum polter_quota what)
{
	user->has[what]--;
	all[what]--;
	put_user_if_idle(user);
}

/* ---- memory that is no longer registered ---- */

/* Releases the pages that nobody else holds. Returns true if none is left. */
static bool gives_back(struct polter_memory *memory)
{
	unsigned int i, held = 0;

	for (i = 0; i < POLTER_MEMORY_PAGES; i++) {
		if (!memory->page[i])
			continue;
		/* The memory is in no table any more: a new reference can only come from an existing one. */
		if (page_count(memory->page[i]) > 1) {
			held++;
			continue;
		}
		put_page(memory->page[i]);
		memory->page[i] = NULL;
	}
	return !held;
}

/* Checks all retired memory, on the caller's time. */
static void sweep(void)
{
	static DEFINE_MUTEX(sweeping);
	struct polter_memory *memory, *next;
	LIST_HEAD(looked_at);
	LIST_HEAD(free);

	mutex_lock(&sweeping);
	mutex_lock(&users_lock);
	list_splice_init(&retired, &looked_at);
	mutex_unlock(&users_lock);
	list_for_each_entry_safe(memory, next, &looked_at, list) {
		if (gives_back(memory))
			list_move(&memory->list, &free);
		cond_resched();
	}
	mutex_lock(&users_lock);
	list_splice(&looked_at, &retired);
	list_for_each_entry(memory, &free, list)
		uncharge(memory->user, POLTER_PAGES);
	mutex_unlock(&users_lock);
	mutex_unlock(&sweeping);
	list_for_each_entry_safe(memory, next, &free, list)
		kfree(memory);
}

static void look_later(struct work_struct *work)
{
	sweep();
	mutex_lock(&users_lock);
	/* A page that stayed mapped for long is likely to stay: check less and less often. */
	pause = min_t(unsigned long, 2 * pause, LONGEST_PAUSE);
	if (!list_empty(&retired))
		queue_delayed_work(polter_works, &look, pause);
	mutex_unlock(&users_lock);
}

/* ---- for the registry ---- */

static struct polter_user *charge(enum polter_quota what)
{
	struct polter_user *user;

	mutex_lock(&users_lock);
	user = user_of(accountable());
	if (!user) {
		user = ERR_PTR(-ENOMEM);
	} else if (may_have_more(user, what)) {
		user->has[what]++;
		all[what]++;
	} else {
		put_user_if_idle(user);
		user = ERR_PTR(-EDQUOT);
	}
	mutex_unlock(&users_lock);
	return user;
}

struct polter_user *polter_charge(enum polter_quota what)
{
	struct polter_user *user = charge(what);

	if (what != POLTER_PAGES || user != ERR_PTR(-EDQUOT))
		return user;
	/* Some retired pages may have been unmapped since the last check. */
	sweep();
	return charge(what);
}

void polter_uncharge(struct polter_user *user, enum polter_quota what)
{
	mutex_lock(&users_lock);
	uncharge(user, what);
	mutex_unlock(&users_lock);
}

struct polter_memory *polter_memory_new(struct polter_page **page)
{
	struct polter_user *user = polter_charge(POLTER_PAGES);
	struct polter_memory *memory;
	unsigned int i;

	if (IS_ERR(user))
		return ERR_CAST(user);
	memory = kzalloc(sizeof(*memory), GFP_KERNEL_ACCOUNT);
	*page = memory ? __vmalloc(POLTER_PAGE_SIZE, POLTER_MAPPED_MEMORY | __GFP_ZERO) : NULL;
	if (!*page) {
		kfree(memory);
		polter_uncharge(user, POLTER_PAGES);
		return ERR_PTR(-ENOMEM);
	}
	memory->user = user;
	for (i = 0; i < POLTER_MEMORY_PAGES; i++) {
		memory->page[i] = vmalloc_to_page((void *)*page + i * PAGE_SIZE);
		get_page(memory->page[i]);
	}
	return memory;
}

void polter_memory_retire(struct polter_memory *memory, struct polter_page *page)
{
	bool free;

	vfree(page);
	free = gives_back(memory);
	mutex_lock(&users_lock);
	if (free) {
		uncharge(memory->user, POLTER_PAGES);
	} else {
		list_add_tail(&memory->list, &retired);
		if (pause > HZ || !delayed_work_pending(&look)) {
			pause = HZ;
			mod_delayed_work(polter_works, &look, pause);
		}
	}
	mutex_unlock(&users_lock);
	if (free)
		kfree(memory);
}

void polter_memory_hold(struct polter_memory *memory, struct page **pages)
{
	unsigned int i;

	for (i = 0; i < POLTER_MEMORY_PAGES; i++) {
		pages[i] = memory->page[i];
		get_page(pages[i]);
	}
}

int polter_memory_map(struct vm_area_struct *vma, struct page **pages)
{
	struct file *device;
	unsigned int i;
	int error = 0;

	for (i = 0; i < POLTER_MEMORY_PAGES; i++) {
		if (!error)
			error = vm_insert_page(vma, vma->vm_start + i * PAGE_SIZE, pages[i]);
		put_page(pages[i]);
	}
	if (error)
		return error;
	/* A forked child must not read its parent's noise as its own. */
	vm_flags_set(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	device = vma->vm_file;
	vma->vm_file = get_file(mapping_file);
	fput(device);
	return 0;
}

unsigned int polter_pages_count(void)
{
	return READ_ONCE(all[POLTER_PAGES]);
}

int polter_pages_init(void)
{
	mapping_file = polter_empty_file("polter");
	return PTR_ERR_OR_ZERO(mapping_file);
}

void polter_pages_exit(void)
{
	struct polter_memory *memory, *next;
	unsigned int i;

	cancel_delayed_work_sync(&look);
	list_for_each_entry_safe(memory, next, &retired, list) {
		/* The memory lives on wherever it is mapped. */
		for (i = 0; i < POLTER_MEMORY_PAGES; i++)
			if (memory->page[i])
				put_page(memory->page[i]);
		polter_uncharge(memory->user, POLTER_PAGES);
		kfree(memory);
	}
	fput(mapping_file);
}
