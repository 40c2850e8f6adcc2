// SPDX-License-Identifier: BSD-3-Clause
// Names come from outside: from the trace or from other processes. All that reach a terminal go through these functions.
#pragma once

#include <string>
#include <string_view>

namespace polter::replay {

// Replaces each byte of a control character, and each that is not UTF-8, by \xNN. `keep_lines`: keeps line breaks, for text that has been
// laid out.
std::string printable(std::string_view text, bool keep_lines = false);

// Replaces each byte that is not UTF-8 by \xNN and keeps all else, for files whose format can hold control characters.
std::string valid_utf8(std::string_view text);

size_t columns_of(std::string_view text);  // on a terminal; wide characters take two
// The length in bytes of the longest beginning of `text` that has at most so many columns, in whole characters.
size_t prefix_of(std::string_view text, size_t columns);

}  // namespace polter::replay
