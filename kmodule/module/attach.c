// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Finds the tracepoints by name (their symbols are not exported), and attaches the probes while anybody is registered: a machine without
 * a job pays nothing.
 */
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include "compat.h"
#include "polter.h"

static unsigned int users;
static u32 seen;

static void compare(struct tracepoint *tracepoint, void *data)
{
	unsigned int i;

	for (i = 0; i < polter_probe_count; i++)
		if (!strcmp(tracepoint->name, polter_probes[i].tracepoint))
			polter_probes[i].found = tracepoint;
}

int polter_find_tracepoints(void)
{
	unsigned int i, ipi_kinds = 0;
	u32 missing = 0;

	for_each_kernel_tracepoint(compare, NULL);
	for (i = 0; i < polter_probe_count; i++) {
		if (polter_probes[i].accounts == 1u << POLTER_IPI)
			ipi_kinds += polter_probes[i].found != NULL;
		else if (!polter_probes[i].found)
			missing |= polter_probes[i].accounts;
	}
	/* The account needs only one of the kinds of inter-processor interrupt. */
	if (!ipi_kinds)
		missing |= 1u << POLTER_IPI;
	/* Page faults are counted; they have a tracepoint at their beginning only. */
	missing |= 1u << POLTER_FAULT;
	if (polter_hypervisor_above() == POLTER_HYPERVISOR_SILENT)
		missing |= 1u << POLTER_STEAL;
	if (!IS_ENABLED(CONFIG_CFS_BANDWIDTH))
		missing |= 1u << POLTER_THROTTLE;
	seen = ((1u << POLTER_ACCOUNTS) - 1) & ~missing;
	return missing & 1u << POLTER_PREEMPT ? -EOPNOTSUPP : 0;
}

u32 polter_accounts_seen(void)
{
	return seen;
}

static void detach(unsigned int count)
{
	while (count--)
		if (polter_probes[count].found)
			tracepoint_probe_unregister(polter_probes[count].found, polter_probes[count].function, NULL);
	tracepoint_synchronize_unregister();
}

int polter_attach(void)
{
	unsigned int i;

	if (users++)
		return 0;
	/* The per-CPU state is out of date: no probe ran since the last detach. */
	polter_cpus_reset();
	for (i = 0; i < polter_probe_count; i++) {
		struct polter_probe *probe = &polter_probes[i];
		int error = probe->found ? tracepoint_probe_register(probe->found, probe->function, NULL) : 0;

		if (error) {
			detach(i);
			users--;
			return error;
		}
	}
	return 0;
}

void polter_detach(void)
{
	if (!--users)
		detach(polter_probe_count);
}
