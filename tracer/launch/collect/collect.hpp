// SPDX-License-Identifier: BSD-3-Clause
// After the job: brings the files of ranks that do not see the experiment directory into it (../README.md).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace polter::launch {

// Does nothing where all ranks' files are there, or where the command stays on this node. Throws Error where files may be missing that
// could not be had: which, where they are, and what to do.
void collect_from_nodes(const std::vector<std::string>& command, const std::filesystem::path& experiment, const std::string& job);

}  // namespace polter::launch
