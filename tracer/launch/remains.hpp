// SPDX-License-Identifier: BSD-3-Clause
// Processes of the job that outlive its launcher (which was killed, say): the sealer must not read what is still being written.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace polter::launch {

// Waits, up to `seconds`, until no process on this host that left a rank folder runs any more; then kills those that still do and
// belong to the job (their environment says so). What it had to do is added to `warnings`.
void wait_for_ranks(const std::filesystem::path& experiment, const std::string& job, int seconds, std::vector<std::string>& warnings);

// How many ranks of an unsealed experiment run on this host.
size_t still_running(const std::filesystem::path& experiment);

// Local processes of the experiment that have not ended.
std::vector<pid_t> running_ranks(const std::filesystem::path& experiment, const std::string& job);

}  // namespace polter::launch
