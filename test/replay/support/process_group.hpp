// SPDX-License-Identifier: BSD-3-Clause
// Analysis processes without an MPI: forked, with a socket between any two of them, and each in its own mood about when to look.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "replay/parallel/group.hpp"

namespace polter::test {

// Runs `work` in each of `count` processes and gives what each returned, by process: "failed: …" where it threw, "died" where it ended
// otherwise or took longer than `seconds`. `mood` seeds when a process does not see what is there: results must not depend on it. 0: always
// sees it.
std::vector<std::string> together(int count, uint64_t mood, const std::function<std::string(replay::Group&)>& work, unsigned seconds = 200);

}  // namespace polter::test
