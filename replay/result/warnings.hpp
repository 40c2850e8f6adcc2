// SPDX-License-Identifier: BSD-3-Clause
// Turns what a trace leaves open into warnings.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "replay/engine/engine.hpp"
#include "result.hpp"

namespace polter::replay {

// From the learning pass: one warning for each kind of flaw that occurred, in the order of the enumeration.
std::vector<Warning> flaw_lines(const std::vector<FlawCount>&, int64_t clock_disorder_ns);
// Says of each how much of the run it concerns and can change, where that is known of all its occurrences.
void limit_open_questions(std::vector<Warning>&, const OpenQuestions&, const std::map<Flaw, int64_t>& occurrences, int64_t run_time_ns);
// Calls that may have waited without a record: one warning, or none.
std::vector<Warning> unrecorded_lines(Flaw, const std::map<uint32_t, FlawCount>& calls, const Definitions& definitions);
// The job's own threads took CPUs from each other for more than a hundredth of the run: one warning, or none.
std::vector<Warning> oversubscription_lines(const Result& result);

// Between hosts, as the archive says; 0: one host, or not known.
int64_t clock_error_ns(const std::map<std::string, std::string>& properties);
// The clock error exceeds the time that a message takes: one warning, or none.
std::vector<Warning> clock_error_lines(const Result& result);

// From the archive's properties: what the exporter could not see, ranks that did not finish, dropped events.
std::vector<Warning> provenance_lines(const std::map<std::string, std::string>& properties, const std::vector<Account>& accounts);

}  // namespace polter::replay
