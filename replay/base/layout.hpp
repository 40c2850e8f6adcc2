// SPDX-License-Identifier: BSD-3-Clause
// Figures and text for a terminal: three significant digits with a unit; widths in columns, not bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace polter::replay {

inline constexpr size_t usual_columns = 80, least_columns = 60, most_columns = 120;

std::string short_time(int64_t ns);  // "13.0 ms"
// "32.8 %"; "<0.1 %" for more than 0 and less than 0.1 %.
std::string short_percent(int64_t part, int64_t whole);
std::string short_factor(double value);           // "0.84"
bool below_threshold(double part, double whole);  // less than 0.1 % of it, and so shown with --all only

std::string shortened(const std::string& text, size_t most);             // at most so many columns; "..." marks what was cut
std::string fold(std::string_view text, size_t indent, size_t columns);  // all lines but the first are indented
// One character for each value, in proportion to the largest; a blank for values ≤ 0.
std::string bars(const std::vector<int64_t>& values, bool unicode);

}  // namespace polter::replay
