// SPDX-License-Identifier: BSD-3-Clause
// Critical sections and locks of the program's OpenMP runtime, for ../threads/openmp_hooks.h. A lock is known by its address; an
// acquisition by its order among those of the lock that are recorded.
#pragma once

namespace polter::mpi {

// The thread comes to the lock. `critical`: to a critical section. 0: not recorded, and lock_had is not called.
int lock_wanted(int critical, const void* from);
// It has it. `lock` is NULL where it got none, as the wait ended otherwise.
void lock_had(const void* lock);
// It had it at once, by a function that does not wait.
void lock_got(const void* lock);
// It is about to release it.
void lock_released(const void* lock);

}  // namespace polter::mpi
