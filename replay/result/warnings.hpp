// SPDX-License-Identifier: BSD-3-Clause
// The lines that say what a trace leaves open.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "replay/engine/engine.hpp"
#include "result.hpp"

namespace polter::replay {

// What the learning pass found, in the order of the enumeration: one line for each kind of flaw that occurred.
std::vector<std::string> flaw_lines(const std::vector<FlawCount>&, int64_t clock_disorder_ns);
// Calls whose waiting the trace does not tell; empty where there were none.
std::string unseen_line(const std::map<uint32_t, FlawCount>& calls, const Definitions& definitions, const char* why);
// That the job's own threads took each other's CPUs, where they did so for more than a hundredth of the run; else nothing.
std::string oversubscription_line(const Result& result);

// Lines from the archive's properties: what the exporter could not see, ranks that never finished, dropped events.
std::vector<std::string> provenance_lines(const std::map<std::string, std::string>& properties, const std::vector<Account>& accounts);

}  // namespace polter::replay
