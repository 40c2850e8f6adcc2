// SPDX-License-Identifier: BSD-3-Clause
// What can be said of a job while it runs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "online.hpp"
#include "reasons.hpp"

namespace polter::quality {

struct Look {
    Job job;  // what was recorded of it until now; runtime_ns: how long it has run
    size_t history = 0;
    std::string work;
    std::optional<Prediction> run_time;  // s, from size, processes and nodes; unset: too few jobs
    Point point;
    double own_share = 0;                 // reasons.hpp
    std::vector<Cause> because;           // where it is slower
    std::vector<Difference> differences;  // from what the others had done in the same time
};

// `job`: until now. `history`: jobs of the same application.
Look look_at(const Job& job, const std::vector<Job>& history);
nlohmann::json to_json(const Look&);  // schema polter.quality.running/1: $defs/running in docs/quality.schema.json
std::string to_text(const Look&);     // one line

}  // namespace polter::quality
