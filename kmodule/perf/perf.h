/* SPDX-License-Identifier: BSD-3-Clause */
/* What launchers and diagnoses ask about the perf tier (perf.c). */
#ifndef POLTER_PERF_H
#define POLTER_PERF_H

#include <stddef.h>

#include "../page.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The kernel tracepoints that the tier can use, by their names in libpfm4 ("irq:irq_handler_entry"). NULL past the last. */
const char* polter_perf_tracepoint(unsigned n);

/* Checks whether the kernel records the calling thread's switches. Returns 0, or -1 with the reason and what to do; *error_number is the
 * errno.
 */
int polter_perf_switches(int* error_number, char* error, size_t error_size);
/* The same check for a tracepoint, by its event number ("config" of perf_event_attr). */
int polter_perf_tracepoint_allowed(polter_u64 config, char* error, size_t error_size);

#ifdef __cplusplus
}
#endif
#endif
