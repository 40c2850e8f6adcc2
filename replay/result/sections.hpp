// SPDX-License-Identifier: BSD-3-Clause
// The sections of `polter replay` below the first screen: which processes, where, when, and on which ranks the noise cost time. Each is
// empty if there is nothing to show, and begins with an empty line otherwise.
#pragma once

#include <string>

#include "result.hpp"

namespace polter::replay {

std::string processes_text(const Result&, const TextOptions&);    // over all ranks, by the delay that they caused if known
std::string calls_text(const Result&, const TextOptions&);        // MPI calls and their callers
std::string over_time_text(const Result&, const TextOptions&);    // the delay in equal intervals of the run, in one line
std::string worst_ranks_text(const Result&, const TextOptions&);  // the ranks with most noise

}  // namespace polter::replay
