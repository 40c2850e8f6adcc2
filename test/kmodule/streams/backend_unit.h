/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The probes of a backend, compiled for user space: kmodule/module/probes.c and kmodule/bpf/polter.bpf.c as they are, on an invented kernel
 * that both see alike. What differs between kernels (compat.h, core_fixes.bpf.h) is invented too: a task says of itself what those find
 * out.
 */
#ifndef POLTER_BACKEND_UNIT_H
#define POLTER_BACKEND_UNIT_H

#include <stdint.h>

#include "accounting/state.h"

#ifdef __cplusplus
extern "C" {
#endif

struct unit_count {
    int counter;
};
struct unit_signal {
    struct unit_count live; /* threads */
};
struct task_struct {
    int pid;
    int tgid;
    char comm[16];
    struct unit_signal* signal;
    unsigned cpu;
    uint64_t arrival_ns; /* on its CPU, as the kernel knows it; 0: it does not */
    int blocks;          /* why it leaves the CPU */
    int throttled;
    int in_yield;
    unsigned owner; /* user id, or POLTER_OWNER_KERNEL */
};
/* Of a workqueue. */
struct work_struct {
    void (*func)(void);
};
struct irqaction {
    const char* name;
};

/* The kernel that both are on. */
extern struct task_struct* unit_current;
extern unsigned unit_cpu;
enum { UNIT_CPUS = 4, UNIT_THREADS = 8 };
uint64_t unit_now(void);
int unit_is_net_irq(unsigned irq);
int unit_makes_way(unsigned cpu);   /* whether the task that runs there has been told to give way */
uint64_t unit_stolen(unsigned cpu); /* by the hypervisor, so far */

/* One backend. */
struct unit {
    const char* name;
    void (*reset)(void);
    /* Registers a thread and gives its page, which lives until the next reset. */
    struct polter_page* (*add_thread)(const struct task_struct* task, uint64_t job);
    struct polter_thread* (*state)(int tid);
    void (*on_switch)(int preempt, struct task_struct* prev, struct task_struct* next);
    void (*on_wakeup)(struct task_struct* task);
    void (*on_migrate)(struct task_struct* task, int cpu);
    void (*on_fork)(struct task_struct* parent, struct task_struct* child);
    void (*on_exit)(struct task_struct* task);
    void (*on_exec)(struct task_struct* task, int old_tid);
    void (*enter)(unsigned kind, unsigned id); /* enum polter_frame_kind; of IPIs `id` is an enum polter_vector */
    void (*leave)(unsigned kind, unsigned id, struct irqaction* action);
    void (*nmi)(int64_t ns);
    void (*fault)(void);
    /* Page faults are timed from here on; NULL: the backend cannot. Its own page faults end then, or are tried again. */
    void (*time_faults)(void);
    void (*fault_ends)(int again);
    void (*on_work)(struct work_struct* work);
    void (*keep_windows)(void);        /* from here on CPUs keep them always */
    unsigned (*waiting)(unsigned cpu); /* how many threads the CPU has counted */
};
extern const struct unit module_unit, bpf_unit;

#ifdef __cplusplus
}
#endif
#endif
