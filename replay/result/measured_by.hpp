// SPDX-License-Identifier: BSD-3-Clause
// What measured each rank, as the archive's properties say it (tracer/README.md, "Trace conventions").
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace polter::replay {

// By rank: the exporter's name, "none" where nothing measured it, empty where the trace does not say.
std::vector<std::string> measured_by(const std::map<std::string, std::string>& properties, size_t ranks);

// "0-2,5": the ranks that were not measured where others were; empty: there are none. `count` is their number.
std::string unmeasured_ranks(const std::vector<std::string>& measured_by, size_t& count);

}  // namespace polter::replay
