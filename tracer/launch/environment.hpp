// SPDX-License-Identifier: BSD-3-Clause
// What the ranks need to find in their environment, and how it gets to other nodes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exporter.hpp"
#include "job.hpp"
#include "programs/flavour.hpp"

namespace polter::launch {

// Of a variable of this process; empty where it is not set, or has no name.
std::string value_of(const char* variable);

// 16 hexadecimal digits.
std::string random_job_id();

Environment job_environment(const std::vector<std::string>& command, const std::filesystem::path& experiment, const std::string& job,
                            const Flavour&, const std::filesystem::path& preload, const Exporter&, const Environment& recording,
                            std::vector<std::string>& warnings);

}  // namespace polter::launch
