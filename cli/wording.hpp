// SPDX-License-Identifier: BSD-3-Clause
// How text fits a terminal, and what a mistyped word was meant to be.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace polter::cli {

// Columns of the terminal that a descriptor leads to; 0: it leads to none.
std::size_t terminal_width(int fd);

// Whether text in UTF-8 is shown as such: by the locale of the environment.
bool shows_unicode();

// Lines longer than `width` are broken at blanks; what follows is indented like the second column of "  NAME   text", else two columns more
// than the line. A word that is longer stays whole. Width 0: unchanged.
std::string wrap(std::string_view text, std::size_t width);

// The one of `known` that is nearest by insertions, deletions, substitutions and exchanges of neighbours; empty: none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace polter::cli
