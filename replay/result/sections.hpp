// SPDX-License-Identifier: BSD-3-Clause
// What `polter replay` shows below the first screen: through whom, where, when and on which ranks the noise cost time. Each is empty where
// there is nothing to show, and begins with an empty line otherwise.
#pragma once

#include <string>

#include "result.hpp"

namespace polter::replay {

std::string processes_text(const Result&, const TextOptions&);    // over all ranks, by the delay they caused where that is known
std::string calls_text(const Result&, const TextOptions&);        // MPI calls and where they were called from
std::string over_time_text(const Result&, const TextOptions&);    // the delay in equal intervals of the run, as a line
std::string worst_ranks_text(const Result&, const TextOptions&);  // those from which most was stolen

}  // namespace polter::replay
