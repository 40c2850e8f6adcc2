// SPDX-License-Identifier: BSD-3-Clause
// What gomp.c, omp_locks.c, omp_tasks.c and ompt.c share within one preload library.
#pragma once

#include <stdatomic.h>
#include <stddef.h>

#include "openmp_hooks.h"

#define EXPORT __attribute__((visibility("default")))

extern const struct polter_openmp_hooks* _Atomic polter_openmp_hooks;
extern _Atomic int polter_runtime_tells;  // the process's OpenMP runtime has a tool interface, and calls ompt.c: gomp.c records nothing

// A process may have several OpenMP runtimes (wheels of Python bring their own), some of them visible to their own library only. So the
// next definition is that of the calling code, kept by the address to which the call returns.
enum { places = 1024 };  // a power of two
struct place {
    _Atomic(const void*) from;
    _Atomic(void*) next;
};
struct entry {
    const char* name;
    struct place of[places];
};
void* polter_look_up(struct entry* entry, struct place* place, const void* from, const void* ours);

static inline void* next_of(struct entry* entry, const void* from, const void* ours) {
    const size_t address = (size_t)from;
    struct place* place = &entry->of[(address ^ address >> 10) & (places - 1)];
    if (atomic_load_explicit(&place->from, memory_order_acquire) == from) {
        void* next = atomic_load_explicit(&place->next, memory_order_acquire);
        if (atomic_load_explicit(&place->from, memory_order_relaxed) == from) return next;
    }
    return polter_look_up(entry, place, from, ours);
}

// The next definition of the function at hand, for its caller.
#define NEXT(definition)                                       \
    static struct entry entry_of_this = {.name = #definition}; \
    const void* const from = __builtin_return_address(0);      \
    __typeof__(&definition) const next = (__typeof__(&definition))next_of(&entry_of_this, from, (const void*)&definition)

// Whoever tells of it: for what ompt.c does not.
static inline const struct polter_openmp_hooks* any_hooks(void) {
    return atomic_load_explicit(&polter_openmp_hooks, memory_order_acquire);
}
static inline const struct polter_openmp_hooks* hooks_of_gomp(void) {
    const struct polter_openmp_hooks* recorder = any_hooks();
    return recorder && !atomic_load_explicit(&polter_runtime_tells, memory_order_relaxed) ? recorder : NULL;
}
