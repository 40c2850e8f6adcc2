/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The accounts as software-defined events of PAPI (its component "sde", PAPI 6.0 and later): sde:::polter::os:timer and so on, in
 * nanoseconds of the calling thread, and sde:::polter::os, the sum of all noise. Any tool that takes names of PAPI events then has them,
 * where this library is loaded before the tool starts PAPI: preloaded, or linked.
 *
 * Interface: sde_lib.h of PAPI. What PAPI_start() found is subtracted by PAPI (PAPI_SDE_DELTA).
 */
#include <sde_lib.h>
#include <stdint.h>
#include <stdio.h>

#include "thread_noise.h"

#define EXPORTED __attribute__((visibility("default")))

static const char library[] = "polter", sum[] = "os";

/* An account that nobody measures reads as 0, like one that took nothing: it is said once. */
static void warn_unseen(unsigned account) {
    static polter_u32 warned;
    const polter_u32 seen = polter_thread_noise_seen(), bit = 1u << account;
    if (!seen || seen & bit || __atomic_fetch_or(&warned, bit, __ATOMIC_RELAXED) & bit) return;
    fprintf(stderr, "polter: %s is not measured here, its value stays 0; polter doctor says what would measure it\n",
            polter_thread_noise_name(account));
}

static long long int account_ns(void* data) {
    const unsigned account = (unsigned)(uintptr_t)data;
    warn_unseen(account);
    return (long long int)polter_thread_noise_ns(account);
}

static long long int noise_ns(void* unused) {
    (void)unused;
    polter_u64 total = 0;
    for (unsigned a = 0; a < POLTER_FIRST_SERVICE; a++) total += polter_thread_noise_ns(a);
    return (long long int)total;
}

static papi_handle_t register_all(const papi_sde_fptr_struct_t* sde) {
    papi_handle_t handle = sde->init(library);
    if (!handle) return handle;
    for (unsigned a = 0; a < POLTER_ACCOUNTS; a++) {
        const char* name = polter_thread_noise_name(a);
        sde->register_counter_cb(handle, name, PAPI_SDE_RO | PAPI_SDE_DELTA, PAPI_SDE_long_long, account_ns, (void*)(uintptr_t)a);
        sde->describe_counter(handle, name,
                              a < POLTER_FIRST_SERVICE ? "ns that the operating system stole from the calling thread"
                                                       : "ns of the calling thread in a service of the operating system");
    }
    sde->register_counter_cb(handle, sum, PAPI_SDE_RO | PAPI_SDE_DELTA, PAPI_SDE_long_long, noise_ns, NULL);
    sde->describe_counter(handle, sum, "ns that the operating system stole from the calling thread, all sources");
    return handle;
}

/* papi_native_avail -sde=LIBRARY calls this to list the events. */
EXPORTED papi_handle_t papi_sde_hook_list_events(papi_sde_fptr_struct_t* sde) {
    return register_all(sde);
}

__attribute__((constructor)) static void loaded(void) {
    papi_sde_fptr_struct_t sde;
    POPULATE_SDE_FPTR_STRUCT(sde);
    register_all(&sde);
}
