/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Interruptions: the programs of both objects at the tracepoints of interrupts. The object that includes them brings
 *   cpu_state(n)                      the state of CPU n
 *   interruption_begins()             whose interruption begins on this CPU (its id and its count of dropped readings go into the nesting)
 *   interrupted()                     whose ends; NULL in either: leave it alone
 *   ended(thread, cpu, kind, end, net, account, culprit)
 *   nmi_ended(thread, end, duration)
 */
#ifndef POLTER_INTERRUPTIONS_BPF_H
#define POLTER_INTERRUPTIONS_BPF_H

/* Interrupt lines that belong to network devices. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __type(key, u32);
    __type(value, u8);
} net_irqs SEC(".maps");

static __always_inline int enter(u32 kind, u32 id) {
    struct polter_thread* thread = interruption_begins();
    struct polter_cpu* cpu = thread ? cpu_state(bpf_get_smp_processor_id()) : NULL;
    if (cpu) polter_nesting_enter(cpu, thread, kind, id);
    return 0;
}

static __always_inline int leave(u32 kind, u32 id, u32 account, const struct polter_culprit* culprit) {
    struct polter_thread* thread = interrupted();
    struct polter_cpu* cpu = thread ? cpu_state(bpf_get_smp_processor_id()) : NULL;
    u64 end, net;
    if (cpu && polter_nesting_exit(cpu, thread, kind, id, &end, &net)) ended(thread, cpu, kind, end, net, account, culprit);
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
    struct polter_thread* thread = interrupted();
    struct polter_cpu* cpu = thread ? cpu_state(bpf_get_smp_processor_id()) : NULL;
    u64 end, net;
    if (!cpu || !polter_nesting_exit(cpu, thread, POLTER_FRAME_IRQ, irq, &end, &net)) return 0;
    struct polter_culprit culprit = {};
    u32 line = irq;
    bpf_probe_read_kernel_str(culprit.name, sizeof culprit.name, action->name);
    ended(thread, cpu, POLTER_FRAME_IRQ, end, net, bpf_map_lookup_elem(&net_irqs, &line) ? POLTER_NET : POLTER_IRQ, &culprit);
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
    struct polter_thread* thread = interrupted();
    struct polter_cpu* cpu = thread ? cpu_state(bpf_get_smp_processor_id()) : NULL;
    if (!cpu || delta_ns <= 0) return 0;
    polter_nesting_charge(cpu, POLTER_LOAD(cpu->depth), delta_ns);
    nmi_ended(thread, bpf_ktime_get_ns(), delta_ns);
    return 0;
}

#endif
