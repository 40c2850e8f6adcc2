// SPDX-License-Identifier: BSD-3-Clause
// Critical sections and locks: of libgomp (GCC 12, libgomp/libgomp_g.h), of LLVM's libomp (kmp_csupport.cpp), whose tool interface tells of
// a release only when the next thread may have the lock, and the functions that both have.
#include <stdbool.h>

#include "gomp.h"

#define ACQUIRE(function_name, parameters, critical, lock, ...)                  \
    EXPORT void function_name parameters {                                       \
        NEXT(function_name);                                                     \
        const struct polter_openmp_hooks* recorder = any_hooks();                \
        const bool recorded = recorder && recorder->lock_wanted(critical, from); \
        next(__VA_ARGS__);                                                       \
        if (recorded) recorder->lock_had(lock);                                  \
    }
#define RELEASE(function_name, parameters, lock, ...)             \
    EXPORT void function_name parameters {                        \
        NEXT(function_name);                                      \
        const struct polter_openmp_hooks* recorder = any_hooks(); \
        if (recorder) recorder->lock_released(lock);              \
        next(__VA_ARGS__);                                        \
    }
#define TRY(function_name)                                        \
    EXPORT int function_name(void* lock) {                        \
        NEXT(function_name);                                      \
        const int had = next(lock);                               \
        const struct polter_openmp_hooks* recorder = any_hooks(); \
        if (had && recorder) recorder->lock_got(lock);            \
        return had;                                               \
    }

static const char unnamed;  // stands for the critical section without a name

ACQUIRE(GOMP_critical_start, (void), 1, &unnamed, )
RELEASE(GOMP_critical_end, (void), &unnamed, )
ACQUIRE(GOMP_critical_name_start, (void** name), 1, name, name)
RELEASE(GOMP_critical_name_end, (void** name), name, name)

ACQUIRE(__kmpc_critical, (void* where, int thread, void* name), 1, name, where, thread, name)
ACQUIRE(__kmpc_critical_with_hint, (void* where, int thread, void* name, unsigned hint), 1, name, where, thread, name, hint)
RELEASE(__kmpc_end_critical, (void* where, int thread, void* name), name, where, thread, name)

ACQUIRE(omp_set_lock, (void* lock), 0, lock, lock)
RELEASE(omp_unset_lock, (void* lock), lock, lock)
TRY(omp_test_lock)
ACQUIRE(omp_set_nest_lock, (void* lock), 0, lock, lock)
RELEASE(omp_unset_nest_lock, (void* lock), lock, lock)
TRY(omp_test_nest_lock)

// The same for Fortran, whose lock is an integer variable. The runtimes' functions of these names do not call those above.
ACQUIRE(omp_set_lock_, (void* lock), 0, lock, lock)
RELEASE(omp_unset_lock_, (void* lock), lock, lock)
TRY(omp_test_lock_)
ACQUIRE(omp_set_nest_lock_, (void* lock), 0, lock, lock)
RELEASE(omp_unset_nest_lock_, (void* lock), lock, lock)
TRY(omp_test_nest_lock_)
