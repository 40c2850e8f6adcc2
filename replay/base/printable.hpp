// SPDX-License-Identifier: BSD-3-Clause
// Names come from outside: whoever made the trace, or the process that was seen, chose them. What of them reaches a terminal goes through
// here.
#pragma once

#include <string>
#include <string_view>

namespace polter::replay {

// Each byte of a control character, and each that is no UTF-8, becomes \xNN; all else stays. `keep_lines`: so do the ends of lines, for
// text that has been laid out.
std::string printable(std::string_view text, bool keep_lines = false);

size_t columns_of(std::string_view text);  // on a terminal; wide characters take two
// Bytes of the longest beginning of `text` that takes at most so many columns, in whole characters.
size_t prefix_of(std::string_view text, size_t columns);

}  // namespace polter::replay
