// SPDX-License-Identifier: BSD-3-Clause
// Which counters the ranks are to record: names, looked up and tried before the job starts.
#pragma once

#include <string>
#include <vector>

namespace polter::launch {

// The ranks' POLTER_COUNTERS; empty where nothing is asked for. Throws Error where an event is unknown or cannot be counted here, with what
// can be counted.
std::string counters_for_ranks(const std::vector<std::string>& perf, const std::vector<std::string>& papi);

// The event that says how much `polter run --profile` sees computed, as the ranks' POLTER_PROFILE_COUNTER has it: the one of `perf`, else
// instructions in user mode, else none (empty). Throws Error as above, and where more is asked for than a profile can count.
std::string counter_for_profile(const std::vector<std::string>& perf, const std::vector<std::string>& papi);

}  // namespace polter::launch
