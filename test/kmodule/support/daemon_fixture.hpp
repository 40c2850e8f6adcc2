// SPDX-License-Identifier: BSD-3-Clause
// A polterd of the test's own on a socket in a directory of its own. Where the kernel does not let it run, the test is skipped.
#pragma once

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "noise.h"
#include "start.hpp"

// What a daemon has time for here: on a busy machine it may have to wait for a CPU.
constexpr unsigned answer_ms = 30'000;

inline polter::daemon::Status probe(const std::string& socket) {
    return polter::daemon::probe(socket, answer_ms);
}

// Ends the test: skipped where this machine has no right or no kernel for an exporter. Programs that a kernel loads and then refuses are a
// defect of theirs.
[[noreturn]] inline void no_exporter(const char* what, const std::string& reason) {
    const bool refused = reason.find("refuses the programs") != std::string::npos;
    std::printf("%s: %s: %s\n", refused ? "FAILED" : "skipped", what, reason.c_str());
    std::fflush(stdout);
    _Exit(refused ? 1 : 77);
}

class Daemon {
  public:
    explicit Daemon(polter::daemon::StartOptions options = {.exit_with_last = false}) : options_(options) {
        char path[] = "/tmp/polter-test-XXXXXX";
        directory_ = mkdtemp(path);
        chmod(path, 0755);
        options_.ready_timeout_ms = answer_ms;
        start();
    }
    ~Daemon() {
        stop();
        std::error_code ignored;
        std::filesystem::remove_all(directory_, ignored);
    }
    Daemon(const Daemon&) = delete;

    std::string socket() const { return directory_ + "/s"; }
    std::string directory() const { return directory_; }
    pid_t pid() const { return started_.pid; }

    void start() {
        started_ = polter::daemon::start_daemon(POLTERD, socket(), options_);
        if (started_) return;
        std::error_code ignored;
        std::filesystem::remove_all(directory_, ignored);
        no_exporter("polterd does not run here", started_.reason);
    }
    void stop() { polter::daemon::stop_daemon(std::exchange(started_.pid, -1), answer_ms); }
    void kill_hard() {
        kill(started_.pid, SIGKILL);
        waitpid(started_.pid, nullptr, 0);
        started_.pid = -1;
    }

  private:
    polter::daemon::StartOptions options_;
    std::string directory_;
    polter::daemon::Started started_;
};

// This process's registration, and pages of its threads.
struct Session {
    char error[600] = "";
    polter_session* handle;
    explicit Session(const std::string& socket, unsigned threads = 0, std::uint64_t job = 0) {
        const polter_noise_options options{.socket_path = socket.c_str(),
                                           .job = job,
                                           .threads = threads,
                                           .timeout_ms = answer_ms,
                                           .exporter = nullptr,
                                           .tracepoints = nullptr};
        handle = polter_session_open(&options, error, sizeof error);
    }
    ~Session() { polter_session_close(handle); }
    Session(const Session&) = delete;
    struct Closer {
        void operator()(polter_noise* noise) const { polter_noise_close(noise); }
    };
    using Page = std::unique_ptr<polter_noise, Closer>;
    Page open() { return Page(polter_noise_open(handle, error, sizeof error)); }
};

inline std::uint64_t monotonic_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
}

inline void sleep_ms(long ms) {
    const timespec t{ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, nullptr);
}

// Waits until it holds, at most half a minute.
inline bool soon(const std::function<bool()>& holds) {
    for (int i = 0; i < 3000; i++) {
        if (holds()) return true;
        sleep_ms(10);
    }
    return false;
}

// The exit code of `body`, run in a child.
inline int in_child(const std::function<int()>& body) {
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid == 0) _exit(body());
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
