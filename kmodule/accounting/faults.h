/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Page faults, where a backend sees their end: the time from the exception to the end of its handling, less everything in that time that
 * has an account of its own (interrupts, waits for the CPU). Sleep within the fault, for a disk or a lock, is included: no other account
 * records it.
 *
 * A fault belongs to its thread and not to the stack of nesting.h, since the thread may sleep and continue on another CPU. A fault within
 * a fault, as in the kernel's access to user memory, replaces the outer one: the outer time up to then is lost rather than counted twice.
 * The same holds for time between the readings of the clock and of the accounts.
 *
 * Counters only: a ring record would cost as much as a small fault, and would overwrite noise records.
 * The includer defines POLTER_NOW(): nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef POLTER_FAULTS_H
#define POLTER_FAULTS_H

#include "publish.h"

/* The sum of the other accounts so far. */
POLTER_INLINE polter_u64 polter_fault_others(struct polter_thread* thread) {
    polter_u64 sum = POLTER_LOAD(thread->master.after_yield_ns);

    POLTER_UNROLL
    for (polter_u32 i = 0; i < POLTER_ACCOUNTS; i++)
        if (i != POLTER_FAULT) sum += POLTER_LOAD(thread->master.ns[i]);
    return sum;
}

/* The exception begins, in task context; do not call for faults in an interrupt. It is counted when the next fault ends. The clock is
 * read last, so that an interruption in between is not taken for part of the fault. */
POLTER_INLINE void polter_fault_begin(struct polter_thread* thread) {
    polter_u64 others = polter_fault_others(thread);

    POLTER_ADD_ALONE(thread->fault_count, 1ull);
    POLTER_STORE(thread->fault_others_ns, others + POLTER_LOAD(thread->nmi_ns));
    POLTER_BARRIER();
    POLTER_STORE(thread->fault_ns, POLTER_NOW());
}

/* The fault has been handled; `again`: the kernel retries it, which is the same fault. The clock is read first, for the same reason. A
 * fault whose beginning was not seen is left out. So is one that ends within an interruption or off the CPU: the event that ended those
 * was not reported, and their duration is not known yet. */
POLTER_INLINE void polter_fault_end(struct polter_thread* thread, struct polter_page* page, struct polter_cpu* cpu, int again) {
    polter_u64 began = POLTER_LOAD(thread->fault_ns), now, others, nested, gross;
    int outermost;

    if (!began) return;
    if (POLTER_LOAD(cpu->depth) || POLTER_LOAD(thread->off) != POLTER_RUNNING) {
        POLTER_STORE(thread->fault_ns, 0ull);
        POLTER_ADD(thread->master.unbalanced, 1ull);
        return;
    }
    now = POLTER_NOW();
    POLTER_BARRIER();
    others = POLTER_LOAD(thread->nmi_ns);
    others += polter_fault_others(thread);
    nested = others - POLTER_LOAD(thread->fault_others_ns);
    gross = now > began ? now - began : 0;
    POLTER_STORE(thread->fault_others_ns, others);
    POLTER_STORE(thread->fault_ns, again ? now : 0ull);

    outermost = polter_publish_begin(thread, POLTER_NESTED);
    polter_publish_count(thread, POLTER_FAULT, gross > nested ? gross - nested : 0, POLTER_LOAD(thread->fault_count), POLTER_NESTED);
    POLTER_STORE(thread->fault_count, 0ull);
    polter_publish_end(thread, page, outermost, now, POLTER_NESTED);
}

#endif
