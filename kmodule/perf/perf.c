/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The perf tier: a thread's own switches, and where it is allowed interrupts, from the kernel's records in a perf ring
 * (perf_event_open(2)), through the accounting that all backends share. The thread reads the ring itself, when it asks for its noise; there
 * is no helper thread.
 *
 * PERF_RECORD_SWITCH_OUT_PREEMPT says "left while runnable", which a sched_yield is too. A caller that yields on purpose does so through
 * polter_noise_yield; the first such record inside that call is the yield.
 */
#define _GNU_SOURCE
#include "perf.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../reader/noise.h"
#include "../reader/own.h"
#include "open.h"

enum role { SWITCH, ENTRY, EXIT, NMI_HANDLER };

static const struct tracepoint {
    const char* name; /* as libpfm4 has it */
    enum role role;
    polter_u32 kind; /* enum polter_frame_kind */
    polter_u32 id;   /* APIC vectors; for the other tracepoints the record itself names the source */
    polter_u32 account;
    const char* culprit;
} tracepoints[] = {
    {"sched:sched_switch", SWITCH, 0, 0, POLTER_PREEMPT, NULL},
    {"irq_vectors:local_timer_entry", ENTRY, POLTER_FRAME_TIMER, 0, POLTER_TIMER, NULL},
    {"irq_vectors:local_timer_exit", EXIT, POLTER_FRAME_TIMER, 0, POLTER_TIMER, "local_timer"},
    {"irq_vectors:reschedule_entry", ENTRY, POLTER_FRAME_IPI, 1, POLTER_IPI, NULL},
    {"irq_vectors:reschedule_exit", EXIT, POLTER_FRAME_IPI, 1, POLTER_IPI, "reschedule"},
    {"irq_vectors:call_function_entry", ENTRY, POLTER_FRAME_IPI, 2, POLTER_IPI, NULL},
    {"irq_vectors:call_function_exit", EXIT, POLTER_FRAME_IPI, 2, POLTER_IPI, "call_function"},
    {"irq_vectors:call_function_single_entry", ENTRY, POLTER_FRAME_IPI, 3, POLTER_IPI, NULL},
    {"irq_vectors:call_function_single_exit", EXIT, POLTER_FRAME_IPI, 3, POLTER_IPI, "call_function"},
    {"irq_vectors:irq_work_entry", ENTRY, POLTER_FRAME_IPI, 4, POLTER_IPI, NULL},
    {"irq_vectors:irq_work_exit", EXIT, POLTER_FRAME_IPI, 4, POLTER_IPI, "irq_work"},
    {"irq:irq_handler_entry", ENTRY, POLTER_FRAME_IRQ, 0, POLTER_IRQ, NULL},
    {"irq:irq_handler_exit", EXIT, POLTER_FRAME_IRQ, 0, POLTER_IRQ, NULL},
    {"irq:softirq_entry", ENTRY, POLTER_FRAME_SOFTIRQ, 0, POLTER_SOFTIRQ, NULL},
    {"irq:softirq_exit", EXIT, POLTER_FRAME_SOFTIRQ, 0, POLTER_SOFTIRQ, NULL},
    {"nmi:nmi_handler", NMI_HANDLER, 0, 0, POLTER_NMI, "nmi"},
};
enum { TRACEPOINTS = sizeof tracepoints / sizeof tracepoints[0], NET_LINES = 64, RECORD_MOST = 512 };

const char* polter_perf_tracepoint(unsigned n) {
    return n < TRACEPOINTS ? tracepoints[n].name : NULL;
}

struct perf_own {
    struct polter_own base;
    struct perf_event_mmap_page* control;
    size_t mapped;
    const char* data;
    polter_u64 data_size, tail;
    polter_u64 now_ns; /* of the record at hand */
    polter_u64 id[TRACEPOINTS];
    int switches, fd[TRACEPOINTS];
    int in_yield;                     /* the next switch away is the yield */
    int named;                        /* `next` names the task that the following switch record brings in */
    struct polter_culprit next, line; /* line of the device interrupt entered last */
    polter_u32 net_lines[NET_LINES], net_count;
    struct polter_cpu cpu;
};

/* The accounting's environment: one thread, whatever CPU it is on, at the time of the record at hand. */
static __thread struct perf_own* current;
#define POLTER_NOW() (current->now_ns)
#define POLTER_CPU(n) (&current->cpu)
#define POLTER_JOB_OF(tgid) 0ull
#define POLTER_REPEAT(n, callback, context)          \
    for (polter_u32 step_ = 0; step_ < (n); step_++) \
        if (callback(step_, context)) break
#include "../accounting/nesting.h"
#include "../accounting/waiting.h"

static void record(struct perf_own* own, polter_u64 end, polter_u64 net, polter_u32 account, const struct polter_culprit* culprit) {
    const int outermost = polter_publish_begin(&own->base.account, POLTER_ALONE);
    polter_publish_record(&own->base.account, own->base.page, end, net, account, 1, culprit, POLTER_ALONE);
    polter_publish_end(&own->base.account, own->base.page, outermost, end, POLTER_ALONE);
}

static struct polter_culprit named(const char* name) {
    struct polter_culprit culprit = {0, ""};
    snprintf(culprit.name, sizeof culprit.name, "%s", name);
    return culprit;
}

static void on_switch(struct perf_own* own, int out, int runnable) {
    struct polter_thread* thread = &own->base.account;
    struct polter_ran* ran;

    polter_nesting_reset(&own->cpu, thread);
    polter_ran_close(&own->cpu, own->now_ns);
    if (!out) {
        polter_waiting_return(thread, own->base.page, &own->cpu, 0, own->now_ns);
        polter_ran_open(&own->cpu, thread->tid, thread->tgid, POLTER_OWNER_KERNEL);
        return;
    }
    polter_waiting_leave(thread, &own->cpu, 0, !runnable ? POLTER_BLOCKED : own->in_yield ? POLTER_YIELDED : POLTER_PREEMPTED, own->now_ns);
    if (own->in_yield) own->named = 0; /* neither the job nor the run time of the next task is known; none of this wait is noise */
    own->in_yield = 0;
    /* Only the first task that ran during the wait is known. The kernel lets this user see its name, so the page may show it. */
    ran = polter_ran_open(&own->cpu, own->named ? own->next.pid : -1, 0, POLTER_OWNER_KERNEL);
    memcpy(ran->comm, own->named ? own->next.name : polter_unknown, sizeof ran->comm);
    own->named = 0;
}

static void on_lost(struct perf_own* own, polter_u64 records) {
    struct polter_thread* thread = &own->base.account;
    const int outermost = polter_publish_begin(thread, POLTER_ALONE);
    polter_nesting_reset(&own->cpu, NULL);
    POLTER_ADD(thread->master.unbalanced, records);
    thread->off = POLTER_RUNNING;
    own->cpu.head = 0;
    own->named = 0;
    polter_publish_end(thread, own->base.page, outermost, 0, POLTER_ALONE);
}

/* Tracepoint fields at the offsets of their `format` files. tracepoints.cpp compares the offsets before it selects a tracepoint. */
static polter_u32 word_at(const char* raw, size_t size, size_t offset) {
    polter_u32 word = 0;
    if (offset + sizeof word <= size) memcpy(&word, raw + offset, sizeof word);
    return word;
}

static const char* const softirqs[] = {"HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"};

static void on_tracepoint(struct perf_own* own, const struct tracepoint* t, const char* raw, size_t size) {
    struct polter_thread* thread = &own->base.account;
    polter_u32 id = t->id, account = t->account;
    polter_u64 end, net;
    struct polter_culprit culprit;

    switch (t->role) {
        case SWITCH: /* next_comm at 40, next_pid at 56 */
            own->next.pid = (polter_s32)word_at(raw, size, 56);
            memset(own->next.name, 0, sizeof own->next.name);
            if (size >= 56) memcpy(own->next.name, raw + 40, sizeof own->next.name - 1);
            own->named = 1;
            return;
        case NMI_HANDLER: { /* delta_ns at 16 */
            long long delta = 0;
            if (size >= 24) memcpy(&delta, raw + 16, sizeof delta);
            if (delta <= 0) return;
            polter_nesting_charge(&own->cpu, own->cpu.depth, (polter_u64)delta);
            culprit = named(t->culprit);
            record(own, own->now_ns, (polter_u64)delta, account, &culprit);
            return;
        }
        case ENTRY:
            if (t->kind == POLTER_FRAME_IRQ || t->kind == POLTER_FRAME_SOFTIRQ) id = word_at(raw, size, 8);
            if (t->kind == POLTER_FRAME_IRQ) { /* name: its place in the record at 12 */
                const polter_u32 where = word_at(raw, size, 12) & 0xffff;
                own->line = named("irq");
                if (where < size) snprintf(own->line.name, sizeof own->line.name, "%.*s", (int)(size - where), raw + where);
            }
            polter_nesting_enter(&own->cpu, thread, t->kind, id);
            return;
        case EXIT:
            break;
    }
    if (t->kind == POLTER_FRAME_IRQ || t->kind == POLTER_FRAME_SOFTIRQ) id = word_at(raw, size, 8);
    if (!polter_nesting_exit(&own->cpu, thread, t->kind, id, &end, &net)) return;
    if (t->kind == POLTER_FRAME_IRQ) {
        culprit = own->line;
        for (polter_u32 i = 0; i < own->net_count; i++)
            if (own->net_lines[i] == id) account = POLTER_NET;
    } else if (t->kind == POLTER_FRAME_SOFTIRQ) {
        const int known = id < sizeof softirqs / sizeof softirqs[0];
        culprit = named(known ? softirqs[id] : "softirq");
        if (id >= 2 && id <= 5) account = POLTER_NET; /* the program's own communication and I/O */
    } else {
        culprit = named(t->culprit);
    }
    record(own, end, net, account, &culprit);
}

static polter_u64 long_at(const char* record, size_t offset) {
    polter_u64 value;
    memcpy(&value, record + offset, sizeof value);
    return value;
}

static void on_record(struct perf_own* own, const struct perf_event_header* h, const char* bytes) {
    if (h->type == PERF_RECORD_SWITCH && h->size >= 24) {
        own->now_ns = long_at(bytes, 8);
        on_switch(own, (h->misc & PERF_RECORD_MISC_SWITCH_OUT) != 0, (h->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0);
    } else if (h->type == PERF_RECORD_LOST && h->size >= 24) {
        on_lost(own, long_at(bytes, 16));
    } else if (h->type == PERF_RECORD_SAMPLE && h->size >= 28) {
        const polter_u64 id = long_at(bytes, 8);
        polter_u32 raw_size;
        memcpy(&raw_size, bytes + 24, sizeof raw_size);
        if (raw_size > h->size - 28u) raw_size = h->size - 28u;
        own->now_ns = long_at(bytes, 16);
        for (unsigned t = 0; t < TRACEPOINTS; t++)
            if (own->fd[t] >= 0 && own->id[t] == id) on_tracepoint(own, &tracepoints[t], bytes + 28, raw_size);
    }
}

static int moved(struct polter_own* base, polter_u64 now_ns) {
    (void)now_ns;
    const struct perf_own* own = (const struct perf_own*)base;
    return __atomic_load_n(&own->control->data_head, __ATOMIC_ACQUIRE) != own->tail;
}

static void update(struct polter_own* base) {
    struct perf_own* own = (struct perf_own*)base;
    const polter_u64 head = __atomic_load_n(&own->control->data_head, __ATOMIC_ACQUIRE);
    char bytes[RECORD_MOST] __attribute__((aligned(8)));

    current = own;
    while (own->tail < head) {
        const polter_u64 at = own->tail % own->data_size;
        struct perf_event_header h;
        memcpy(&h, own->data + at, sizeof h); /* records are multiples of 8 bytes: a header never wraps */
        if (h.size < sizeof h) {              /* no kernel writes this */
            own->tail = head;
            break;
        }
        if (h.size <= sizeof bytes) {
            const polter_u64 first = own->data_size - at < h.size ? own->data_size - at : h.size;
            memcpy(bytes, own->data + at, first);
            memcpy(bytes + first, own->data, h.size - first);
            on_record(own, &h, bytes);
        }
        own->tail += h.size;
    }
    __atomic_store_n(&own->control->data_tail, own->tail, __ATOMIC_RELEASE);
}

static int yield(struct polter_own* base) {
    struct perf_own* own = (struct perf_own*)base;
    update(base);
    const int result = (int)syscall(SYS_sched_yield);
    own->in_yield = 1;
    update(base);
    own->in_yield = 0;
    return result;
}

static void release(struct polter_own* base) {
    struct perf_own* own = (struct perf_own*)base;
    for (unsigned t = 0; t < TRACEPOINTS; t++)
        if (own->fd[t] >= 0) close(own->fd[t]);
    if (own->control) munmap(own->control, own->mapped);
    if (own->switches >= 0) close(own->switches);
    polter_own_free(base, sizeof *own);
}

static const struct polter_own_tier tier = {"perf", moved, update, yield, release};

/* Opens the items "group:name=config" and "net=line" of a comma-separated list. Accounts whose events cannot be opened are reported as
 * not seen. */
static void add_tracepoints(struct perf_own* own, const char* list) {
    while (list && *list) {
        const size_t length = strcspn(list, ",");
        const char* equals = memchr(list, '=', length);
        const size_t name = equals ? (size_t)(equals - list) : 0;
        const polter_u64 value = equals ? strtoull(equals + 1, NULL, 10) : 0;
        if (name == 3 && !memcmp(list, "net", 3) && own->net_count < NET_LINES) own->net_lines[own->net_count++] = (polter_u32)value;
        for (unsigned t = 0; t < TRACEPOINTS; t++) {
            if (strlen(tracepoints[t].name) != name || memcmp(tracepoints[t].name, list, name) != 0 || own->fd[t] >= 0) continue;
            own->fd[t] = polter_perf_open_tracepoint(value);
            if (own->fd[t] >= 0 && (ioctl(own->fd[t], PERF_EVENT_IOC_ID, &own->id[t]) < 0 ||
                                    ioctl(own->fd[t], PERF_EVENT_IOC_SET_OUTPUT, own->switches) < 0)) {
                close(own->fd[t]);
                own->fd[t] = -1;
            }
        }
        list += length + (list[length] == ',');
    }
}

static polter_u32 seen(const struct perf_own* own) {
    polter_u32 bits = 1u << POLTER_PREEMPT;
    for (unsigned t = 0; t < TRACEPOINTS; t++)
        if (own->fd[t] >= 0 && tracepoints[t].role != ENTRY) bits |= 1u << tracepoints[t].account;
    if (bits & (1u << POLTER_SOFTIRQ)) bits |= 1u << POLTER_NET;
    return bits;
}

struct polter_own* polter_perf_own(const char* list, char* error, size_t error_size) {
    struct perf_own* own = (struct perf_own*)polter_own_new(sizeof *own, &tier, POLTER_BACKEND_PERF, 0, error, error_size);
    int error_number;
    if (!own) return NULL;
    for (unsigned t = 0; t < TRACEPOINTS; t++) own->fd[t] = -1;
    own->switches = polter_perf_open_switches();
    /* A switch record takes 24 bytes: this holds 1300 waits between two readings. Interrupt records are larger. */
    own->mapped = list && *list ? 1u << 20 : 1u << 16;
    own->control = own->switches < 0 ? NULL : polter_perf_map(own->switches, &own->mapped);
    if (!own->control) {
        if (polter_perf_switches(&error_number, error, error_size) == 0)
            snprintf(error, error_size, "no ring for a thread's switches is left; as root: sysctl kernel.perf_event_mlock_kb=4096");
        release(&own->base);
        return NULL;
    }
    own->data = (const char*)own->control + own->control->data_offset;
    own->data_size = own->control->data_size;
    add_tracepoints(own, list);
    own->base.page->header.accounts_seen = own->base.page->header.accounts_net = seen(own);
    polter_ran_open(&own->cpu, own->base.account.tid, own->base.account.tgid, POLTER_OWNER_KERNEL);
    return &own->base;
}
