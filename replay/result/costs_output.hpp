// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "replay/attribution/event_costs.hpp"

namespace polter::replay {

void add_costs_json(nlohmann::json& result, const CostReport&);  // keys costliest, critical_path, propagation
// `without`: the name of the scenario "all" in the text
std::string costs_text(const CostReport&, const std::string& without, size_t columns);

}  // namespace polter::replay
