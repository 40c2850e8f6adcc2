// SPDX-License-Identifier: BSD-3-Clause
// The page that shows the JSON of a replay: one file, no request. It renders what it is given, and computes no result.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace polter::report {

std::string_view page();  // with a place for the data; empty: this polter was built without Node.js

// Throws std::runtime_error if polter was built without the page.
void check_built();
// `data`: schema polter.page/1, see README.md.
std::string render(const nlohmann::json& data);
// Replaces the file as a whole, or leaves what was there. Throws std::runtime_error.
void write(const std::string& page, const std::string& file);

}  // namespace polter::report
