/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* The interruptions whose culprits have no name of their own in the kernel, and the accounts of softirqs. */
#ifndef POLTER_CULPRITS_H
#define POLTER_CULPRITS_H

#include "state.h"

/* The vectors of the x86 local interrupt controller. */
enum polter_vector { POLTER_VECTOR_TIMER, POLTER_VECTOR_RESCHEDULE, POLTER_VECTOR_CALL, POLTER_VECTOR_CALL_SINGLE, POLTER_VECTOR_IRQ_WORK };

static const struct polter_culprit polter_local_timer = {0, "local_timer"};
static const struct polter_culprit polter_reschedule = {0, "reschedule"};
static const struct polter_culprit polter_call_function = {0, "call_function"};
static const struct polter_culprit polter_irq_work = {0, "irq_work"};
static const struct polter_culprit polter_nmi = {0, "nmi"};
static const struct polter_culprit polter_hypervisor = {0, "hypervisor"};

/* By number, in the order of the kernel's enum; a power of two of them, so that a mask shows a verifier the bound. */
#define POLTER_SOFTIRQS 16
static const struct polter_culprit polter_softirqs[POLTER_SOFTIRQS] = {
    {0, "HI"},      {0, "TIMER"}, {0, "NET_TX"},  {0, "NET_RX"},  {0, "BLOCK"},   {0, "IRQ_POLL"}, {0, "TASKLET"}, {0, "SCHED"},
    {0, "HRTIMER"}, {0, "RCU"},   {0, "softirq"}, {0, "softirq"}, {0, "softirq"}, {0, "softirq"},  {0, "softirq"}, {0, "softirq"}};

POLTER_INLINE const struct polter_culprit* polter_softirq_name(polter_u32 vector) {
    return &polter_softirqs[vector & (POLTER_SOFTIRQS - 1)];
}

/* The program's own communication and I/O are done in NET_TX, NET_RX, BLOCK and IRQ_POLL. */
POLTER_INLINE polter_u32 polter_softirq_account(polter_u32 vector) {
    return vector >= 2 && vector <= 5 ? POLTER_NET : POLTER_SOFTIRQ;
}

#endif
