// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "replay/attribution/attribution.hpp"

namespace polter::replay {

nlohmann::json attribution_json(const Attribution&);
std::string attribution_text(const Attribution&, bool everything);  // empty where nothing was accumulated

}  // namespace polter::replay
