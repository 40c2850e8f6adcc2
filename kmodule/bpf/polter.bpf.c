// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The eBPF backend: kernel tracepoints feed the accounting of ../accounting/. Each program finds the registered thread that it is about,
 * calls one function of the accounting and returns; anything else is left alone after one look at what the CPU's state says of it.
 */
// clang-format off: vmlinux.h defines the types that the others use
#include "vmlinux.h"
// clang-format on
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "../accounting/ran.h"
#include "../accounting/started.h"
#include "../accounting/state.h"
#include "arch.bpf.h"
#include "core_fixes.bpf.h"
#include "tids.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* One thread's page: mapped by its process, so a map of its own. */
struct page_array {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __uint(key_size, sizeof(u32));
    __uint(value_size, sizeof(struct polter_page)); /* sizes, since clang describes a type only named here as a forward declaration */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, POLTER_BPF_THREADS);
    __type(key, u32); /* the daemon's number of the thread */
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

unsigned long long processes_ended;

/* Maps a tid to its entry: a hash table filled by the daemon, since a lookup in a kernel hash map costs as much as all other work at a
 * switch. Whether a task that comes to a CPU may be in it says one bit of a filter that mostly stays in the cache. */
struct polter_tids tids[POLTER_BPF_BUCKETS];
unsigned long long tids_filter[POLTER_BPF_FILTER / 64];
/* Counted up by the daemon after each change of the table: what a CPU knows of the thread that runs there is of one state of the table. */
unsigned int tids_generation;
const volatile unsigned int tids_seed = 0; /* set before loading */

struct polter_started started[POLTER_STARTED_BUCKETS];

/* An array of all CPUs, not a per-CPU one: a thread that moved while it waited reads the log of the CPU that it left. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1); /* set to the number of CPUs before loading */
    __type(key, u32);
    __type(value, struct polter_cpu);
} cpus SEC(".maps");

static __always_inline struct polter_cpu* cpu_state(u32 cpu) {
    return bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline struct polter_started* started_bucket(u32 tgid) {
    return polter_started_bucket(started, tids_seed, tgid);
}

POLTER_CHECKED_ALONE u64 job_of(u32 tgid) {
    struct polter_process* process = bpf_map_lookup_elem(&processes, &tgid);
    return process ? process->job : polter_started_job(started_bucket(tgid), tgid);
}

static __always_inline struct polter_page* page_at(u32 number) {
    u32 only = 0;
    void* array = bpf_map_lookup_elem(&pages, &number);
    return array ? bpf_map_lookup_elem(array, &only) : NULL;
}

static __always_inline struct polter_page* page_of(struct polter_thread* thread) {
    return page_at(thread->page);
}

static __always_inline struct polter_tids* bucket_of(u32 tid) {
    return &tids[polter_tids_bucket(tid, tids_seed)];
}

/* A thread that is not the leader loses its id when it executes another program; on_exec is called later, much later where reading the
 * program takes long. So the tid alone does not identify the thread. The tgid does: it is unique as long as the process lives. */
static __always_inline struct polter_thread* thread_of(u32 tid, u32 tgid) {
    struct polter_tids* bucket = bucket_of(tid);
    u32 thread = POLTER_BPF_THREADS;

    if (!tid) return NULL;
#pragma clang loop unroll(full)
    for (u32 i = 0; i < POLTER_BPF_WAYS; i++)
        if (bucket->tid[i] == tid) thread = bucket->thread[i];
    if (thread == POLTER_BPF_THREADS) return NULL;
    struct polter_thread* found = bpf_map_lookup_elem(&threads, &thread);
    return found && !found->gone && found->tgid == tgid ? found : NULL;
}

static __always_inline bool may_be_registered(u32 tid) {
    u32 bit = polter_tids_filter_bit(tid, tids_seed);
    return POLTER_LOAD(tids_filter[bit / 64]) >> (bit % 64) & 1;
}

/* As the CPU's state names it. */
static __always_inline u64 name_of(struct polter_thread* thread) {
    return thread ? thread->page + 1ull : 0;
}

static __always_inline struct polter_thread* named(u64 name, s32 tid, u32 tgid) {
    u32 number = name - 1;
    struct polter_thread* found = name ? bpf_map_lookup_elem(&threads, &number) : NULL;
    return found && !found->gone && found->tid == tid && found->tgid == tgid ? found : NULL;
}

/* The table has changed, or a switch was not shown, so that the CPU's state is not of the task that runs. Gives the thread's number. */
POLTER_SUBPROGRAM u32 look_up_here(struct polter_cpu* cpu) {
    u64 ids = bpf_get_current_pid_tgid();
    u32 generation = POLTER_LOAD_FIRST(tids_generation); /* before the table is read */
    struct polter_thread* thread = thread_of(ids, ids >> 32);
    if (cpu->known && cpu->tid == (s32)ids) {
        POLTER_STORE(cpu->thread, name_of(thread));
        POLTER_BARRIER();
        POLTER_STORE(cpu->generation, generation);
    }
    return thread ? thread->page : POLTER_BPF_THREADS;
}

/* Switches that no program was called for; see scheduling.bpf.h. */
extern unsigned long long unseen_switches;

/* The registered thread that runs on this CPU. */
static __always_inline struct polter_thread* thread_here(struct polter_cpu* cpu) {
    bool known = POLTER_LOAD(cpu->generation) == POLTER_LOAD(tids_generation);
    /* Asking who is current costs more than all else here. It is who was last seen to come, where the kernel shows all switches. */
    if (known && !POLTER_LOAD(cpu->thread) && !POLTER_LOAD(unseen_switches) && !polter_ran_wanted(cpu)) return NULL;
    u64 ids = bpf_get_current_pid_tgid(), name = POLTER_LOAD(cpu->thread);
    if (known && cpu->known && cpu->tid == (s32)ids) {
        struct polter_thread* thread = named(name, ids, ids >> 32);
        if (thread || !name) return thread;
    }
    u32 number = look_up_here(cpu);
    return bpf_map_lookup_elem(&threads, &number);
}

#define POLTER_NOW() bpf_ktime_get_ns()
#define POLTER_CPU(n) cpu_state(n)
#define POLTER_JOB_OF(tgid) job_of(tgid)
#define POLTER_REPEAT(n, callback, context) bpf_loop(n, callback, context, 0)
#include "../accounting/culprits.h"
#include "../accounting/faults.h"
#include "../accounting/nesting.h"
#include "../accounting/steal.h"
#include "../accounting/waiting.h"

/* `alone`: see publish.h; softirqs run with interrupts on. */
static __always_inline void record(struct polter_thread* thread, u64 end, u64 duration, u32 account, const struct polter_culprit* culprit,
                                   int alone) {
    struct polter_page* page = page_of(thread);
    if (!page) return;
    int outermost = polter_publish_begin(thread, alone);
    if (polter_publish_has_nmi(thread)) polter_publish_noted_nmi(thread, page, &polter_nmi, alone);
    polter_publish_record(thread, page, end, duration, account, 1, culprit, alone);
    polter_publish_end(thread, page, outermost, end, alone);
}

/* ---- kernel workers are named by the function they execute ---- */

struct work_name {
    char name[POLTER_CULPRIT_LEN];
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 256);
    __type(key, u64); /* the function */
    __type(value, struct work_name);
} work_names SEC(".maps");

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(on_work, struct work_struct* work) {
    struct polter_cpu* cpu = cpu_state(bpf_get_smp_processor_id());
    /* Keep the first work item: flushers queue barrier items behind it. */
    if (cpu && !cpu->work) cpu->work = (u64)work->func;
    return 0;
}

/* A kworker leaves the CPU. Call before polter_ran_close. A separate function keeps this rare path out of on_switch. */
POLTER_CHECKED_ALONE int name_work(struct polter_cpu* cpu, s32 tid, u32 tgid) {
    u64 function = cpu ? cpu->work : 0;
    struct work_name* known = bpf_map_lookup_elem(&work_names, &function);
    struct work_name name = {};

    if (!cpu) return 0;
    cpu->work = 0;
    if (known) {
        name = *known;
    } else { /* look up the symbol once a function: that takes a microsecond */
        char symbol[64] = {};
        bpf_snprintf(symbol, sizeof symbol, "%ps", &function, sizeof function);
        if (!symbol[0] || (symbol[0] == '0' && symbol[1] == 'x')) return 0; /* no symbols: keep the kworker's own name */
        __builtin_memcpy(name.name, symbol, POLTER_CULPRIT_LEN - 1);
        bpf_map_update_elem(&work_names, &function, &name, BPF_ANY);
    }
    polter_ran_did(cpu, tid, tgid, function, name.name);
    return 0;
}

/* ---- time stolen by the hypervisor ---- */

/* Whether a hypervisor reports stolen time; set before loading. */
const volatile _Bool has_steal = 0;

/* Called when an interruption of `thread` that is nested in no other one ends. */
static __always_inline void look_for_steal(struct polter_thread* thread, struct polter_cpu* cpu) {
    /* Stolen time advances only at timer ticks, at most a thousand a second, and reading it touches a cold cache line. */
    if (cpu->frame[0].began_ns - cpu->steal_look_ns < 500000) return;
    cpu->steal_look_ns = cpu->frame[0].began_ns;
    u64 taken = polter_steal_look(cpu, thread, stolen_from_cpu_of(bpf_get_current_task_btf()), &cpu->frame[0]);
    if (taken) record(thread, cpu->frame[0].began_ns, taken, POLTER_STEAL, &polter_hypervisor, POLTER_ALONE);
}

/* ---- scheduling ---- */

static __always_inline bool may_wait(struct task_struct* task) {
    return may_be_registered(task->pid);
}

static __always_inline struct polter_thread* waiter(struct task_struct* task) {
    return may_be_registered(task->pid) ? thread_of(task->pid, task->tgid) : NULL;
}

static __always_inline struct polter_thread* leaver(struct polter_cpu* cpu, struct task_struct* task, bool gap) {
    u32 generation = POLTER_LOAD_FIRST(tids_generation);
    bool known = !gap && cpu->known && cpu->generation == generation;
    cpu->generation = generation; /* read before the table is, for the task that comes */
    return known ? named(cpu->thread, task->pid, task->tgid) : thread_of(task->pid, task->tgid);
}

static __always_inline void goes(struct polter_cpu* cpu, struct polter_thread* thread) {
    cpu->thread = name_of(thread);
}

static __always_inline s32 known_as(struct polter_cpu* cpu, struct task_struct* task) {
    return task->pid;
}

static __always_inline void reset(struct polter_cpu* cpu, struct polter_thread* thread) {
    polter_nesting_reset(cpu, thread);
}

/* Twice in on_switch: a function of its own keeps that small. */
POLTER_CHECKED_ALONE int returns(struct polter_thread* thread, struct polter_cpu* cpu, u64 now) {
    if (!thread || !cpu) return 0;
    struct polter_page* page = page_of(thread);
    if (page) polter_waiting_return(thread, page, cpu, bpf_get_smp_processor_id(), now);
    return 0;
}

static __always_inline u32 owner_of(struct task_struct* task) {
    return task_owner(task);
}

static __always_inline u32 owner_of_seldom(struct task_struct* task) {
    return task_owner_seldom(task);
}

static __always_inline void runs(struct polter_cpu* cpu, struct task_struct* task, u32 owner) {
    polter_ran_come(cpu, task->pid, task->tgid, owner);
    __builtin_memcpy(cpu->comm, task->comm, sizeof cpu->comm); /* cheaper than the helper that copies */
    polter_ran_go_on(cpu);
}

static __always_inline void begins(struct polter_thread* thread, struct polter_cpu* cpu, struct task_struct* task, u64 now) {
    if (has_steal) polter_steal_begin(cpu, thread, stolen_from_cpu_of(task), now, polter_steal_interrupted(thread));
}

static __always_inline void leaves(struct polter_cpu* cpu, struct task_struct* task) {
    if (cpu->work && cpu->following) name_work(cpu, task->pid, task->tgid);
    cpu->work = 0;
}

#include "scheduling.bpf.h"

/* Ends the thread's accounts. The kernel may soon reuse its id. */
POLTER_SUBPROGRAM int end_thread(struct polter_thread* thread) {
    struct polter_page* page = page_of(thread);
    u32 tid = thread->tid;
    u64 now = bpf_ktime_get_ns();
    polter_waiting_give_up(thread);
    if (page) {
        int outermost = polter_publish_begin(thread, POLTER_NESTED);
        polter_publish_end(thread, page, outermost, now, POLTER_NESTED);
        thread->gone = 1;
        page->header.end_ns = now;
        POLTER_STORE(page->header.state, (u32)POLTER_PAGE_FROZEN);
    }
    thread->gone = 1;
    struct polter_tids* bucket = bucket_of(tid);
#pragma clang loop unroll(full)
    for (u32 i = 0; i < POLTER_BPF_WAYS; i++)
        if (bucket->tid[i] == tid) bucket->tid[i] = 0;
    return 0;
}

/* Ends the process's registration: it is in no job, and the daemon gives its threads no more pages. */
static __always_inline void end_process(u32 tgid) {
    bpf_map_delete_elem(&processes, &tgid);
    /* Complete this before searching its threads: the daemon enters a thread first and checks the process afterwards. */
    __sync_fetch_and_add(&processes_ended, 1);
}

/* All descendants of a measured process belong to its job, whatever they execute. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct* parent, struct task_struct* child) {
    u32 from = parent->tgid, tgid = child->tgid;
    if (from == tgid) return 0; /* a thread */
    struct polter_process* process = bpf_map_lookup_elem(&processes, &from);
    u64 job = process && process->measured ? process->job : polter_started_job(started_bucket(from), from);
    if (job) polter_started_enter(started_bucket(tgid), tgid, job);
    return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct* task) {
    /* Each thread has decremented the count by now; the one that sees zero ends the process. */
    if (task->signal->live.counter == 0) {
        end_process(task->tgid);
        polter_started_end(started_bucket(task->tgid), task->tgid);
    }
    struct polter_thread* thread = thread_of(task->pid, task->tgid);
    if (thread) end_thread(thread);
    return 0;
}

/* The new program may have more privileges and does not know of the registration: end it. The other threads have exited by now, and this
 * one has the leader's id. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct* task, int old_tid) {
    end_process(task->tgid);
    struct polter_thread* thread = thread_of(old_tid, task->tgid);
    if (thread) end_thread(thread);
    return 0;
}

/* ---- interruptions ---- */

static __always_inline struct polter_thread* interruption_begins(struct polter_cpu* cpu) {
    return thread_here(cpu);
}

static __always_inline struct polter_thread* interrupted(struct polter_cpu* cpu) {
    return thread_here(cpu);
}

static __always_inline void ended(struct polter_thread* thread, struct polter_cpu* cpu, u32 kind, u64 end, u64 net, u32 account,
                                  const struct polter_culprit* culprit) {
    /* The timer tick; on an architecture whose timer has no tracepoint of its own, any interrupt. */
    if (has_steal && (kind == POLTER_FRAME_TIMER || kind == POLTER_FRAME_IPI) && POLTER_LOAD(cpu->depth) == 0) look_for_steal(thread, cpu);
    record(thread, end, net, account, culprit, kind == POLTER_FRAME_SOFTIRQ ? POLTER_NESTED : POLTER_ALONE);
}

static __always_inline void nmi_ended(struct polter_thread* thread, u64 end, u64 duration) {
    polter_publish_nmi(thread, end, duration);
}

#include "interruptions.bpf.h"

/* ---- page faults: counted where they begin; their end has no tracepoint, and is the return of the function that handles them ---- */

/* Whether this kernel allows programs at that function; set before loading. If not, the next event publishes the count. */
const volatile _Bool has_fault_end = 0;

/* In an interrupt the kernel only probes memory, and handles no fault. */
static __always_inline int on_fault(_Bool from_user) {
    struct polter_cpu* cpu = cpu_state(bpf_get_smp_processor_id());
    struct polter_thread* thread = cpu ? thread_here(cpu) : NULL;
    if (!thread) return 0;
    if (has_fault_end && (from_user || POLTER_LOAD(cpu->depth) == 0))
        polter_fault_begin(thread);
    else
        polter_publish_later(thread, POLTER_FAULT);
    return 0;
}
SEC("tp_btf/page_fault_user")
int BPF_PROG(on_page_fault_user) {
    return on_fault(1);
}
SEC("tp_btf/page_fault_kernel")
int BPF_PROG(on_page_fault_kernel) {
    return on_fault(0);
}

/* Unlike at a tracepoint, the thread may be preempted here. The switch is then a writer nested in this one, as an interrupt is. */
SEC("fexit/handle_mm_fault")
int BPF_PROG(on_fault_handled, struct vm_area_struct* area, unsigned long address, unsigned int flags, struct pt_regs* registers,
             unsigned int result) {
    if (!registers) return 0; /* no exception: a system call accesses the memory of another process */
    struct polter_cpu* cpu = cpu_state(bpf_get_smp_processor_id());
    struct polter_thread* thread = cpu ? thread_here(cpu) : NULL;
    struct polter_page* page = thread ? page_of(thread) : NULL;
    if (page) polter_fault_end(thread, page, cpu, fault_is_tried_again(result));
    return 0;
}

/* ---- called by the daemon (BPF_PROG_TEST_RUN), which cannot write a frozen map ---- */

/* A thread takes a page, which is all zeros: (number, tid, pid, accounts seen, start_ns). */
SEC("raw_tp")
int begin_page(struct bpf_raw_tracepoint_args* ctx) {
    struct polter_page* page = page_at(ctx->args[0]);
    u32 tgid = ctx->args[2];
    u32 number = ctx->args[0];
    struct polter_thread* before = bpf_map_lookup_elem(&threads, &number);
    struct polter_process* process = bpf_map_lookup_elem(&processes, &tgid);
    if (!page) return 1;
    if (before)
        polter_waiting_give_up(before); /* a program that still ran when this number's last thread was removed may have counted it */
    if (process) process->measured = 1;
    polter_page_layout(&page->header, POLTER_BACKEND_BPF, ctx->args[3]);
    page->header.tid = ctx->args[1];
    page->header.pid = ctx->args[2];
    page->header.start_ns = ctx->args[4];
    POLTER_BARRIER();
    POLTER_STORE(page->header.state, (u32)POLTER_PAGE_LIVE);
    return 0;
}

static __always_inline void freeze(u32 number, u64 end_ns) {
    struct polter_page* page = page_at(number);
    struct polter_thread* thread = bpf_map_lookup_elem(&threads, &number);
    if (thread) polter_waiting_give_up(thread);
    if (!page || page->header.state != POLTER_PAGE_LIVE) return;
    page->header.end_ns = end_ns;
    POLTER_BARRIER();
    POLTER_STORE(page->header.state, (u32)POLTER_PAGE_FROZEN);
}

/* Marks pages as final: (end_ns, numbers…), as many as one call takes, since a process may have thousands of threads. */
SEC("raw_tp")
int freeze_pages(struct bpf_raw_tracepoint_args* ctx) {
    u64 end_ns = ctx->args[0];
#pragma clang loop unroll(full)
    for (u32 i = 1; i <= POLTER_BPF_FREEZE; i++) freeze(ctx->args[i], end_ns);
    return 0;
}

/* Lists the ids of all noise pages in memory. An id disappears once no process has the page mapped or its descriptor open. */
SEC("iter/bpf_map")
int list_pages(struct bpf_iter__bpf_map* ctx) {
    static const char name[] = POLTER_BPF_PAGE_NAME;
    struct bpf_map* map = ctx->map;
    if (!map) return 0;
    for (u32 i = 0; i < sizeof name; i++)
        if (map->name[i] != name[i]) return 0;
    u32 id = map->id;
    bpf_seq_write(ctx->meta->seq, &id, sizeof id);
    return 0;
}
