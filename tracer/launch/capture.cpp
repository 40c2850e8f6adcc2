// SPDX-License-Identifier: BSD-3-Clause
#include "capture.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

namespace polter::launch {

std::string capture(const std::vector<std::string>& command, int seconds) {
    std::vector<char*> arguments;
    for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return {};
    auto pid = fork();
    if (pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return {};
    }
    if (pid == 0) {
        int null = open("/dev/null", O_RDONLY);
        dup2(null, 0);
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        setpgid(0, 0);
        unsetenv("LD_PRELOAD");
        execvp(arguments[0], arguments.data());
        _exit(127);
    }
    close(ends[1]);
    constexpr size_t most = 1 << 20;
    std::string out;
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (out.size() < most) {
        auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
        pollfd wait{ends[0], POLLIN, 0};
        if (left <= 0) break;
        auto ready = poll(&wait, 1, static_cast<int>(left));
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) break;
        char buffer[4096];
        auto got = read(ends[0], buffer, sizeof buffer);
        if (got <= 0) break;
        out.append(buffer, static_cast<size_t>(got));
    }
    close(ends[0]);
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);  // before it had its own group
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return out;
}

}  // namespace polter::launch
