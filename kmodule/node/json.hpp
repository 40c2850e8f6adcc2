// SPDX-License-Identifier: BSD-3-Clause
// What the JSON forms of `polter noise` share.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "../observation/observation.hpp"

namespace polter::node {

// Times are integers in nanoseconds; a histogram is a list of [lower bound of the bin, events], empty bins left out.
nlohmann::json stats_to_json(const Stats&, bool with_histogram);
nlohmann::json machine_to_json();

}  // namespace polter::node
