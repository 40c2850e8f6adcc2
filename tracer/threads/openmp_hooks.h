// SPDX-License-Identifier: BSD-3-Clause
// Between what a preload library exports of libgomp's interface (gomp.c) and the tracer that records it (../mpi/threads/). The library
// that was preloaded has the variable polter_openmp_hooks; a tracer finds it by that name at MPI_Init. NULL: nothing is recorded.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// One execution of a parallel region; on the stack of the thread that begins it. The tracer fills it in fork.
struct polter_parallel {
    const void* from;    // to where the program's call returns
    unsigned requested;  // threads; 0: as the runtime decides
    int dynamic;         // the region is a loop or sections, handed out as threads ask
    void* master;        // the tracer's: whose region it is; NULL: within another one
};

enum polter_not_recorded {
    polter_nested_regions,
    polter_ordered,
    polter_detached_tasks,
    polter_uncontended_mutexes,
    polter_teams,
    polter_not_recorded_kinds
};

struct polter_openmp_hooks {
    // On the thread that begins the region; 0: it is not recorded, and none of the others is called for it.
    int (*fork)(struct polter_parallel*);
    void (*join)(struct polter_parallel*);
    // On each member, around its share: its number in the team, and how many there are.
    void (*begin_share)(struct polter_parallel*, int number, int size);
    void (*end_share)(struct polter_parallel*);
    // Around a barrier of the team, on each member. `from`: to where the program's call returns.
    void (*enter_barrier)(const void* from);
    void (*leave_barrier)(void);
    // The program has something that the tracer does not record: enum polter_not_recorded.
    void (*not_recorded)(int what);
    // The loop that the thread comes to hands out its iterations as threads ask.
    void (*dynamic_loop)(void);
    // Critical sections and locks, on the thread that has or wants one (../mpi/threads/locks.hpp). lock_wanted: 0: not recorded.
    int (*lock_wanted)(int critical, const void* from);
    void (*lock_had)(const void* lock);
    void (*lock_got)(const void* lock);
    void (*lock_released)(const void* lock);
    // Around a task, on the thread that executes it; 0: not recorded. `from`: to where the call that made it returns.
    int (*begin_task)(const void* from);
    void (*end_task)(void);
    // Around a wait for tasks; 0: not recorded.
    int (*enter_taskwait)(const void* from);
    void (*leave_taskwait)(void);
};

#ifdef __cplusplus
}
#endif
