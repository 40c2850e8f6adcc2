// SPDX-License-Identifier: BSD-3-Clause
// Mutexes and condition variables of the C library. While nothing is recorded a call is passed on: two loads.
//
// What does not wait has no record, but for a few acquisitions of a mutex behind a wait for it. So a mutex is tried first; that gives what
// the call itself would give, except EBUSY, behind which the call itself follows. An unlock or a signal has a record where a thread waits
// for it.
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "c_library.h"

// The condition variables of glibc before 2.3.2 have the same names.
#define CONDITIONS "GLIBC_2.3.2"

// The function behind the one at hand. A C library without it has no callers of it, but a program may ask whether it is there.
#define NEXT(function_name, version)                                                                                  \
    static _Atomic(void*) known;                                                                                      \
    __typeof__(&function_name) const next = (__typeof__(&function_name))next_if_any(&known, #function_name, version); \
    if (!next) return ENOSYS;                                                                                         \
    const struct polter_thread_hooks* recorder = hooks()

static int awaited(const struct polter_thread_hooks* recorder, const void* lock) {
    return recorder && __atomic_load_n(&recorder->awaited[polter_slot(lock)], __ATOMIC_RELAXED) != 0;
}

static int is_had(int result) {
    return result == 0 || result == EOWNERDEAD;
}

static int try_lock(pthread_mutex_t* mutex) {
    static _Atomic(void*) known;
    int (*const next)(pthread_mutex_t*) = (int (*)(pthread_mutex_t*))next_if_any(&known, "pthread_mutex_trylock", NULL);
    return next ? next(mutex) : EBUSY;
}

#define LOCK(function_name, parameters, ...)                                                       \
    EXPORT int function_name parameters {                                                          \
        NEXT(function_name, NULL);                                                                 \
        if (!recorder) return next(__VA_ARGS__);                                                   \
        const int tried = try_lock(mutex);                                                         \
        if (is_had(tried) && awaited(recorder, mutex)) recorder->mutex_got(mutex);                 \
        if (tried != EBUSY) return tried;                                                          \
        if (!recorder->mutex_wanted(mutex, __builtin_return_address(0))) return next(__VA_ARGS__); \
        const int result = next(__VA_ARGS__);                                                      \
        recorder->mutex_had(mutex, is_had(result));                                                \
        return result;                                                                             \
    }

LOCK(pthread_mutex_lock, (pthread_mutex_t * mutex), mutex)
LOCK(pthread_mutex_timedlock, (pthread_mutex_t* restrict mutex, const struct timespec* restrict until), mutex, until)
#if __GLIBC_PREREQ(2, 30)
LOCK(pthread_mutex_clocklock, (pthread_mutex_t* restrict mutex, clockid_t clock, const struct timespec* restrict until), mutex, clock,
     until)
#endif

EXPORT int pthread_mutex_unlock(pthread_mutex_t* mutex) {
    NEXT(pthread_mutex_unlock, NULL);
    if (awaited(recorder, mutex)) recorder->mutex_released(mutex);
    return next(mutex);
}

struct waiting {
    const struct polter_thread_hooks* recorder;
    struct polter_wait wait;
};
static void cancelled(void* of) {
    struct waiting* waiting = of;
    waiting->recorder->condition_had(&waiting->wait, 0);
}

#define WAIT(function_name, parameters, ...)                                                                          \
    EXPORT int function_name parameters {                                                                             \
        NEXT(function_name, CONDITIONS);                                                                              \
        if (!recorder) return next(__VA_ARGS__);                                                                      \
        if (awaited(recorder, mutex)) recorder->mutex_released(mutex);                                                \
        struct waiting waiting = {.recorder = recorder, .wait = {.condition = condition, .mutex = mutex}};            \
        if (!recorder->condition_wanted(&waiting.wait, __builtin_return_address(0))) return next(__VA_ARGS__);        \
        __typeof__(next) volatile call = next; /* in a register it would not outlive the longjmp of a cancellation */ \
        int result;                                                                                                   \
        pthread_cleanup_push(cancelled, &waiting);                                                                    \
        result = call(__VA_ARGS__);                                                                                   \
        pthread_cleanup_pop(0);                                                                                       \
        waiting.recorder->condition_had(&waiting.wait, is_had(result));                                               \
        return result;                                                                                                \
    }

WAIT(pthread_cond_wait, (pthread_cond_t* restrict condition, pthread_mutex_t* restrict mutex), condition, mutex)
WAIT(pthread_cond_timedwait, (pthread_cond_t* restrict condition, pthread_mutex_t* restrict mutex, const struct timespec* restrict until),
     condition, mutex, until)
#if __GLIBC_PREREQ(2, 30)
WAIT(pthread_cond_clockwait,
     (pthread_cond_t* restrict condition, pthread_mutex_t* restrict mutex, clockid_t clock, const struct timespec* restrict until),
     condition, mutex, clock, until)
#endif

EXPORT int pthread_cond_signal(pthread_cond_t* condition) {
    NEXT(pthread_cond_signal, CONDITIONS);
    if (awaited(recorder, condition)) recorder->condition_signalled(condition, 0);
    return next(condition);
}

EXPORT int pthread_cond_broadcast(pthread_cond_t* condition) {
    NEXT(pthread_cond_broadcast, CONDITIONS);
    if (awaited(recorder, condition)) recorder->condition_signalled(condition, 1);
    return next(condition);
}
