// SPDX-License-Identifier: BSD-3-Clause
// What `polter run` ends with and `polter replay` begins with: at most 80 columns, times with three digits and their unit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "result.hpp"

namespace polter::replay {

// What the noise cost at least and at most, and whether that answers the question: else no single figure is given.
struct NoiseCost {
    int64_t low, high;
    bool open;
    explicit NoiseCost(const Result&);
};

std::string first_screen(const Result&, const TextOptions&);
// Without a replay, `why`: what the ranks lost, and not what that cost.
std::string unreplayed_screen(const Result&, const std::string& why, const TextOptions&);
bool on_first_screen(const Result&, const Warning&);  // whether the first screen says the same

std::string known(const Result&, const char* property);  // of the archive; empty: it does not say
bool is_small(const Result&, const SourceResult&);       // neither what it took of a rank nor its share is more than 0.1 %
std::string cause(std::string_view source);              // "timer interrupt" for timer; of other tools' sources the name itself
bool names_processes(std::string_view source);           // its culprits are processes or devices; else the source itself
std::string removed(const Result&);                      // the scenario "all" in words; empty: all noise, and nothing else

}  // namespace polter::replay
