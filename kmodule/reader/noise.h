/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reader of the page: a thread's own noise, without a system call. A C interface, so that any tool can embed it.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC of the initial time namespace (see polter_noise_clock_offset).
 * Nothing here allocates after polter_noise_open_*, takes a lock, or makes a system call in snapshot, moved or drain; but for the tier
 * proc, which reads a file in them.
 * A polter_noise is used by one thread at a time.
 */
#ifndef POLTER_NOISE_H
#define POLTER_NOISE_H

#include <stddef.h>

#include "../page.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct polter_session polter_session; /* this process's registration with an exporter */
typedef struct polter_noise polter_noise;     /* one thread's mapped page */

struct polter_noise_options {
    const char* socket_path; /* of polterd, or the module's device; NULL: $POLTER_SOCKET, else the module's or polterd's own */
    polter_u64 job;          /* processes of one job share it; 0: $POLTER_JOB (hexadecimal), else this process alone */
    polter_u32 threads;      /* pages the process may need; 0: 16 */
    polter_u32 timeout_ms;   /* for each answer of the daemon; 0: 10000 */
    const char* exporter;    /* "module": the kernel module; "bpf": a daemon; "perf", "proc": the threads themselves; "auto"; NULL:
                                $POLTER_EXPORTER, else "auto" */
    const char* tracepoints; /* for perf, see ../perf/perf.h: "group:name=number,…,net=line,…"; NULL: $POLTER_TRACEPOINTS, else none */
};

/* Registers the process. NULL on failure, with the reason (what, where, what to do) in `error`. A session with a daemon owns one
 * close-on-exec descriptor; the daemon ends the registration when that closes; with the module it owns none, and the registration ends
 * with the session or the process. "auto" takes the module, else the daemon, else perf, else proc; but where a
 * socket is named, the daemon alone. "perf" becomes proc where perf is refused. */
polter_session* polter_session_open(const struct polter_noise_options* options, char* error, size_t error_size);
void polter_session_close(polter_session*);
/* enum polter_backend: what measures the session's threads. */
unsigned polter_session_backend(const polter_session*);
/* Why a better tier was not available; empty if the best one is used. Valid as long as the session. */
const char* polter_session_lacks(const polter_session*);
/* Whether the exporter still serves this session (one system call; three with the module). Once it does not, the pages are no longer
 * written. */
int polter_session_alive(const polter_session*);

/* Registers the calling thread and maps its page, read-only, not inherited over fork. NULL on failure, with the reason.
 * Pages must be closed before their session. */
polter_noise* polter_noise_open(polter_session*, char* error, size_t error_size);
/* Maps a page from a descriptor or checks one in memory that the caller owns: the seam for tests and other transports. */
polter_noise* polter_noise_open_memory(const void* page, size_t size, char* error, size_t error_size);
/* A page that its thread writes itself stays open where another thread closes it: the thread may be writing. */
void polter_noise_close(polter_noise*);

const struct polter_page_header* polter_noise_header(const polter_noise*);
/* When the exporter stopped writing this page; 0 while it does (as many system calls). A daemon that ended in order says so on the page; of
 * one that was killed it is the page's last update, which is the last that is known. */
polter_u64 polter_noise_ended_ns(const polter_noise*);

/* One load: nonzero if anything moved since the last snapshot. */
int polter_noise_moved(const polter_noise*);
/* The same for frequent callers that have just read the clock of the pages. The tier proc then reads the kernel at most as often as costs
 * 1 % of the time, and returns its last reading otherwise. Snapshot and drain keep to that interval too. */
int polter_noise_moved_at(const polter_noise*, polter_u64 now_ns);
/* A consistent copy of the counters. 0, or -1 if no consistent copy was had within a bounded number of tries (`out` is then
 * the last one taken consistently). */
int polter_noise_snapshot(polter_noise*, struct polter_counters* out);
/* How many entries the ring holds, or has lost, that have not been taken; one load. Of a page that its thread writes itself: as of the last
 * look. */
polter_u64 polter_noise_waiting(const polter_noise*);
/* Takes the recorded ring entries not taken before whose end is <= until_ns, oldest first, at most `capacity`. Returns how many.
 * *lost is increased by those that were overwritten before they could be taken. */
size_t polter_noise_drain(polter_noise*, polter_u64 until_ns, struct polter_ring_entry* out, size_t capacity, polter_u64* lost);

/* Calls sched_yield() and does not count the time in it as noise. Exporters in the kernel recognize yields themselves, and also count
 * what tasks outside of the job ran meanwhile. The tiers perf and proc do neither: they take a yield outside of this function for a
 * preemption. Safe in a signal handler.
 * NULL: only yields. Returns what sched_yield() does. */
int polter_noise_yield(polter_noise*);

/* What to add to this process's CLOCK_MONOTONIC to get that of the initial time namespace. */
long long polter_noise_clock_offset(void);

/* "timer", … ; NULL past the last. "os:timer" / "os-service:net" are made of it by polter_account_is_service. */
const char* polter_account_name(unsigned account);
int polter_account_is_service(unsigned account);
const char* polter_backend_name(unsigned backend);
/* Describes what the backend's accounts do not distinguish; empty for the exporters in the kernel. */
const char* polter_backend_limits(unsigned backend);

#ifdef __cplusplus
}
#endif
#endif
