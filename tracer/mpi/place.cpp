// SPDX-License-Identifier: BSD-3-Clause
#include "place.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "../node_folder.hpp"
#include "../write/own_part.hpp"

namespace polter::mpi {
namespace {

// Whether the launcher of this job made it: its record names the job. On another node something else may have the same name.
bool is_launchers(const std::string& experiment, const std::string& job) {
    struct stat info {};
    if (stat(experiment.c_str(), &info) != 0) return errno != ENOENT && errno != ENOTDIR;  // other errors are reported where it is used
    const int file = ::open((experiment + "/" + trace::provenance_name).c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return true;  // of polter exec, which writes its record last
    std::string text;
    char block[4096];
    constexpr size_t most = 1u << 20;
    for (ssize_t got; text.size() < most && (got = ::read(file, block, sizeof block)) > 0;) text.append(block, static_cast<size_t>(got));
    ::close(file);
    return text.find("\"" + job + "\"") != std::string::npos;
}

}  // namespace

Place place_of_files(const std::string& experiment, const std::string& job) {
    const write::OwnPart own_part;
    const std::string folder = trace::node_folder(job);
    if (folder.empty() || is_launchers(experiment, job)) return {experiment, true, ""};
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
        return {"", false, "this node does not see " + experiment + ", and " + folder + " cannot be made: " + std::strerror(errno)};
    if (!trace::is_own_folder(folder))
        return {"", false, "this node does not see " + experiment + ", and " + folder + " is not this user's alone"};
    return {folder, false, ""};
}

}  // namespace polter::mpi
