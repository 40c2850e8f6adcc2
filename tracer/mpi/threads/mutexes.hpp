// SPDX-License-Identifier: BSD-3-Clause
// Waits for mutexes and condition variables of the program, for ../threads/thread_hooks.h. Recorded are waits, on threads that have a
// location, and that by which they ended: the release of a mutex for which somebody waits, the signal of a condition. Of acquisitions that
// did not wait the first few behind a wait are recorded.
#pragma once

#include <pthread.h>

#include <cstdint>

struct polter_wait;

namespace polter::mpi {

// Whether calls for what has this slot are to be told: 0: no.
extern uint32_t awaited_locks[];

// The thread comes to a mutex that another one has. `from`: to where the call returns. 0: not recorded, and mutex_had is not called.
int mutex_wanted(const void* mutex, const void* from);
// The wait is over; `locked`: it has the mutex.
void mutex_had(const void* mutex, int locked);
// It has the mutex, and did not wait.
void mutex_got(const pthread_mutex_t* mutex);
// The thread, which has the mutex, is about to release it.
void mutex_released(const pthread_mutex_t* mutex);
// The thread, which has the mutex, is about to wait. 0: not recorded, and condition_had is not called.
int condition_wanted(polter_wait* wait, const void* from);
// The wait is over, and the thread has the mutex again. `woken`: not by the time, and not as the thread is cancelled.
void condition_had(polter_wait* wait, int woken);
// The thread is about to wake one of those that wait, or all.
void condition_signalled(const void* condition, int all);

}  // namespace polter::mpi
