// SPDX-License-Identifier: BSD-3-Clause
// What a page shows: replayed runs with their advice, and of several runs their comparison.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace polter::report {

struct DataOptions {
    std::vector<std::vector<std::string>> sides;  // one or more; of each side one run or several
    std::string latency;                          // a result of polter latency to be shown beside them; empty: none
    std::string quality;                          // the same of polter quality --json
    std::string prediction;                       // the same of polter predict --json
    std::function<void(double)> progress;
};

// Schema polter.page/1 (README.md). Throws what a replay throws.
nlohmann::json data_of(const DataOptions&);

}  // namespace polter::report
