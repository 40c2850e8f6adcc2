/* SPDX-License-Identifier: BSD-3-Clause */
/* Perf events of the calling thread. Internal. */
#ifndef POLTER_PERF_OPEN_H
#define POLTER_PERF_OPEN_H

#include <stddef.h>

#include "../page.h"

/* Returns a descriptor, or -1 with errno set. Records carry PERF_SAMPLE_IDENTIFIER and _TIME (CLOCK_MONOTONIC); a tracepoint's _RAW as
 * well. */
int polter_perf_open_switches(void);
int polter_perf_open_tracepoint(polter_u64 config);
/* Maps its ring of at most *size bytes (a power of two of pages), behind the control page; *size becomes that of the mapping. */
void* polter_perf_map(int fd, size_t* size);

#endif
