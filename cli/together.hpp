// SPDX-License-Identifier: BSD-3-Clause
// Verbs that share one analysis among all processes of a launcher: mpirun -n 4 polter VERB.
#pragma once

#include <functional>

#include "replay/parallel/group.hpp"

namespace polter::cli {

// Calls `work` with the launcher's processes as one group; where there is no launcher, in a child process (go_apart) with none. The first
// process prints, errors too; the others end with the same exit code.
void together_or_apart(const std::function<void(replay::Group*)>& work);

}  // namespace polter::cli
