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
