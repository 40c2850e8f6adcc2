// SPDX-License-Identifier: BSD-3-Clause
#include "user.hpp"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace polter::seal {
namespace {

[[noreturn]] void child(uid_t user, gid_t group, int told, const std::function<void()>& work) {
    std::string error;
    try {
        if (setgroups(0, nullptr) != 0 || setresgid(group, group, group) != 0 || setresuid(user, user, user) != 0)
            throw std::runtime_error(fmt::format("cannot become user {}: {}", user, std::strerror(errno)));
        work();
        _exit(0);
    } catch (const std::exception& failure) {
        error = failure.what();
    }
    const auto written = ::write(told, error.data(), error.size());
    _exit(written == static_cast<ssize_t>(error.size()) ? 1 : 2);
}

}  // namespace

void as_user(uid_t user, const std::function<void()>& work) {
    const passwd* entry = getpwuid(user);
    const gid_t group = entry ? entry->pw_gid : static_cast<gid_t>(user);
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error(fmt::format("cannot become user {}: {}", user, std::strerror(errno)));
    const pid_t pid = fork();
    if (pid < 0) throw std::runtime_error(fmt::format("cannot become user {}: {}", user, std::strerror(errno)));
    if (pid == 0) child(user, group, ends[1], work);
    close(ends[1]);
    std::string error;
    char bytes[512];
    for (ssize_t got; (got = read(ends[0], bytes, sizeof bytes)) > 0 || (got < 0 && errno == EINTR);)
        if (got > 0) error.append(bytes, static_cast<size_t>(got));
    close(ends[0]);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    throw std::runtime_error(error.empty() ? "the process that sealed it was ended" : error);
}

}  // namespace polter::seal
