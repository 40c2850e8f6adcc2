// SPDX-License-Identifier: BSD-3-Clause
// Time that noise takes and the exporter cannot see: what it is for each record of a source, by rank.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "replay/base/options.hpp"
#include "replay/trace/definitions.hpp"

namespace polter::replay {

// By account and rank: nanoseconds to add to each record. Empty: none are asked for. Throws InputError for a source that the trace lacks.
std::vector<std::map<int64_t, int64_t>> hidden_by_account(const std::vector<HiddenTime>&, const Definitions&);
// "timer 35.2 us, preempt 15.0 us (ranks 0)"
std::string text_of(const std::vector<HiddenTime>&);
// "timer=35us,preempt=15us", for all ranks. Throws InputError.
std::vector<HiddenTime> parse_hidden(const std::string&);

}  // namespace polter::replay
