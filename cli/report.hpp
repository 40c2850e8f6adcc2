// SPDX-License-Identifier: BSD-3-Clause
// The page, for `polter report` and `polter run --report`.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace polter::cli {

// Replays the traces (of each side one run or several) and writes the page. Throws what a replay throws, and std::runtime_error.
void write_report(const std::vector<std::vector<std::string>>& sides, const std::string& file, std::function<void(double)> progress = {});
std::string report_beside(const std::string& trace);  // report.html in the trace's directory

}  // namespace polter::cli
