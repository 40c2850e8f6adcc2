// SPDX-License-Identifier: BSD-3-Clause
// The output of a short helper command.
#pragma once

#include <string>
#include <vector>

namespace polter::launch {

// Standard output and error together, at most 1 MiB of it; empty if it cannot be started. Killed after `seconds`. Without LD_PRELOAD.
std::string capture(const std::vector<std::string>& command, int seconds);

}  // namespace polter::launch
