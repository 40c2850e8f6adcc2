// SPDX-License-Identifier: BSD-3-Clause
// What users write to select a part of a trace. Throws std::invalid_argument with what is wrong.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace polter::exports {

// "1.2 s-1.3 s", "800-950 ms", "0.5-1": from the trace's first event, in ns. Units as in results: ns, us, ms, s; seconds without one. A
// unit at the end counts for both.
std::pair<int64_t, int64_t> parse_window(const std::string& text);

// "0,3,8-15"
std::vector<bool> parse_ranks(const std::string& text);

}  // namespace polter::exports
