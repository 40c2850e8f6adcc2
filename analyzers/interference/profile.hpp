// SPDX-License-Identifier: BSD-3-Clause
// A profile of segments instead of a trace: what profile.c wrote, and the job that writes it.
#pragma once

#include <string>
#include <vector>

#include "segments.hpp"

namespace polter::interference {

bool is_profile(const std::string& folder);  // it has a rank's profile, and no trace
// Throws replay::InputError for a profile that is incomplete or damaged.
Run read_profile(const std::string& folder);

// The nearest of sorted values become one until there are at most so many. Gives the new value of each.
std::vector<double> merged(const std::vector<double>& sorted, size_t most);

}  // namespace polter::interference
