// SPDX-License-Identifier: BSD-3-Clause
// MPI calls by call site, as JSON and as text.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "replay/result/result.hpp"

namespace polter::replay {

nlohmann::json call_sites_json(const std::vector<CallSiteResult>&);
// Means over the ranks; empty if the trace has no call sites.
std::string call_sites_text(const Result&, const TextOptions&);

}  // namespace polter::replay
