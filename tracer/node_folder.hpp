// SPDX-License-Identifier: BSD-3-Clause
// Where ranks leave their files on a node that does not see the experiment directory, until `polter run` has them collected.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "conventions.hpp"

namespace polter::trace {

// One a job, below POLTER_NODE_FOLDER or /tmp. Empty: `job` is no job's id.
inline std::string node_folder(const std::string& job) {
    if (job.size() != 16 || job.find_first_not_of("0123456789abcdef") != std::string::npos) return "";
    const char* base = std::getenv(env_node_folder);
    return std::string(base && *base ? base : "/tmp") + "/polter-" + job;
}

// A folder of this user's that nobody else can look into: others may write where it lies.
inline bool is_own_folder(const std::string& path) {
    struct stat info {};
    return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 077) == 0;
}

}  // namespace polter::trace
