/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Time stolen from a thread by the hypervisor while it ran: the growth of the CPU's stolen time, which the kernel updates at timer ticks.
 * It is recorded as the time just before that tick, because a virtual CPU that was descheduled when a tick was due takes the tick first
 * when it returns. If it returned before the tick, the theft lies up to one tick earlier. Time stolen while the thread is off the CPU is
 * part of its wait.
 */
#ifndef POLTER_STEAL_H
#define POLTER_STEAL_H

#include "state.h"

/* The time of the thread booked to interruptions and page faults so far: it cannot have been stolen as well. */
POLTER_INLINE polter_u64 polter_steal_interrupted(struct polter_thread* thread) {
    return thread->master.ns[POLTER_TIMER] + thread->master.ns[POLTER_IRQ] + thread->master.ns[POLTER_IPI] +
           thread->master.ns[POLTER_SOFTIRQ] + thread->master.ns[POLTER_NMI] + thread->master.ns[POLTER_NET] +
           thread->master.ns[POLTER_FAULT];
}

/* The thread comes to the CPU at `now_ns`: earlier stolen time does not belong to it. */
POLTER_INLINE void polter_steal_begin(struct polter_cpu* cpu, struct polter_thread* thread, polter_u64 stolen_ns, polter_u64 now_ns,
                                      polter_u64 interrupted_ns) {
    cpu->stolen_ns = stolen_ns;
    cpu->steal_end_ns = now_ns;
    thread->interrupted_ns = interrupted_ns;
    thread->stolen_known = 1;
}

/* Call at the end of an outermost interruption `frame`, before it is recorded. Returns the time stolen before it began; 0 if none. */
POLTER_INLINE polter_u64 polter_steal_look(struct polter_cpu* cpu, struct polter_thread* thread, polter_u64 stolen_ns,
                                           const struct polter_frame* frame) {
    polter_u64 taken = stolen_ns - cpu->stolen_ns, end_ns = frame->began_ns, interrupted = polter_steal_interrupted(thread), had;

    interrupted -= interrupted < frame->child_ns ? interrupted : frame->child_ns; /* what nests in it comes after its beginning */
    if (!thread->stolen_known) {                                                  /* registered while it ran */
        polter_steal_begin(cpu, thread, stolen_ns, end_ns, interrupted);
        return 0;
    }
    if (!taken) return 0;
    /* Some of it may have been stolen before this thread came: limit it to the time that this thread had. */
    had = end_ns > cpu->steal_end_ns ? end_ns - cpu->steal_end_ns : 0;
    interrupted = interrupted > thread->interrupted_ns ? interrupted - thread->interrupted_ns : 0;
    had = had > interrupted ? had - interrupted : 0;
    if ((polter_s64)taken < 0) taken = 0; /* the counter restarted, as after a migration of the machine to another host */
    polter_steal_begin(cpu, thread, stolen_ns, end_ns, thread->interrupted_ns + interrupted);
    return taken < had ? taken : had;
}

#endif
