/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* What depends on the architecture: the system call that a task is in. */
#ifndef POLTER_ARCH_BPF_H
#define POLTER_ARCH_BPF_H

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "vmlinux.h"

#if defined(__TARGET_ARCH_x86)
/* arch/x86/entry/syscalls: 24 in the 64-bit table, 158 in the 32-bit one, which TS_COMPAT says is in use. In an interrupt orig_ax is -1. */
static __always_inline bool in_sched_yield(struct task_struct* task) {
    struct pt_regs* regs = (struct pt_regs*)bpf_task_pt_regs(task);
    bool compat = BPF_CORE_READ(task, thread_info.status) & 2;
    return (long)BPF_CORE_READ(regs, orig_ax) == (compat ? 158 : 24);
}
#elif defined(__TARGET_ARCH_arm64)
static __always_inline bool in_sched_yield(struct task_struct* task) {
    struct pt_regs* regs = (struct pt_regs*)bpf_task_pt_regs(task);
    return BPF_CORE_READ(regs, syscallno) == 124;
}
#else
#error "say how this architecture shows that a task is in sched_yield"
#endif

#endif
