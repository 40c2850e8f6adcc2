// SPDX-License-Identifier: BSD-3-Clause
#include "bounded_child.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace polter::seal {

bool in_child(std::chrono::seconds limit, const std::function<void()>& work) {
    auto pid = fork();
    if (pid < 0) throw std::runtime_error(fmt::format("cannot start a process to read events: {}", std::strerror(errno)));
    if (pid == 0) {
        // The parent's handlers and dumps are not for a child that is expected to crash.
        for (int fatal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGTERM, SIGINT}) signal(fatal, SIG_DFL);
        try {
            work();
        } catch (...) {
            _exit(1);
        }
        _exit(0);
    }
    auto end = std::chrono::steady_clock::now() + limit;
    int status = 0;
    for (auto pause = std::chrono::microseconds(200);; pause = std::min(pause * 2, std::chrono::microseconds(20'000))) {
        auto done = waitpid(pid, &status, WNOHANG);
        if (done == pid) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (done < 0 && errno != EINTR) return false;
        if (std::chrono::steady_clock::now() > end) {
            kill(pid, SIGKILL);
            while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
            }
            return false;
        }
        std::this_thread::sleep_for(pause);
    }
}

}  // namespace polter::seal
