/* SPDX-License-Identifier: BSD-3-Clause */
/* kmodule/module/probes.c on the invented kernel. The kernel's headers are empty files here; what probes.c takes from them follows. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "backend_unit.h"

void* calloc(size_t, size_t); /* not by stdlib.h, which has an on_exit */
void free(void*);

typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;
typedef struct {
    unsigned value;
} kuid_t;
struct hlist_node {
    void* next;
};
struct hlist_head {
    void* first;
};
struct list_head {
    void* next;
};
struct rcu_work {
    int unused;
};
struct xarray {
    int unused;
};
struct linux_binprm;
struct pt_regs;

#define current unit_current
#define raw_smp_processor_id() unit_cpu
#define ktime_get_mono_fast_ns() unit_now()
#define task_pid_nr(task) ((task)->pid)
#define task_cpu(task) ((task)->cpu)
#define atomic_read(p) ((p)->counter)
#define READ_ONCE(x) POLTER_LOAD(x)
#define smp_load_acquire(p) POLTER_LOAD(*(p))
#define hash_32(value, bits) ((unsigned)((value)*0x61C88647u) >> (32 - (bits)))
#define likely(x) (x)
#define unlikely(x) (x)
#define noinline __attribute__((noinline))
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof *(a))
#define nr_cpu_ids UNIT_CPUS
#define for_each_possible_cpu(cpu) for (cpu = 0; cpu < UNIT_CPUS; cpu++)
#define kcalloc(n, size, flags) calloc(n, size)
#define kvzalloc_node(size, flags, node) calloc(1, size)
#define kvfree(p) free(p)
#define kfree(p) free(p)
#define strscpy(to, from, size) snprintf(to, size, "%.*s", (int)(size)-1, from)

/* compat.h */
#define POLTER_COMPAT_H
#define POLTER_SWITCH_STATE_ARG , unsigned int prev_state
#define POLTER_SWITCH_STATE prev_state
#define POLTER_SWITCH_STATE_PASSED , prev_state
#define POLTER_EXIT_GROUP_DEAD_ARG
static bool polter_task_is_blocked(struct task_struct* task, unsigned state) {
    return state && task->blocks;
}
static bool polter_task_is_throttled(struct task_struct* task) {
    return task->throttled;
}
static bool polter_task_makes_way(pid_t tid, unsigned cpu) {
    (void)tid;
    return unit_makes_way(cpu);
}
static u32 polter_task_owner(struct task_struct* task) {
    return task->owner;
}
static bool polter_task_in_yield(struct task_struct* task) {
    return task->in_yield;
}
static u64 polter_task_arrival(struct task_struct* task, u64 now) {
    (void)now;
    return task->arrival_ns;
}

#define polter_symbol(to, size, function) snprintf(to, size, "work_%llx", (unsigned long long)(function))
#define hash_64(value, bits) ((unsigned)((value)*0x61C8864680B583EBull >> (64 - (bits))))
enum { POLTER_HYPERVISOR_TELLS };
#define polter_hypervisor_above() POLTER_HYPERVISOR_TELLS
#define polter_stolen_from_cpu() unit_stolen(unit_cpu)
#define __read_mostly
#define get_random_u32() 0u

#include "module/probes.c"

/* ---- tables.c ---- */

static struct polter_group group[UNIT_THREADS];
static struct polter_member member[UNIT_THREADS];
static struct polter_page page[UNIT_THREADS];
static unsigned members;
struct hlist_head polter_members[1 << POLTER_MEMBER_BITS];
u32 polter_generation;

struct polter_member* polter_find_member(pid_t tid) {
    for (unsigned i = 0; i < members; i++)
        if (member[i].thread.tid == tid && !member[i].thread.gone) return &member[i];
    return NULL;
}
struct polter_group* polter_find_group(pid_t tgid) {
    for (unsigned i = 0; i < members; i++)
        if (group[i].tgid == tgid) return &group[i];
    return NULL;
}
void polter_member_exits(struct polter_member* m) {
    m->thread.gone = 1;
    m->page->header.end_ns = unit_now();
    m->page->header.state = POLTER_PAGE_FROZEN;
    polter_generation++;
    polter_member_waits_no_more(m);
}
void polter_group_ends(struct polter_group* g) {
    for (unsigned i = 0; i < members; i++)
        if (member[i].group->tgid == g->tgid && !member[i].thread.gone) polter_member_exits(&member[i]);
    const int tgid = g->tgid;
    for (unsigned i = 0; i < members; i++)
        if (group[i].tgid == tgid) group[i].tgid = -1;
}
bool polter_is_net_irq(unsigned irq) {
    return unit_is_net_irq(irq);
}

/* ---- the unit ---- */

static void reset(void) {
    if (!cpus) polter_cpus_init();
    polter_cpus_reset();
    for (int i = 0; i < UNIT_CPUS; i++) cpus[i]->waiting = cpus[i]->moved = 0;
    memset(group, 0, sizeof group);
    memset(member, 0, sizeof member);
    memset(page, 0, sizeof page);
    memset(polter_members, 0, sizeof polter_members);
    members = 0;
}
static struct polter_page* add_thread(const struct task_struct* task, uint64_t job) {
    const unsigned i = members++;
    group[i].tgid = task->tgid;
    group[i].process.job = job;
    group[i].process.measured = 1;
    member[i].page = &page[i];
    member[i].group = &group[i];
    member[i].thread.tid = task->pid;
    member[i].thread.tgid = task->tgid;
    member[i].thread.job = job;
    member[i].thread.owner = task->owner;
    member[i].thread.off = POLTER_BLOCKED;
    polter_members[hash_32(task->pid, POLTER_MEMBER_BITS)].first = &member[i];
    polter_generation++;
    return &page[i];
}
static struct polter_thread* state(int tid) {
    for (unsigned i = 0; i < members; i++)
        if (member[i].thread.tid == tid) return &member[i].thread;
    return NULL;
}
static void unit_switch(int preempt, struct task_struct* prev, struct task_struct* next) {
    on_switch(NULL, preempt, prev, next, prev->blocks);
}
static void unit_wakeup(struct task_struct* task) {
    on_wakeup(NULL, task);
}
static void unit_migrate(struct task_struct* task, int cpu) {
    on_migrate(NULL, task, cpu);
}
static void unit_fork(struct task_struct* parent, struct task_struct* child) {
    on_fork(NULL, parent, child);
}
static void unit_exit(struct task_struct* task) {
    on_exit(NULL, task);
}
static void unit_exec(struct task_struct* task, int old_tid) {
    on_exec(NULL, task, old_tid, NULL);
}

static void unit_enter(unsigned kind, unsigned id) {
    static void (*const vector[])(void*, int) = {on_local_timer_entry, on_reschedule_entry, on_call_function_entry,
                                                 on_call_function_single_entry, on_irq_work_entry};
    if (kind == POLTER_FRAME_IRQ)
        on_irq_handler_entry(NULL, (int)id, NULL);
    else if (kind == POLTER_FRAME_SOFTIRQ)
        on_softirq_entry(NULL, id);
    else
        vector[kind == POLTER_FRAME_TIMER ? POLTER_VECTOR_TIMER : id](NULL, 0);
}
static void unit_leave(unsigned kind, unsigned id, struct irqaction* action) {
    static void (*const vector[])(void*, int) = {on_local_timer_exit, on_reschedule_exit, on_call_function_exit,
                                                 on_call_function_single_exit, on_irq_work_exit};
    if (kind == POLTER_FRAME_IRQ)
        on_irq_handler_exit(NULL, (int)id, action, 1);
    else if (kind == POLTER_FRAME_SOFTIRQ)
        on_softirq_exit(NULL, id);
    else
        vector[kind == POLTER_FRAME_TIMER ? POLTER_VECTOR_TIMER : id](NULL, 0);
}
static void unit_nmi(int64_t ns) {
    on_nmi_handler(NULL, NULL, ns, 1);
}

static void unit_fault(void) {
    on_page_fault(NULL, 0, NULL, 0);
}

static void unit_work(struct work_struct* work) {
    on_work(NULL, work);
}

static void keep_windows(void) {
    for (int i = 0; i < UNIT_CPUS; i++) polter_ran_always(cpus[i]);
}

static unsigned waiting(unsigned i) {
    return cpus[i]->waiting + cpus[i]->moved;
}

const struct unit module_unit = {"module",  reset,     add_thread, state,        unit_switch, unit_wakeup, unit_migrate,
                                 unit_fork, unit_exit, unit_exec,  unit_enter,   unit_leave,  unit_nmi,    unit_fault,
                                 NULL,      NULL,      unit_work,  keep_windows, waiting};
