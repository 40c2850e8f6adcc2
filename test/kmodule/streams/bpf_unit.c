/* SPDX-License-Identifier: BSD-3-Clause */
/* kmodule/bpf/polter.bpf.c on the invented kernel. The headers of libbpf are empty files here; what the program takes from them follows. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "backend_unit.h"

typedef uint8_t u8;
typedef int32_t s32;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;
struct vm_area_struct;
struct pt_regs;
struct bpf_raw_tracepoint_args {
    u64 args[12];
};
struct bpf_map {
    u32 id;
    char name[16];
};
struct bpf_iter_meta {
    void* seq;
};
struct bpf_iter__bpf_map {
    struct bpf_iter_meta* meta;
    struct bpf_map* map;
};

#define SEC(name)
#undef __noinline
#define __noinline __attribute__((noinline))
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) value* name
#define __array(name, value) value* name[]
#define BPF_PROG(name, args...) bpf_##name(args)
enum {
    BPF_MAP_TYPE_ARRAY = 1,
    BPF_MAP_TYPE_HASH,
    BPF_MAP_TYPE_ARRAY_OF_MAPS,
    BPF_MAP_TYPE_LRU_HASH,
    BPF_ANY = 0,
    BPF_F_MMAPABLE = 4,
    BPF_F_INNER_MAP = 8
};

static void* bpf_map_lookup_elem(void* map, const void* key);
static long bpf_map_update_elem(void* map, const void* key, const void* value, u64 flags) {
    (void)map, (void)key, (void)value, (void)flags; /* only a cache of names is written to */
    return 0;
}
static long bpf_map_delete_elem(void* map, const void* key);
static long bpf_snprintf(char* to, u32 size, const char* format, const u64* data, u32 data_size) {
    (void)format, (void)data_size;
    return snprintf(to, size, "work_%llx", (unsigned long long)data[0]);
}
static long bpf_loop(u32 n, long (*callback)(u32, void*), void* context, u64 flags) {
    (void)flags;
    for (u32 i = 0; i < n; i++)
        if (callback(i, context)) return i + 1;
    return n;
}
static long bpf_seq_write(void* to, const void* data, u32 size) {
    (void)to, (void)data, (void)size; /* the list of pages is the daemon's, not asked for here */
    return 0;
}
static long bpf_probe_read_kernel_str(void* to, u32 size, const char* from) {
    return snprintf(to, size, "%.*s", (int)size - 1, from);
}
#define bpf_ktime_get_ns() unit_now()
#define bpf_get_smp_processor_id() unit_cpu
#define bpf_get_current_pid_tgid() ((u64)unit_current->tgid << 32 | (u32)unit_current->pid)

/* core_fixes.bpf.h, arch.bpf.h */
#define POLTER_CORE_FIXES_BPF_H
#define POLTER_ARCH_BPF_H
static u32 task_cpu(struct task_struct* task) {
    return task->cpu;
}
static bool task_is_blocked(struct task_struct* task, unsigned state) {
    return state && task->blocks;
}
static bool task_is_throttled(struct task_struct* task) {
    return task->throttled;
}
static bool task_makes_way_for(struct task_struct* woken) {
    return unit_makes_way(woken->cpu);
}
static u32 task_owner(struct task_struct* task) {
    return task->owner;
}
#define task_owner_seldom task_owner
static bool in_sched_yield(struct task_struct* task) {
    return task->in_yield;
}
static u64 task_arrival(struct task_struct* task, u64 now) {
    (void)now;
    return task->arrival_ns;
}
static bool fault_is_tried_again(unsigned result) {
    return result;
}
static void task_throttler(struct task_struct* task, char name[POLTER_CULPRIT_LEN]) {
    (void)task;
    memset(name, 0, POLTER_CULPRIT_LEN);
    strcpy(name, "cpu quota");
}

static u64 stolen_from_cpu_of(struct task_struct* task) {
    (void)task;
    return unit_stolen(unit_cpu);
}
#define bpf_get_current_task_btf() unit_current

#include "bpf/polter.bpf.c"

/* ---- the maps ---- */

static struct polter_process process[UNIT_THREADS];
static u32 tgid_of[UNIT_THREADS];
static struct polter_thread thread[UNIT_THREADS];
static struct polter_page page[UNIT_THREADS];
static struct polter_cpu cpu[UNIT_CPUS];
static u8 yes = 1;
static unsigned added;

static void* bpf_map_lookup_elem(void* map, const void* key) {
    const u32 k = *(const u32*)key;
    if (map == &cpus) return k < UNIT_CPUS ? &cpu[k] : NULL;
    if (map == &net_irqs) return unit_is_net_irq(k) ? &yes : NULL;
    if (map == &work_names) return NULL;
    if (map == &threads) return k < added ? &thread[k] : NULL;
    if (map == &pages) return k < added ? &page[k] : NULL;
    if (map != &processes) return map; /* a map in `pages`, of one page */
    for (unsigned i = 0; i < added; i++)
        if (tgid_of[i] == k) return &process[i];
    return NULL;
}

static long bpf_map_delete_elem(void* map, const void* key) {
    (void)map; /* the processes */
    for (unsigned i = 0; i < added; i++)
        if (tgid_of[i] == *(const u32*)key) tgid_of[i] = 0;
    return 0;
}

/* ---- the unit ---- */

static void unit_reset(void) {
    memset(process, 0, sizeof process);
    memset(tgid_of, 0, sizeof tgid_of);
    memset(thread, 0, sizeof thread);
    memset(tids, 0, sizeof tids);
    memset(tids_filter, 0, sizeof tids_filter);
    unseen_switches = 0;
    memset(started, 0, sizeof started);
    *(volatile bool*)&has_steal = true; /* as the daemon sets it before loading */
    *(volatile bool*)&has_fault_end = false;
    memset(page, 0, sizeof page);
    memset(cpu, 0, sizeof cpu);
    added = 0;
}
static struct polter_page* add_thread(const struct task_struct* task, uint64_t job) {
    const unsigned i = added++;
    process[i].job = job;
    process[i].measured = 1; /* by begin_page */
    tgid_of[i] = (u32)task->tgid;
    thread[i].tid = task->pid;
    thread[i].tgid = (u32)task->tgid;
    thread[i].page = i;
    thread[i].job = job;
    thread[i].owner = task->owner;
    thread[i].off = POLTER_BLOCKED;
    struct polter_tids* const bucket = bucket_of((u32)task->pid);
    bucket->tid[0] = (u32)task->pid;
    bucket->thread[0] = i;
    const u32 bit = polter_tids_filter_bit((u32)task->pid, tids_seed);
    tids_filter[bit / 64] |= 1ull << bit % 64;
    tids_generation++;
    return &page[i];
}
static struct polter_thread* state(int tid) {
    for (unsigned i = 0; i < added; i++)
        if (thread[i].tid == tid) return &thread[i];
    return NULL;
}
static void unit_switch(int preempt, struct task_struct* prev, struct task_struct* next) {
    bpf_on_switch(preempt, prev, next, (unsigned)prev->blocks);
}
static void unit_wakeup(struct task_struct* task) {
    bpf_on_wakeup(task);
}
static void unit_migrate(struct task_struct* task, int to) {
    bpf_on_migrate(task, to);
}
static void unit_fork(struct task_struct* parent, struct task_struct* child) {
    bpf_on_fork(parent, child);
}
static void unit_exit(struct task_struct* task) {
    bpf_on_exit(task);
}
static void unit_exec(struct task_struct* task, int old_tid) {
    bpf_on_exec(task, old_tid);
}
static void unit_enter(unsigned kind, unsigned id) {
    static int (*const vector[])(void) = {bpf_on_local_timer_entry, bpf_on_reschedule_entry, bpf_on_call_function_entry,
                                          bpf_on_call_function_single_entry, bpf_on_irq_work_entry};
    if (kind == POLTER_FRAME_IRQ)
        bpf_on_irq_handler_entry((int)id);
    else if (kind == POLTER_FRAME_SOFTIRQ)
        bpf_on_softirq_entry(id);
    else
        vector[kind == POLTER_FRAME_TIMER ? POLTER_VECTOR_TIMER : id]();
}
static void unit_leave(unsigned kind, unsigned id, struct irqaction* action) {
    static int (*const vector[])(void) = {bpf_on_local_timer_exit, bpf_on_reschedule_exit, bpf_on_call_function_exit,
                                          bpf_on_call_function_single_exit, bpf_on_irq_work_exit};
    if (kind == POLTER_FRAME_IRQ)
        bpf_on_irq_handler_exit((int)id, action);
    else if (kind == POLTER_FRAME_SOFTIRQ)
        bpf_on_softirq_exit(id);
    else
        vector[kind == POLTER_FRAME_TIMER ? POLTER_VECTOR_TIMER : id]();
}
static void unit_nmi(int64_t ns) {
    bpf_on_nmi_handler(NULL, ns);
}

static void unit_fault(void) {
    bpf_on_page_fault_user();
}

static void time_faults(void) {
    *(volatile bool*)&has_fault_end = true; /* as the daemon sets it before loading */
}

static void fault_ends(int again) {
    static int registers;
    bpf_on_fault_handled(NULL, 0, 0, NULL, 0); /* a system call's, which is none */
    bpf_on_fault_handled(NULL, 0, 0, (struct pt_regs*)&registers, (unsigned)again);
}

static void unit_work(struct work_struct* work) {
    bpf_on_work(work);
}

static void keep_windows(void) {
    for (unsigned i = 0; i < UNIT_CPUS; i++) polter_ran_always(&cpu[i]);
}

static unsigned waiting(unsigned i) {
    return cpu[i].waiting + cpu[i].moved;
}

const struct unit bpf_unit = {"bpf",       unit_reset, add_thread, state,        unit_switch, unit_wakeup, unit_migrate,
                              unit_fork,   unit_exit,  unit_exec,  unit_enter,   unit_leave,  unit_nmi,    unit_fault,
                              time_faults, fault_ends, unit_work,  keep_windows, waiting};
