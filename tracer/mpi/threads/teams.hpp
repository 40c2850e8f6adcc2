// SPDX-License-Identifier: BSD-3-Clause
// Records the parallel regions of the program's OpenMP runtime: what ../threads/openmp_hooks.h is called for.
#pragma once

#include <cstdint>

namespace polter::mpi {

// How many noise pages the process may need, by what its OpenMP runtime will start; 0: it has none.
uint32_t pages_for_openmp();

// From here on, where a preloaded library passes on what the runtime is called for. Recorded while the process is traced.
void follow_openmp();

// On a thread that the trace has: the program has this, an enum polter_not_recorded. The trace says so once.
void not_recorded(int what);

}  // namespace polter::mpi
