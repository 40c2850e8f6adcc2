// SPDX-License-Identifier: BSD-3-Clause
// Between what a preload library exports of the C library's threads (pthread.c) and the tracer that records them (../mpi/threads/). The
// library that was preloaded has the variable polter_thread_hooks; a tracer finds it by that name at MPI_Init. NULL: nothing is recorded.
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A thread that the program starts; allocated by pthread.c, which frees it once the thread runs.
struct polter_started {
    void* (*start)(void*);  // the program's
    void* argument;
    uint64_t sequence;  // the tracer's: number of the thread in the process
};

// A thread's wait for a condition; on its stack.
struct polter_wait {
    const void *condition, *mutex;
    void* place;               // the tracer's; NULL: of too many
    struct polter_wait* next;  // of those that wait for the same condition
    unsigned signal;           // by which it is woken; 0: none yet
};

// The tracer is told of those mutexes and conditions, though nobody waits in the call, for which the count of their slot is not 0. Others may
// share a slot.
enum { polter_slots = 1024 };  // a power of two
static inline size_t polter_slot(const void* lock) {
    const size_t at = (size_t)lock >> 3;
    return (at ^ at >> 10) & (polter_slots - 1);
}

struct polter_thread_hooks {
    // On the thread that calls pthread_create; `from`: to where that call returns. 0: the new thread is not recorded.
    int (*create)(struct polter_started*, const pthread_attr_t*, const void* from);
    // On the new thread, before its first function.
    void (*begin)(const struct polter_started*);
    // Around pthread_join, on the thread that calls it. 0: that call is not recorded, and leave_join is not called.
    int (*enter_join)(pthread_t, const void* from);
    void (*leave_join)(pthread_t, int joined);
    // Mutexes and conditions (../mpi/threads/mutexes.hpp).
    const uint32_t* awaited;  // by slot; other threads change them
    int (*mutex_wanted)(const void* mutex, const void* from);
    void (*mutex_had)(const void* mutex, int locked);
    void (*mutex_got)(const pthread_mutex_t* mutex);
    void (*mutex_released)(const pthread_mutex_t* mutex);
    int (*condition_wanted)(struct polter_wait*, const void* from);
    void (*condition_had)(struct polter_wait*, int woken);
    void (*condition_signalled)(const void* condition, int all);
};

#ifdef __cplusplus
}
#endif
