// SPDX-License-Identifier: BSD-3-Clause
// Threads that were there before MPI_Init: they get a location once they call MPI, or are in a region of OpenMP or of the program. Of those
// that never do, the trace says that they were there.
#pragma once

#include <sys/types.h>

namespace polter::mpi {

// At MPI_Init, before MPI itself starts threads.
void note_earlier_threads();
// The thread has a location.
void recorded_thread(pid_t tid);
// At the end: those without, if they ran meanwhile.
void tell_earlier_threads();

}  // namespace polter::mpi
