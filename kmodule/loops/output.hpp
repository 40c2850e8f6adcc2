// SPDX-License-Identifier: BSD-3-Clause
// The result of a loop, as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "loops.hpp"

namespace polter::loops {

std::string to_text(const Result&, std::size_t top, bool histogram, std::size_t columns = 80);
// With every disturbed sample and its events.
nlohmann::json to_json(const Result&);

}  // namespace polter::loops
