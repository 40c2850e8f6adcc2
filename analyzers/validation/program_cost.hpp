// SPDX-License-Identifier: BSD-3-Clause
// What an event takes from this very program: its work between two MPI calls, with an event in it in one run and without in the other. What
// the loop of event_cost.hpp cannot lose is in it, caches for example. MPI calls are not, so it is not the answer that is to be judged.
#pragma once

#include <map>
#include <vector>

#include "event_cost.hpp"
#include "windows.hpp"

namespace polter::validation {

// Of one rank, from both its runs: for each piece of work with one event and the timer interrupt that woke the injector in one run, and
// neither in the other, by how much it was longer beyond what was recorded. How fast each run was just then is known from pieces nearby
// that no event hit in either.
std::vector<int64_t> hidden_in_work(const std::vector<Call>& first, const std::vector<Call>& second);

// `loop`: what the loop has measured; where the program has enough such pieces on a CPU, they replace what was hidden there.
// `hidden`: of the ranks, by CPU.
EventCost with_program(EventCost loop, const std::map<int32_t, std::vector<int64_t>>& hidden);

}  // namespace polter::validation
