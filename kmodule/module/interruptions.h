/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Part of probes.c: interrupts, softirqs, non-maskable interrupts and page faults, which take the CPU from the thread that runs. The same as
 * ../bpf/interruptions.bpf.h, event by event.
 */
#ifndef POLTER_INTERRUPTIONS_H
#define POLTER_INTERRUPTIONS_H

static __always_inline void enter(u32 kind, u32 id)
{
	struct polter_cpu *cpu = cpu_state(raw_smp_processor_id());
	struct polter_member *member = member_here(cpu);

	if (member)
		polter_nesting_enter(cpu, &member->thread, kind, id);
}

static __always_inline void leave(u32 kind, u32 id, u32 account, const struct polter_culprit *culprit)
{
	struct polter_cpu *cpu = cpu_state(raw_smp_processor_id());
	struct polter_member *member = member_here(cpu);
	u64 end, net;

	if (!member || !polter_nesting_exit(cpu, &member->thread, kind, id, &end, &net))
		return;
	/* The timer tick; on an architecture whose timer has no tracepoint of its own, any interrupt. */
	if (has_steal && (kind == POLTER_FRAME_TIMER || kind == POLTER_FRAME_IPI) && POLTER_LOAD(cpu->depth) == 0)
		look_for_steal(member, cpu);
	record(member, end, net, account, culprit, kind == POLTER_FRAME_SOFTIRQ ? POLTER_NESTED : POLTER_ALONE);
}

static void on_local_timer_entry(void *data, int vector)
{
	enter(POLTER_FRAME_TIMER, POLTER_VECTOR_TIMER);
}

static void on_local_timer_exit(void *data, int vector)
{
	leave(POLTER_FRAME_TIMER, POLTER_VECTOR_TIMER, POLTER_TIMER, &polter_local_timer);
}

static void on_reschedule_entry(void *data, int vector)
{
	enter(POLTER_FRAME_IPI, POLTER_VECTOR_RESCHEDULE);
}

static void on_reschedule_exit(void *data, int vector)
{
	leave(POLTER_FRAME_IPI, POLTER_VECTOR_RESCHEDULE, POLTER_IPI, &polter_reschedule);
}

static void on_call_function_entry(void *data, int vector)
{
	enter(POLTER_FRAME_IPI, POLTER_VECTOR_CALL);
}

static void on_call_function_exit(void *data, int vector)
{
	leave(POLTER_FRAME_IPI, POLTER_VECTOR_CALL, POLTER_IPI, &polter_call_function);
}

static void on_call_function_single_entry(void *data, int vector)
{
	enter(POLTER_FRAME_IPI, POLTER_VECTOR_CALL_SINGLE);
}

static void on_call_function_single_exit(void *data, int vector)
{
	leave(POLTER_FRAME_IPI, POLTER_VECTOR_CALL_SINGLE, POLTER_IPI, &polter_call_function);
}

static void on_irq_work_entry(void *data, int vector)
{
	enter(POLTER_FRAME_IPI, POLTER_VECTOR_IRQ_WORK);
}

static void on_irq_work_exit(void *data, int vector)
{
	leave(POLTER_FRAME_IPI, POLTER_VECTOR_IRQ_WORK, POLTER_IPI, &polter_irq_work);
}

static void on_irq_handler_entry(void *data, int irq, struct irqaction *action)
{
	enter(POLTER_FRAME_IRQ, irq);
}

static void on_irq_handler_exit(void *data, int irq, struct irqaction *action, int handled)
{
	struct polter_cpu *cpu = cpu_state(raw_smp_processor_id());
	struct polter_member *member = member_here(cpu);
	struct polter_culprit culprit = {};
	u64 end, net;

	if (!member || !polter_nesting_exit(cpu, &member->thread, POLTER_FRAME_IRQ, irq, &end, &net))
		return;
	if (action->name)
		strscpy(culprit.name, action->name, sizeof(culprit.name));
	record(member, end, net, polter_is_net_irq(irq) ? POLTER_NET : POLTER_IRQ, &culprit, POLTER_ALONE);
}

static void on_softirq_entry(void *data, unsigned int vector)
{
	enter(POLTER_FRAME_SOFTIRQ, vector);
}

static void on_softirq_exit(void *data, unsigned int vector)
{
	leave(POLTER_FRAME_SOFTIRQ, vector, polter_softirq_account(vector), polter_softirq_name(vector));
}

/* The tracepoint comes after each handler of a non-maskable interrupt, with the handler's time; nothing nests in it. */
static void on_nmi_handler(void *data, void *handler, s64 delta_ns, int handled)
{
	struct polter_cpu *cpu = cpu_state(raw_smp_processor_id());
	struct polter_member *member = member_here(cpu);

	if (!member || delta_ns <= 0)
		return;
	polter_nesting_charge(cpu, POLTER_LOAD(cpu->depth), delta_ns);
	polter_publish_nmi(&member->thread, ktime_get_mono_fast_ns(), delta_ns);
}

/* Page faults are counted, since there is no tracepoint at their end. */
static void on_page_fault(void *data, unsigned long address, struct pt_regs *registers, unsigned long code)
{
	struct polter_member *member = member_here(cpu_state(raw_smp_processor_id()));

	if (member)
		polter_publish_later(&member->thread, POLTER_FAULT);
}

#endif
