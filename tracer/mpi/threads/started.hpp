// SPDX-License-Identifier: BSD-3-Clause
// Records the threads that the program starts itself: what ../threads/thread_hooks.h is called for.
#pragma once

#include "core/process.hpp"

namespace polter::mpi {

// From here on, where a preloaded library passes on that a thread is started or joined. Recorded while the process is traced.
void follow_threads();
// At MPI_Finalize: threads that still run end here in the trace, and with them the tracing of the process.
// False: one of them is still writing a record, and what is in memory must stay as it is.
bool end_threads();

}  // namespace polter::mpi
