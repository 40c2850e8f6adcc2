// SPDX-License-Identifier: BSD-3-Clause
// The JSON that people and programs give in a file of its own.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace polter::replay {

// Throws InputError: what is wrong with it and where, and `wanted`, what file should be given.
nlohmann::json read_json(const std::string& file, const std::string& wanted);

}  // namespace polter::replay
