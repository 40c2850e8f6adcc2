// SPDX-License-Identifier: BSD-3-Clause
// What a page shows of a result beside the figures: the answer as a sentence, sums of the attribution, hosts, warnings with their
// explanations; and the timeline.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "result.hpp"

namespace polter::replay {

void add_report_json(nlohmann::json& result, const Result&);
// "The operating system cost this run 1.32 s of 132 s (1.0 %, …); …"; not printable: names are as the trace has them.
std::string answer(const Result&);
nlohmann::json timeline_json(const Timeline&, const Definitions&);
nlohmann::json durations_json(const Timeline&, const Definitions&);

}  // namespace polter::replay
