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
std::vector<Warning> flaw_lines(const std::vector<FlawCount>&, int64_t clock_disorder_ns);
// Calls of whose waits the trace has no record: one line, none where there were no such calls.
std::vector<Warning> unrecorded_lines(Flaw, const std::map<uint32_t, FlawCount>& calls, const Definitions& definitions);
// That the job's own threads took each other's CPUs, where they did so for more than a hundredth of the run; else nothing.
std::vector<Warning> oversubscription_lines(const Result& result);

// Lines from the archive's properties: what the exporter could not see, ranks that never finished, dropped events.
std::vector<Warning> provenance_lines(const std::map<std::string, std::string>& properties, const std::vector<Account>& accounts);

}  // namespace polter::replay
