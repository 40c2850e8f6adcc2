// SPDX-License-Identifier: BSD-3-Clause
// What could be suggested: noise that one change would remove. What each saves, and so whether it is suggested, the replay says.
#pragma once

#include <vector>

#include "advice.hpp"
#include "place.hpp"

namespace polter::advice {

std::vector<Suggestion> candidates(const replay::Result&, const Place&);

}  // namespace polter::advice
