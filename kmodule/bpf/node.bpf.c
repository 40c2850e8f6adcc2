// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The whole node: every interruption of every CPU, every wait of every task, and who ran. The accounting is that of the pages
 * (../accounting/); what it finds is added up by CPU, account and culprit instead of being recorded for a thread.
 */
// clang-format off: vmlinux.h defines the types that the others use
#include "vmlinux.h"
// clang-format on
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "node.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1); /* set to the number of CPUs before loading */
    __type(key, u32);
    __type(value, struct polter_node_cpu);
} cpus SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1); /* set before loading; allocated then, as all that follow: nothing may be allocated under a run queue's lock */
    __type(key, struct polter_node_key);
    __type(value, struct polter_node_stats);
} stats SEC(".maps");

/* The tasks that wait or have waited. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1); /* set before loading */
    __type(key, u32);       /* tid */
    __type(value, struct polter_thread);
} tasks SEC(".maps");

/* What a worker executes, for when it comes back to the CPU in the middle of it. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 8192);
    __type(key, u32); /* tid */
    __type(value, u64);
} works SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __type(key, u64); /* address */
    __type(value, struct polter_function);
} functions SEC(".maps");

static const struct polter_thread new_task;
static const struct polter_node_stats new_stats;
static const struct polter_function new_function;
static const char symbol[] = "%ps";

static __always_inline struct polter_node_cpu* node_of(u32 cpu) {
    return bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline struct polter_node_cpu* measured_here(void) {
    struct polter_node_cpu* node = node_of(bpf_get_smp_processor_id());
    return node && node->begin_ns && !node->end_ns ? node : NULL;
}

static __always_inline struct polter_cpu* cpu_state(u32 cpu) {
    struct polter_node_cpu* node = node_of(cpu);
    return node && node->begin_ns && !node->end_ns ? &node->cpu : NULL;
}

/* `first` and `second`: the name. By value, since a function that is checked alone takes no constant's address. */
POLTER_CHECKED_ALONE int book_named(u32 account, u64 ns, s32 pid, u64 first, u64 second) {
    struct polter_node_cpu* node = measured_here();
    struct polter_node_key key = {};
    if (!node) return 0;
    key.cpu = bpf_get_smp_processor_id();
    key.account = account;
    if (account == POLTER_NODE_RAN)
        key.idle = pid == 0;
    else if (account < POLTER_PREEMPT || account >= POLTER_NET) /* interruptions: waits are of tasks */
        key.idle = (u32)bpf_get_current_pid_tgid() == 0;
    key.kind = pid == 0 && !(char)first ? POLTER_CULPRIT_IDLE : pid < -1 ? POLTER_CULPRIT_WORK : POLTER_CULPRIT_NAME;
    if (key.kind != POLTER_CULPRIT_IDLE) {
        __builtin_memcpy(key.name, &first, sizeof first);
        __builtin_memcpy(key.name + sizeof first, &second, sizeof second);
    }

    struct polter_node_stats* s = bpf_map_lookup_elem(&stats, &key);
    if (!s) {
        bpf_map_update_elem(&stats, &key, &new_stats, BPF_NOEXIST);
        s = bpf_map_lookup_elem(&stats, &key);
    }
    if (!s) {
        if (account <= POLTER_NODE_RAN) {
            POLTER_ADD(node->not_booked[account], 1ull);
            POLTER_ADD(node->not_booked_ns[account], ns);
        }
        return 0;
    }
    u32 bin = polter_bin_of(ns);
    POLTER_ADD(s->count, 1ull);
    if (account == POLTER_FAULT) return 0;
    POLTER_ADD(s->total_ns, ns);
    if (ns > s->max_ns) s->max_ns = ns;
    if (bin < POLTER_BINS) s->bin[bin]++;
    return 0;
}

static __always_inline int book(u32 account, u64 ns, s32 pid, const char name[POLTER_CULPRIT_LEN]) {
    u64 words[2];
    __builtin_memcpy(words, name, sizeof words);
    return book_named(account, ns, pid, words[0], words[1]);
}

/* ---- what the accounting asks for ---- */

#define POLTER_NOW() bpf_ktime_get_ns()
#define POLTER_CPU(n) cpu_state(n)
#define POLTER_JOB_OF(tgid) 0ull /* a task's mates are those of its own process */
#define POLTER_REPEAT(n, callback, context) bpf_loop(n, callback, context, 0)
#define POLTER_RAN_HOOK(cpu, ran, ns) task_ran((struct polter_node_cpu*)(cpu), ran, ns)

/* What runs loses the whole of the outermost interruptions, which does not depend on how that is divided among those nested in them. */
#define POLTER_OUTERMOST_HOOK(cpu, gross_ns) interrupted_for(gross_ns)

static __always_inline void interrupted_for(u64 gross_ns) {
    struct polter_node_cpu* node = node_of(bpf_get_smp_processor_id());
    if (node) POLTER_ADD(node->interrupted_ns, gross_ns);
}

/* The clock, and what interruptions have taken by then: of one moment. */
static __always_inline u64 look(struct polter_node_cpu* node) {
    u64 now = bpf_ktime_get_ns();
#pragma clang loop unroll(full)
    for (int i = 0; i < 4; i++) {
        u64 interrupted = POLTER_LOAD(node->interrupted_ns);
        now = bpf_ktime_get_ns();
        node->interrupted_now_ns = interrupted;
        if (POLTER_LOAD(node->interrupted_ns) == interrupted) break;
    }
    return now;
}

/* After look(), or where nothing interrupts. */
static __always_inline void task_ran(struct polter_node_cpu* node, struct polter_ran* ran, u64 ns) {
    u64 taken = node->interrupted_now_ns - node->interrupted_before_ns;
    if (taken > ns) taken = ns; /* the rest is the next one's: of a switch that was not shown, only this sum is known */
    node->interrupted_before_ns += taken;
    book(POLTER_NODE_RAN, ns - taken, ran->tid, ran->comm);
}

/* The records of waits go to the table; there is no page. */
#define POLTER_PUBLISH_H
/* Read by an instruction, else clang leaves it out of the call, and the register holds what no verifier lets pass. */
#define POLTER_NO_PAGE(page)                \
    ({                                      \
        __asm__ volatile("" : : "r"(page)); \
        0;                                  \
    })
enum { POLTER_ALONE = 1 };
static __always_inline int polter_publish_begin(struct polter_thread* thread, int alone) {
    return 1;
}
static __always_inline void polter_publish_record(struct polter_thread* thread, struct polter_page* page, u64 end, u64 duration,
                                                  u32 account, u64 count, const struct polter_culprit* culprit, int alone) {
    book(account, duration, culprit->pid, culprit->name);
}
static __always_inline void polter_publish_end(struct polter_thread* thread, struct polter_page* page, int outermost, u64 now, int alone) {}

#include "../accounting/nesting.h"
#include "../accounting/waiting.h"

/* ---- scheduling ---- */

#define PF_EXITING 0x00000004
#define PF_WQ_WORKER 0x00000020

/* A work item is a task of its own to the accounting: with a number that no task has, made of its function's address (all functions of the
 * kernel lie within 2 GB). */
static __always_inline s32 work_id(u64 function) {
    return (s32)((u32)function | 0x80000000u);
}

POLTER_SUBPROGRAM int add_task(u32 tid, u32 tgid) {
    struct polter_thread* thread;
    if (bpf_map_update_elem(&tasks, &tid, &new_task, BPF_NOEXIST) != 0) {
        struct polter_node_cpu* node = measured_here();
        if (node) POLTER_ADD(node->not_followed, 1ull);
        return 0;
    }
    thread = bpf_map_lookup_elem(&tasks, &tid);
    if (!thread) return 0;
    thread->tid = tid;
    thread->tgid = tgid;
    thread->job = 1;
    thread->off = POLTER_BLOCKED;
    return 0;
}

static __always_inline bool may_wait(struct task_struct* task) {
    return true;
}

static __always_inline struct polter_thread* waiter(struct task_struct* task) {
    u32 tid = task->pid;
    struct polter_thread* thread = tid ? bpf_map_lookup_elem(&tasks, &tid) : NULL;
    if (thread || !tid || (task->flags & PF_EXITING)) return thread; /* one that exits has been taken out already, and is gone soon */
    add_task(tid, task->tgid);
    return bpf_map_lookup_elem(&tasks, &tid);
}

static __always_inline struct polter_thread* leaver(struct polter_cpu* cpu, struct task_struct* task, bool gap) {
    return waiter(task);
}

static __always_inline void goes(struct polter_cpu* cpu, struct polter_thread* thread) {}

static __always_inline s32 known_as(struct polter_cpu* cpu, struct task_struct* task) {
    u64 work = ((struct polter_node_cpu*)cpu)->work;
    return work && (task->flags & PF_WQ_WORKER) ? work_id(work) : task->pid;
}

static __always_inline void reset(struct polter_cpu* cpu, struct polter_thread* thread) {
    struct polter_node_cpu* node = (struct polter_node_cpu*)cpu;
    polter_nesting_reset(cpu, &node->self);
    node->interrupted_now_ns = POLTER_LOAD(node->interrupted_ns);
}

POLTER_CHECKED_ALONE int returns(struct polter_thread* thread, struct polter_cpu* cpu, u64 now) {
    if (thread && cpu) polter_waiting_return(thread, NULL, cpu, bpf_get_smp_processor_id(), now);
    return 0;
}

static __always_inline void open_work(struct polter_node_cpu* node, u64 function, u32 tgid) {
    struct polter_ran* ran = polter_ran_open(&node->cpu, work_id(function), tgid, POLTER_OWNER_KERNEL);
    u64* words = (u64*)ran->comm;
    words[0] = 0;
    words[1] = function;
    node->work = function;
}

POLTER_SUBPROGRAM int open_task(struct polter_node_cpu* node, struct task_struct* task, u32 flags) {
    u32 tid = task->pid;
    if (!node) return 0;
    u64* work = flags & PF_WQ_WORKER ? bpf_map_lookup_elem(&works, &tid) : NULL;
    if (work) {
        open_work(node, *work, task->tgid);
        return 0;
    }
    node->work = 0;
    struct polter_ran* ran = polter_ran_open(&node->cpu, tid, task->tgid, POLTER_OWNER_KERNEL);
    if (tid == 0) {
        ran->comm[0] = 0;
    } else if (flags & PF_WQ_WORKER) { /* the worker's own dealings, under one name for all of them */
        static const char worker[POLTER_CULPRIT_LEN] = "kworker";
        const char* name = worker;
        POLTER_HIDE(name);
        __builtin_memcpy(ran->comm, name, POLTER_CULPRIT_LEN);
    } else {
#pragma clang loop unroll(full)
        for (u32 i = 0; i < sizeof ran->comm; i++) ran->comm[i] = task->comm[i];
    }
    return 0;
}

static __always_inline u32 owner_of(struct task_struct* task) {
    return POLTER_OWNER_KERNEL; /* all are named here */
}

static __always_inline u32 owner_of_seldom(struct task_struct* task) {
    return POLTER_OWNER_KERNEL;
}

static __always_inline void runs(struct polter_cpu* cpu, struct task_struct* task, u32 owner) {
    open_task((struct polter_node_cpu*)cpu, task, task->flags);
}

static __always_inline void begins(struct polter_thread* thread, struct polter_cpu* cpu, struct task_struct* task, u64 now) {}
static __always_inline void leaves(struct polter_cpu* cpu, struct task_struct* task) {}

#include "scheduling.bpf.h"

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct* task) {
    struct polter_thread* thread = waiter(task);
    if (thread) queued(thread, task_cpu(task), true, task_makes_way_for(task));
    return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct* task) {
    u32 tid = task->pid;
    bpf_map_delete_elem(&tasks, &tid);
    return 0;
}

/* ---- work items: what a kernel worker does is more than its name says ---- */

POLTER_SUBPROGRAM int name_function(u64 function) {
    u64 argument = function;
    if (bpf_map_lookup_elem(&functions, &function)) return 0;
    bpf_map_update_elem(&functions, &function, &new_function, BPF_NOEXIST);
    struct polter_function* f = bpf_map_lookup_elem(&functions, &function);
    if (f) bpf_snprintf(f->name, sizeof f->name, symbol, &argument, sizeof argument);
    return 0;
}

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(on_work_start, struct work_struct* work) {
    struct polter_node_cpu* node = measured_here();
    struct task_struct* task = bpf_get_current_task_btf();
    u64 function = (u64)BPF_CORE_READ(work, func); /* a number: a verifier lets nobody calculate with what it knows to be a pointer */
    u32 tid = task->pid;
    if (!node || !function) return 0;
    name_function(function);
    if (bpf_map_update_elem(&works, &tid, &function, BPF_ANY) != 0) return 0;
    polter_ran_close(&node->cpu, look(node));
    open_work(node, function, task->tgid);
    return 0;
}

SEC("tp_btf/workqueue_execute_end")
int BPF_PROG(on_work_end) {
    struct polter_node_cpu* node = measured_here();
    struct task_struct* task = bpf_get_current_task_btf();
    u32 tid = task->pid;
    bpf_map_delete_elem(&works, &tid);
    if (!node || !node->work) return 0;
    polter_ran_close(&node->cpu, look(node));
    open_task(node, task, task->flags);
    return 0;
}

/* ---- interruptions ---- */

static __always_inline struct polter_thread* interruption_begins(struct polter_cpu* cpu) {
    struct polter_node_cpu* node = (struct polter_node_cpu*)cpu;
    if (node->closing) return NULL;
    node->fresh = 0;
    return &node->self;
}

static __always_inline struct polter_thread* interrupted(struct polter_cpu* cpu) {
    struct polter_node_cpu* node = (struct polter_node_cpu*)cpu;
    return !node->fresh && !node->closing ? &node->self : NULL;
}

static __always_inline void ended(struct polter_thread* thread, struct polter_cpu* cpu, u32 kind, u64 end, u64 net, u32 account,
                                  const struct polter_culprit* culprit) {
    POLTER_HIDE(culprit);
    book(account, net, culprit->pid, culprit->name);
}

static const char nmi_name[POLTER_CULPRIT_LEN] = "nmi";

static __always_inline void nmi_ended(struct polter_thread* thread, u64 end, u64 duration) {
    book(POLTER_NMI, duration, 0, nmi_name);
}

#include "interruptions.bpf.h"

/* Their end has no tracepoint: they are counted. */
static __always_inline int fault(void) {
    char name[POLTER_CULPRIT_LEN] = {};
    bpf_get_current_comm(name, sizeof name);
    return book(POLTER_FAULT, 0, 1, name);
}
SEC("tp_btf/page_fault_user")
int BPF_PROG(on_page_fault_user) {
    return fault();
}
SEC("tp_btf/page_fault_kernel")
int BPF_PROG(on_page_fault_kernel) {
    return fault();
}

/* ---- called by BPF_PROG_TEST_RUN, on each CPU ---- */

SEC("raw_tp")
int begin_cpu(void* ctx) {
    struct polter_node_cpu* node = node_of(bpf_get_smp_processor_id());
    struct task_struct* task = bpf_get_current_task_btf();
    if (!node) return 1;
    node->fresh = 1;
    polter_ran_always(&node->cpu); /* all that runs is wanted */
    node->cpu.since_ns = bpf_ktime_get_ns();
    open_task(node, task, task->flags);
    node->end_ns = 0;
    POLTER_BARRIER();
    node->begin_ns = node->cpu.since_ns;
    return 0;
}

SEC("raw_tp")
int end_cpu(void* ctx) {
    struct polter_node_cpu* node = measured_here();
    if (!node) return 1;
    POLTER_STORE(node->closing, 1u);
    u64 now = look(node);
    polter_ran_close(&node->cpu, now);
    node->end_ns = now;
    return 0;
}
