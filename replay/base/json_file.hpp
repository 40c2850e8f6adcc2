// SPDX-License-Identifier: BSD-3-Clause
// Reads JSON files that users or programs provide.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace polter::replay {

// Throws InputError: what is wrong and where, and `wanted`, the kind of file expected.
nlohmann::json read_json(const std::string& file, const std::string& wanted);

}  // namespace polter::replay
