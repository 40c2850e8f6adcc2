// SPDX-License-Identifier: BSD-3-Clause
// Whose code calls the C library's functions of threads: the program's, or what is beside it.
#pragma once

namespace polter::mpi {

// Looks at the code that is loaded now.
void know_callers();

// Mutexes and conditions of the tracer, of MPI and of OpenMP runtimes are not the program's. Nor are those of code that defines what
// recording calls, as allocators and tools for input and output do: a record is written while the thread has the mutex, and must not ask
// for it again.
bool by_others(const void* from);

// An OpenMP runtime, which may have been loaded since. Asks the dynamic loader, whose lock a signal handler of the program may want, only
// where the code is not one of those known.
bool by_openmp(const void* from);

}  // namespace polter::mpi
