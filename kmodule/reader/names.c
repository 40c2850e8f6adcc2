/* SPDX-License-Identifier: BSD-3-Clause */
#include "noise.h"

#define NAME(id, name) name,
static const char* const accounts[] = {POLTER_NOISE_SOURCES(NAME) POLTER_SERVICES(NAME)};
#undef NAME

const char* polter_account_name(unsigned account) {
    return account < POLTER_ACCOUNTS ? accounts[account] : NULL;
}

int polter_account_is_service(unsigned account) {
    return account >= POLTER_FIRST_SERVICE && account < POLTER_ACCOUNTS;
}

const char* polter_backend_name(unsigned backend) {
    switch (backend) {
        case POLTER_BACKEND_NONE:
            return "none";
        case POLTER_BACKEND_PROC:
            return "proc";
        case POLTER_BACKEND_PERF:
            return "perf";
        case POLTER_BACKEND_BPF:
            return "bpf";
        case POLTER_BACKEND_MODULE:
            return "module";
    }
    return "unknown";
}

const char* polter_backend_limits(unsigned backend) {
    if (backend == POLTER_BACKEND_PERF)
        return "preempt comes from the kernel's records of the thread's own switches: the job's own threads and a CPU quota are in it, who "
               "ran "
               "instead is unknown or the first of them alone, and waiting after a wake-up is not seen";
    if (backend == POLTER_BACKEND_PROC)
        return "preempt is the kernel's sum of all waiting for a CPU: for other programs, the job's own threads and a CPU quota alike, and "
               "after wake-ups; without single events and culprits, and read at MPI calls, but not again before 200 times what a reading "
               "costs has passed (some tenths of a millisecond), so that it takes less than 1 % of the time";
    return "";
}
