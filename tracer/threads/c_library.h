// SPDX-License-Identifier: BSD-3-Clause
// What pthread.c and mutexes.c share within one preload library.
#pragma once

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

#include "thread_hooks.h"

#define EXPORT __attribute__((visibility("default")))

extern const struct polter_thread_hooks* _Atomic polter_thread_hooks;

// The C library's function; NULL: it has none of that name. `version`: of several; NULL: its default. Two threads may both look it up: they
// find the same.
static inline void* next_if_any(_Atomic(void*)* known, const char* name, const char* version) {
    void* next = atomic_load_explicit(known, memory_order_relaxed);
    if (next) return next;
    if (version) next = dlvsym(RTLD_NEXT, name, version);  // other architectures have another one, and that alone
    if (!next) next = dlsym(RTLD_NEXT, name);
    atomic_store_explicit(known, next, memory_order_relaxed);
    return next;
}

static inline const struct polter_thread_hooks* hooks(void) {
    return atomic_load_explicit(&polter_thread_hooks, memory_order_acquire);
}
