// SPDX-License-Identifier: BSD-3-Clause
// Which counters the ranks are to record: names, looked up and tried before the job starts.
#pragma once

#include <string>
#include <vector>

namespace polter::launch {

// The ranks' POLTER_COUNTERS; empty where nothing is asked for. Throws Error where an event is unknown or cannot be counted here, with what
// can be counted.
std::string counters_for_ranks(const std::vector<std::string>& perf, const std::vector<std::string>& papi);

}  // namespace polter::launch
