// SPDX-License-Identifier: BSD-3-Clause
// Between what a preload library exports of the C library's threads (pthread.c) and the tracer that records them (../mpi/started.cpp). The
// library that was preloaded has the variable polter_thread_hooks; a tracer finds it by that name at MPI_Init. NULL: nothing is recorded.
#pragma once

#include <pthread.h>
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

struct polter_thread_hooks {
    // On the thread that calls pthread_create; `from`: to where that call returns. 0: the new thread is not recorded.
    int (*create)(struct polter_started*, const pthread_attr_t*, const void* from);
    // On the new thread, before its first function.
    void (*begin)(const struct polter_started*);
    // Around pthread_join, on the thread that calls it. 0: that call is not recorded, and leave_join is not called.
    int (*enter_join)(pthread_t, const void* from);
    void (*leave_join)(pthread_t, int joined);
};

#ifdef __cplusplus
}
#endif
