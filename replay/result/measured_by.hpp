// SPDX-License-Identifier: BSD-3-Clause
// Which exporter measured each rank, from the archive's properties (tracer/README.md, "Trace conventions").
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace polter::replay {

// By rank: the exporter's name, "none" where nothing measured it, empty where the trace does not say.
std::vector<std::string> measured_by(const std::map<std::string, std::string>& properties, size_t ranks);

// The ranks that were not measured although others were, as in "0-2,5"; empty: none. `count`: their number.
std::string unmeasured_ranks(const std::vector<std::string>& measured_by, size_t& count);

}  // namespace polter::replay
