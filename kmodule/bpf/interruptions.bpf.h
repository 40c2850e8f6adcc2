/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Interruptions: the programs of both objects at the tracepoints of interrupts. The object that includes them brings
 *   cpu_state(n)                      the state of CPU n
 *   interruption_begins(cpu)          the thread whose interruption begins on this CPU (its id and its count of dropped readings are used
 * by the nesting)
 *   interrupted(cpu)                  whose ends; NULL in either: leave it alone
 *   ended(thread, cpu, kind, end, net, account, culprit)
 *   nmi_ended(thread, end, duration)
 */
#ifndef POLTER_INTERRUPTIONS_BPF_H
#define POLTER_INTERRUPTIONS_BPF_H

#include "../accounting/culprits.h"

/* Interrupt lines that belong to network devices. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __type(key, u32);
    __type(value, u8);
} net_irqs SEC(".maps");

static __always_inline int enter(u32 kind, u32 id) {
    struct polter_cpu* cpu = cpu_state(bpf_get_smp_processor_id());
    struct polter_thread* thread = cpu ? interruption_begins(cpu) : NULL;
    if (thread) polter_nesting_enter(cpu, thread, kind, id);
    return 0;
}

static __always_inline int leave(u32 kind, u32 id, u32 account, const struct polter_culprit* culprit) {
    struct polter_cpu* cpu = cpu_state(bpf_get_smp_processor_id());
    struct polter_thread* thread = cpu ? interrupted(cpu) : NULL;
    u64 end, net;
    if (thread && polter_nesting_exit(cpu, thread, kind, id, &end, &net)) ended(thread, cpu, kind, end, net, account, culprit);
    return 0;
}

SEC("tp_btf/local_timer_entry")
int BPF_PROG(on_local_timer_entry) {
    return enter(POLTER_FRAME_TIMER, POLTER_VECTOR_TIMER);
}
SEC("tp_btf/local_timer_exit")
int BPF_PROG(on_local_timer_exit) {
    return leave(POLTER_FRAME_TIMER, POLTER_VECTOR_TIMER, POLTER_TIMER, &polter_local_timer);
}

SEC("tp_btf/reschedule_entry")
int BPF_PROG(on_reschedule_entry) {
    return enter(POLTER_FRAME_IPI, POLTER_VECTOR_RESCHEDULE);
}
SEC("tp_btf/reschedule_exit")
int BPF_PROG(on_reschedule_exit) {
    return leave(POLTER_FRAME_IPI, POLTER_VECTOR_RESCHEDULE, POLTER_IPI, &polter_reschedule);
}

SEC("tp_btf/call_function_entry")
int BPF_PROG(on_call_function_entry) {
    return enter(POLTER_FRAME_IPI, POLTER_VECTOR_CALL);
}
SEC("tp_btf/call_function_exit")
int BPF_PROG(on_call_function_exit) {
    return leave(POLTER_FRAME_IPI, POLTER_VECTOR_CALL, POLTER_IPI, &polter_call_function);
}

SEC("tp_btf/call_function_single_entry")
int BPF_PROG(on_call_function_single_entry) {
    return enter(POLTER_FRAME_IPI, POLTER_VECTOR_CALL_SINGLE);
}
SEC("tp_btf/call_function_single_exit")
int BPF_PROG(on_call_function_single_exit) {
    return leave(POLTER_FRAME_IPI, POLTER_VECTOR_CALL_SINGLE, POLTER_IPI, &polter_call_function);
}

SEC("tp_btf/irq_work_entry")
int BPF_PROG(on_irq_work_entry) {
    return enter(POLTER_FRAME_IPI, POLTER_VECTOR_IRQ_WORK);
}
SEC("tp_btf/irq_work_exit")
int BPF_PROG(on_irq_work_exit) {
    return leave(POLTER_FRAME_IPI, POLTER_VECTOR_IRQ_WORK, POLTER_IPI, &polter_irq_work);
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_handler_entry, int irq) {
    return enter(POLTER_FRAME_IRQ, irq);
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_handler_exit, int irq, struct irqaction* action) {
    struct polter_cpu* cpu = cpu_state(bpf_get_smp_processor_id());
    struct polter_thread* thread = cpu ? interrupted(cpu) : NULL;
    u64 end, net;
    if (!thread || !polter_nesting_exit(cpu, thread, POLTER_FRAME_IRQ, irq, &end, &net)) return 0;
    struct polter_culprit culprit = {};
    u32 line = irq;
    bpf_probe_read_kernel_str(culprit.name, sizeof culprit.name, action->name);
    ended(thread, cpu, POLTER_FRAME_IRQ, end, net, bpf_map_lookup_elem(&net_irqs, &line) ? POLTER_NET : POLTER_IRQ, &culprit);
    return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int vector) {
    return enter(POLTER_FRAME_SOFTIRQ, vector);
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit, unsigned int vector) {
    return leave(POLTER_FRAME_SOFTIRQ, vector, polter_softirq_account(vector), polter_softirq_name(vector));
}

/* The tracepoint comes after each handler of a non-maskable interrupt, with the handler's time; nothing nests in it. */
SEC("tp_btf/nmi_handler")
int BPF_PROG(on_nmi_handler, void* handler, s64 delta_ns) {
    struct polter_cpu* cpu = cpu_state(bpf_get_smp_processor_id());
    struct polter_thread* thread = cpu ? interrupted(cpu) : NULL;
    if (!thread || delta_ns <= 0) return 0;
    polter_nesting_charge(cpu, POLTER_LOAD(cpu->depth), delta_ns);
    nmi_ended(thread, bpf_ktime_get_ns(), delta_ns);
    return 0;
}

#endif
