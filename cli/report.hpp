// SPDX-License-Identifier: BSD-3-Clause
// The report of one trace, for `polter report` and `polter run --report`.
#pragma once

#include <functional>
#include <string>

#include "replay/replay.hpp"

namespace polter::cli {

// Replays the trace and writes the page. Throws what a replay throws, and std::runtime_error.
void write_report(const std::string& trace, const std::string& file, std::function<void(double)> progress = {});
std::string report_beside(const std::string& trace);  // report.html in the trace's directory

}  // namespace polter::cli
