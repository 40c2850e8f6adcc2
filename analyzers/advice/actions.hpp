// SPDX-License-Identifier: BSD-3-Clause
// How a suggestion is carried out: its title, and the commands with the names and numbers that are known.
#pragma once

#include <string>
#include <vector>

#include "advice.hpp"
#include "place.hpp"
#include "replay/base/layout.hpp"
#include "replay/base/printable.hpp"

namespace polter::advice {

// Fills title and actions, by the suggestion's kind. `culprits`: most stolen first.
void describe(Suggestion&, const std::vector<std::string>& culprits, const Place&);
// A word of a shell command, quoted where it needs it.
std::string shell_word(const std::string&);

}  // namespace polter::advice
