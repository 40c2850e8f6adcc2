// SPDX-License-Identifier: BSD-3-Clause
// Verbs that share one analysis among several processes: those of a launcher (mpirun -n 4 polter VERB), or some that they start here.
#pragma once

#include <functional>

#include "replay/parallel/group.hpp"

namespace polter::cli {

struct SharedWork {
    std::function<void()> prepare;                      // in the first process, before any opens the archive
    std::function<int()> processes = [] { return 1; };  // where there is no launcher: how many to start here
    std::function<void(replay::Group*)> run;
};

// Runs `work` with the launcher's processes as one group. Where there is no launcher, in a child process (go_apart): alone, with no group,
// or with others that it starts; should any of these fail, the work is done again alone, so that errors are those of one process. The first
// process prints, errors too; those of a launcher end with the same exit code.
void together_or_apart(const SharedWork& work);

}  // namespace polter::cli
