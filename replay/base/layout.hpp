// SPDX-License-Identifier: BSD-3-Clause
// How figures and text are laid out for a terminal: three significant digits with the unit beside them, columns and not bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace polter::replay {

inline constexpr size_t usual_columns = 80, least_columns = 60, most_columns = 120;

std::string short_time(int64_t ns);  // "13.0 ms"
// "32.8 %"; what is not nothing but less than 0.1 % is "<0.1 %".
std::string short_percent(int64_t part, int64_t whole);
std::string short_factor(double value);           // "0.84"
bool below_threshold(double part, double whole);  // less than 0.1 % of it: left to --all

std::string shortened(const std::string& text, size_t most);             // at most so many columns, "..." at the end where it was longer
std::string fold(std::string_view text, size_t indent, size_t columns);  // all lines but the first begin with so many blanks
// One character for each value, in proportion to the largest; a blank for what is not above 0.
std::string bars(const std::vector<int64_t>& values, bool unicode);

}  // namespace polter::replay
