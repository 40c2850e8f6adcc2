// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "replay/attribution/attribution.hpp"

namespace polter::replay {

nlohmann::json attribution_json(const Attribution&);

}  // namespace polter::replay
