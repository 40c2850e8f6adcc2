// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "replay/attribution/event_costs.hpp"

namespace polter::replay {

void add_costs_json(nlohmann::json& result, const CostReport&);                         // keys costliest, critical_path, propagation
std::string costs_text(const CostReport&, const std::string& without, size_t columns);  // `without`: as the text names the scenario "all"

}  // namespace polter::replay
