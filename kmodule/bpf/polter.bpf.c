// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The eBPF backend: kernel tracepoints feed the accounting of ../accounting/. Each program finds the registered thread that it is about,
 * calls one function of the accounting and returns; anything else is left alone after one look into a hash map.
 */
// clang-format off: vmlinux.h defines the types that the others use
#include "vmlinux.h"
// clang-format on
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "../accounting/state.h"
#include "arch.bpf.h"
#include "core_fixes.bpf.h"
#include "tids.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* One process's pages: mapped by the process, so a map of its own. */
struct page_array {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
    __uint(max_entries, 1);
    __uint(key_size, sizeof(u32));
    __uint(value_size, sizeof(struct polter_page)); /* sizes, since clang describes a type only named here as a forward declaration */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, POLTER_BPF_PROCESSES);
    __type(key, u32); /* the daemon's number of the process */
    __array(values, struct page_array);
} pages SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, POLTER_BPF_PROCESSES);
    __type(key, u32); /* tgid */
    __type(value, struct polter_process);
} processes SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, POLTER_BPF_THREADS);
    __type(key, u32); /* the daemon's number of the thread */
    __type(value, struct polter_thread);
} threads SEC(".maps");

/* Which of them is a task's: a hash table of the daemon's making, since a look into one of the kernel's costs as much as all the rest of
 * what is done at a switch. A task that is not registered is told so by one cache line. */
struct polter_tids tids[POLTER_BPF_BUCKETS];

/* An array of all CPUs, not a per-CPU one: a thread that moved while it waited reads the log of the CPU that it left. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1); /* set to the number of CPUs before loading */
    __type(key, u32);
    __type(value, struct polter_cpu);
} cpus SEC(".maps");

/* Interrupt lines that belong to network devices. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __type(key, u32);
    __type(value, u8);
} net_irqs SEC(".maps");

static __always_inline struct polter_cpu* cpu_state(u32 cpu) {
    return bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline u64 job_of(u32 tgid) {
    struct polter_process* process = bpf_map_lookup_elem(&processes, &tgid);
    return process ? process->job : 0;
}

static __always_inline struct polter_page* page_at(u32 process, u32 slot) {
    void* array = bpf_map_lookup_elem(&pages, &process);
    return array ? bpf_map_lookup_elem(array, &slot) : NULL;
}

static __always_inline struct polter_page* page_of(struct polter_thread* thread) {
    return page_at(thread->process, thread->slot);
}

static __always_inline struct polter_thread* thread_of(u32 tid) {
    struct polter_tids* bucket = &tids[tid & (POLTER_BPF_BUCKETS - 1)];
    u32 thread = POLTER_BPF_THREADS;

    if (!tid) return NULL;
#pragma clang loop unroll(full)
    for (u32 i = 0; i < POLTER_BPF_WAYS; i++)
        if (bucket->tid[i] == tid) thread = bucket->thread[i];
    if (thread == POLTER_BPF_THREADS) return NULL;
    struct polter_thread* found = bpf_map_lookup_elem(&threads, &thread);
    return found && !found->gone ? found : NULL;
}

static __always_inline struct polter_thread* current_thread(void) {
    return thread_of((u32)bpf_get_current_pid_tgid());
}

#define POLTER_NOW() bpf_ktime_get_ns()
#define POLTER_CPU(n) cpu_state(n)
#define POLTER_JOB_OF(tgid) job_of(tgid)
#define POLTER_REPEAT(n, callback, context) bpf_loop(n, callback, context, 0)
#include "../accounting/nesting.h"
#include "../accounting/steal.h"
#include "../accounting/waiting.h"

static const struct polter_culprit nmi = {0, "nmi"};

/* `alone`: see publish.h; softirqs run with interrupts on. */
static __always_inline void record(struct polter_thread* thread, u64 end, u64 duration, u32 account, const struct polter_culprit* culprit,
                                   int alone) {
    struct polter_page* page = page_of(thread);
    if (!page) return;
    int outermost = polter_publish_begin(thread, alone);
    if (polter_publish_has_nmi(thread)) polter_publish_noted_nmi(thread, page, &nmi, alone);
    polter_publish_record(thread, page, end, duration, account, 1, culprit, alone);
    polter_publish_end(thread, page, outermost, end, alone);
}

/* ---- what the hypervisor takes ---- */

/* Whether there is somebody who takes, and tells; set before loading. */
const volatile _Bool has_steal = 0;
static const struct polter_culprit hypervisor = {0, "hypervisor"};

/* As an interruption of `thread` that nests in no other ends. */
static __always_inline void look_for_steal(struct polter_thread* thread, struct polter_cpu* cpu) {
    u64 taken = polter_steal_look(cpu, thread, stolen_from_cpu_of(bpf_get_current_task_btf()), &cpu->frame[0]);
    if (taken) record(thread, cpu->frame[0].start_ns, taken, POLTER_STEAL, &hypervisor, POLTER_ALONE);
}

/* ---- scheduling ---- */

/* Switches that no program was called for; see on_switch. */
unsigned long long unseen_switches;

/* Twice in on_switch: a function of its own keeps that small. */
static __noinline int returns(struct polter_thread* thread, struct polter_cpu* cpu, u64 now) {
    struct polter_page* page = page_of(thread);
    if (page) polter_waiting_return(thread, page, &cpu->split, now);
    return 0;
}

static __always_inline void runs(struct polter_cpu* cpu, struct task_struct* task) {
    struct polter_ran* ran = polter_ran_open(cpu, task->pid, task->tgid);
    __builtin_memcpy(ran->comm, task->comm, sizeof ran->comm); /* cheaper than the helper that copies */
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct* prev, struct task_struct* next, unsigned int prev_state) {
    u64 now = bpf_ktime_get_ns();
    u32 number = bpf_get_smp_processor_id();
    struct polter_cpu* cpu = cpu_state(number);
    if (!cpu) return 0;

    struct polter_thread* thread = thread_of(prev->pid);
    polter_nesting_reset(cpu, thread);
    if (polter_ran_gap(cpu, prev->pid)) {
        /* There are kernels that do not call the tracepoint for each switch away from some tasks (seen on a 6.18 guest, not counted as
         * recursion by the kernel). What is missed is made good from the scheduler's own record of when this task came. */
        u64 came = polter_ran_came(cpu, task_arrival(prev, now), now);
        __sync_fetch_and_add(&unseen_switches, 1);
        if (thread && thread->off != POLTER_RUNNING) {
            if (came)
                returns(thread, cpu, came);
            else
                POLTER_ADD(thread->master.unbalanced, 1ull);
        }
        if (came) runs(cpu, prev);
    }
    polter_ran_close(cpu, now);
    if (thread) {
        u32 off = POLTER_PREEMPTED;
        if (!preempt && task_is_blocked(prev, prev_state)) {
            off = POLTER_BLOCKED;
        } else if (task_is_throttled(prev)) {
            off = POLTER_THROTTLED;
            task_throttler(prev, thread->throttler);
        } else if (!preempt && in_sched_yield(prev)) {
            off = POLTER_YIELDED;
        }
        polter_waiting_leave(thread, cpu, number, off, now);
    }

    thread = thread_of(next->pid);
    if (thread) {
        returns(thread, cpu, now);
        if (has_steal) polter_steal_begin(cpu, thread, stolen_from_cpu_of(next), now, polter_steal_interrupted(thread));
    }
    runs(cpu, next);
    return 0;
}

/* Woken, or moved to the queue of another CPU while it waits. Private state only: the thread's page belongs to the CPU it ran on. */
static __always_inline void queued(struct polter_thread* thread, u32 number, bool woken) {
    struct polter_cpu* cpu = cpu_state(number);
    if (cpu) polter_waiting_queue(thread, cpu, number, woken, bpf_ktime_get_ns());
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct* task) {
    struct polter_thread* thread = thread_of(task->pid);
    if (thread) queued(thread, task_cpu(task), true);
    return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct* task, int dest_cpu) {
    struct polter_thread* thread = thread_of(task->pid);
    if (thread) queued(thread, dest_cpu, false);
    return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct* task) {
    u32 tid = task->pid;
    struct polter_thread* thread = thread_of(tid);
    if (!thread) return 0;
    struct polter_page* page = page_of(thread);
    u64 now = bpf_ktime_get_ns();
    if (page) {
        int outermost = polter_publish_begin(thread, POLTER_NESTED);
        polter_publish_end(thread, page, outermost, now, POLTER_NESTED);
        thread->gone = 1;
        page->header.end_ns = now;
        POLTER_STORE(page->header.state, (u32)POLTER_PAGE_FROZEN);
    }
    thread->gone = 1;
    /* The id may be another's soon. */
    struct polter_tids* bucket = &tids[tid & (POLTER_BPF_BUCKETS - 1)];
#pragma clang loop unroll(full)
    for (u32 i = 0; i < POLTER_BPF_WAYS; i++)
        if (bucket->tid[i] == tid) bucket->tid[i] = 0;
    return 0;
}

/* ---- interruptions ---- */

static __always_inline int enter(u32 kind, u32 id) {
    struct polter_thread* thread = current_thread();
    struct polter_cpu* cpu = thread ? cpu_state(bpf_get_smp_processor_id()) : NULL;
    if (cpu) polter_nesting_enter(cpu, thread, kind, id);
    return 0;
}

static __always_inline int leave(u32 kind, u32 id, u32 account, const struct polter_culprit* culprit) {
    struct polter_thread* thread = current_thread();
    struct polter_cpu* cpu = thread ? cpu_state(bpf_get_smp_processor_id()) : NULL;
    u64 end, net;
    if (!cpu) return 0;
    if (!polter_nesting_exit(cpu, thread, kind, id, &end, &net)) return 0;
    /* The tick, or where the timer has no tracepoint of its own, whatever interrupts. */
    if (has_steal && kind != POLTER_FRAME_SOFTIRQ && POLTER_LOAD(cpu->depth) == 0) look_for_steal(thread, cpu);
    record(thread, end, net, account, culprit, kind == POLTER_FRAME_SOFTIRQ ? POLTER_NESTED : POLTER_ALONE);
    return 0;
}

static const struct polter_culprit local_timer = {0, "local_timer"};
static const struct polter_culprit reschedule = {0, "reschedule"};
static const struct polter_culprit call_function = {0, "call_function"};
static const struct polter_culprit irq_work = {0, "irq_work"};

/* The vectors of the x86 local interrupt controller. */
enum vector { VECTOR_TIMER, VECTOR_RESCHEDULE, VECTOR_CALL, VECTOR_CALL_SINGLE, VECTOR_IRQ_WORK };

SEC("tp_btf/local_timer_entry")
int BPF_PROG(on_local_timer_entry) {
    return enter(POLTER_FRAME_TIMER, VECTOR_TIMER);
}
SEC("tp_btf/local_timer_exit")
int BPF_PROG(on_local_timer_exit) {
    return leave(POLTER_FRAME_TIMER, VECTOR_TIMER, POLTER_TIMER, &local_timer);
}

SEC("tp_btf/reschedule_entry")
int BPF_PROG(on_reschedule_entry) {
    return enter(POLTER_FRAME_IPI, VECTOR_RESCHEDULE);
}
SEC("tp_btf/reschedule_exit")
int BPF_PROG(on_reschedule_exit) {
    return leave(POLTER_FRAME_IPI, VECTOR_RESCHEDULE, POLTER_IPI, &reschedule);
}

SEC("tp_btf/call_function_entry")
int BPF_PROG(on_call_function_entry) {
    return enter(POLTER_FRAME_IPI, VECTOR_CALL);
}
SEC("tp_btf/call_function_exit")
int BPF_PROG(on_call_function_exit) {
    return leave(POLTER_FRAME_IPI, VECTOR_CALL, POLTER_IPI, &call_function);
}

SEC("tp_btf/call_function_single_entry")
int BPF_PROG(on_call_function_single_entry) {
    return enter(POLTER_FRAME_IPI, VECTOR_CALL_SINGLE);
}
SEC("tp_btf/call_function_single_exit")
int BPF_PROG(on_call_function_single_exit) {
    return leave(POLTER_FRAME_IPI, VECTOR_CALL_SINGLE, POLTER_IPI, &call_function);
}

SEC("tp_btf/irq_work_entry")
int BPF_PROG(on_irq_work_entry) {
    return enter(POLTER_FRAME_IPI, VECTOR_IRQ_WORK);
}
SEC("tp_btf/irq_work_exit")
int BPF_PROG(on_irq_work_exit) {
    return leave(POLTER_FRAME_IPI, VECTOR_IRQ_WORK, POLTER_IPI, &irq_work);
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_handler_entry, int irq) {
    return enter(POLTER_FRAME_IRQ, irq);
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_handler_exit, int irq, struct irqaction* action) {
    struct polter_thread* thread = current_thread();
    struct polter_cpu* cpu = thread ? cpu_state(bpf_get_smp_processor_id()) : NULL;
    u64 end, net;
    if (!cpu || !polter_nesting_exit(cpu, thread, POLTER_FRAME_IRQ, irq, &end, &net)) return 0;
    struct polter_culprit culprit = {};
    u32 line = irq;
    bpf_probe_read_kernel_str(culprit.name, sizeof culprit.name, action->name);
    record(thread, end, net, bpf_map_lookup_elem(&net_irqs, &line) ? POLTER_NET : POLTER_IRQ, &culprit, POLTER_ALONE);
    return 0;
}

/* By number, in the order of the kernel's enum; a power of two of them, so that a mask shows the verifier the bound. */
#define SOFTIRQS 16
static const struct polter_culprit softirq_names[SOFTIRQS] = {
    {0, "HI"},      {0, "TIMER"}, {0, "NET_TX"},  {0, "NET_RX"},  {0, "BLOCK"},   {0, "IRQ_POLL"}, {0, "TASKLET"}, {0, "SCHED"},
    {0, "HRTIMER"}, {0, "RCU"},   {0, "softirq"}, {0, "softirq"}, {0, "softirq"}, {0, "softirq"},  {0, "softirq"}, {0, "softirq"}};

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int vector) {
    return enter(POLTER_FRAME_SOFTIRQ, vector);
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit, unsigned int vector) {
    /* The program's own communication and I/O are done in these. */
    bool net = vector == NET_TX_SOFTIRQ || vector == NET_RX_SOFTIRQ || vector == BLOCK_SOFTIRQ || vector == IRQ_POLL_SOFTIRQ;
    return leave(POLTER_FRAME_SOFTIRQ, vector, net ? POLTER_NET : POLTER_SOFTIRQ, &softirq_names[vector & (SOFTIRQS - 1)]);
}

/* The tracepoint comes after each handler of a non-maskable interrupt, with the handler's time; nothing nests in it. */
SEC("tp_btf/nmi_handler")
int BPF_PROG(on_nmi_handler, void* handler, s64 delta_ns) {
    struct polter_thread* thread = current_thread();
    struct polter_cpu* cpu = thread ? cpu_state(bpf_get_smp_processor_id()) : NULL;
    if (!cpu || delta_ns <= 0) return 0;
    polter_nesting_charge(cpu, POLTER_LOAD(cpu->depth), delta_ns);
    polter_publish_nmi(thread, bpf_ktime_get_ns(), delta_ns);
    return 0;
}

/* ---- page faults: counted, since there is no tracepoint at their end ---- */

static __always_inline int on_fault(void) {
    struct polter_thread* thread = current_thread();
    if (thread) POLTER_ADD(thread->master.count[POLTER_FAULT], 1ull); /* made public with the next event */
    return 0;
}
SEC("tp_btf/page_fault_user")
int BPF_PROG(on_page_fault_user) {
    return on_fault();
}
SEC("tp_btf/page_fault_kernel")
int BPF_PROG(on_page_fault_kernel) {
    return on_fault();
}

/* ---- called by the daemon (BPF_PROG_TEST_RUN), which cannot write a frozen map ---- */

/* A thread takes a slot: (process, slot, tid, start_ns). */
SEC("raw_tp")
int begin_page(struct bpf_raw_tracepoint_args* ctx) {
    struct polter_page* page = page_at(ctx->args[0], ctx->args[1]);
    if (!page) return 1;
    struct polter_counters* copies = page->copy;
    u64* word = (u64*)copies;
    for (u32 i = 0; i < 2 * POLTER_COPY_STRIDE / 8; i++) word[i] = 0;
    page->header.reserved = 0;
    page->header.tid = ctx->args[2];
    page->header.start_ns = ctx->args[3];
    page->header.end_ns = 0;
    POLTER_BARRIER();
    POLTER_STORE(page->header.state, (u32)POLTER_PAGE_LIVE);
    return 0;
}

/* What stands there is final: (process, slot, end_ns). */
SEC("raw_tp")
int freeze_page(struct bpf_raw_tracepoint_args* ctx) {
    struct polter_page* page = page_at(ctx->args[0], ctx->args[1]);
    if (!page) return 1;
    if (page->header.state != POLTER_PAGE_LIVE) return 0;
    page->header.end_ns = ctx->args[2];
    POLTER_BARRIER();
    POLTER_STORE(page->header.state, (u32)POLTER_PAGE_FROZEN);
    return 0;
}
