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

std::string first_screen(const Result&, bool all);
// Without a replay, `why`: what the ranks lost, and not what that cost.
std::string unreplayed_screen(const Result&, const std::string& why);
// Of a warning: the first screen says the same.
bool on_first_screen(const Result&, const std::string& warning);

std::string known(const Result&, const char* property);  // of the archive; empty: it does not say
std::string short_time(int64_t ns);                      // "13.0 ms"
// "32.8 %"; what is not nothing but less than 0.1 % is "<0.1 %".
std::string short_percent(int64_t part, int64_t whole);
bool below_threshold(double part, double whole);         // less than 0.1 % of it: left to --all
bool is_small(const Result&, const SourceResult&);       // neither what it took of a rank nor its share is more
std::string cause(std::string_view source);              // "timer interrupt" for timer; of other tools' sources the name itself
std::string removed(const Result&);                      // the scenario "all" in words; empty: all noise, and nothing else
std::string fold(std::string_view text, size_t indent);  // lines of at most 80 columns; all but the first begin with so many blanks

}  // namespace polter::replay
