// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json.hpp>
#include <string>

// How long many clients at once wait: 512 processes, 4096 threads, two users each alone and both together. Milliseconds, medians over the
// rounds. Needs root, to be several users.
nlohmann::json crowds(const std::string& polterd, const std::string& socket, int rounds);
