/* SPDX-License-Identifier: BSD-3-Clause */
/* The calling thread's accounts, for tools that ask account by account: one session of the process, a page for each thread that asks. */
#ifndef POLTER_THREAD_NOISE_H
#define POLTER_THREAD_NOISE_H

#include <stdbool.h>

#include "../page.h"

/* Opens the session at the first call ($POLTER_EXPORTER and $POLTER_SOCKET choose the exporter). False where there is none: the reason was
 * printed on standard error, once. Any thread. */
bool polter_thread_noise_available(void);

/* Bit set of the accounts that the exporter measures for the calling thread, whose page it opens; 0 where it has none. */
polter_u32 polter_thread_noise_seen(void);

/* Nanoseconds that the account has taken from the calling thread since its page was opened, which is at the thread's first call. Never
 * decreases. 0 where there is no page. No system call but for the first, and where the thread itself measures (perf, proc). */
polter_u64 polter_thread_noise_ns(unsigned account);

/* "os:timer", "os-service:net", as in Poltergeist's traces; NULL past the last account. Static. */
const char* polter_thread_noise_name(unsigned account);

#endif
