// SPDX-License-Identifier: BSD-3-Clause
#include "job.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "launch.hpp"
#include "standard_streams.hpp"

namespace polter::launch {
namespace {

constexpr int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

// While one exists, those signals and SIGCHLD wait to be taken by sigwaitinfo: no handler, no race.
class HeldSignals {
  public:
    HeldSignals() {
        sigemptyset(&held_);
        for (int signal : forwarded) sigaddset(&held_, signal);
        sigaddset(&held_, SIGCHLD);
        // Taking the terminal back from the background would stop us.
        sigset_t blocked = held_;
        sigaddset(&blocked, SIGTTOU);
        sigprocmask(SIG_BLOCK, &blocked, &before_);
    }
    ~HeldSignals() { restore(); }
    HeldSignals(const HeldSignals&) = delete;
    HeldSignals& operator=(const HeldSignals&) = delete;
    void restore() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }
    const sigset_t& set() const { return held_; }

  private:
    sigset_t held_, before_;
};

// The terminal, where we are in its foreground.
class Terminal {
  public:
    Terminal() : fd_(open("/dev/tty", O_RDWR | O_CLOEXEC)), ours_(fd_ >= 0 && tcgetpgrp(fd_) == getpgrp()) {}
    ~Terminal() {
        take_back();
        if (fd_ >= 0) close(fd_);
    }
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;
    void lend(pid_t group) const {
        if (ours_) tcsetpgrp(fd_, group);
    }
    void take_back() const { lend(getpgrp()); }

  private:
    int fd_;
    bool ours_;
};

pid_t start(const std::vector<std::string>& command, const Environment& environment, const HeldSignals& signals, const Terminal& terminal,
            const JobOptions& options) {
    std::vector<char*> arguments;
    for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    // What went wrong with exec comes back through a pipe that a successful exec closes.
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw Error(fmt::format("the job cannot be started: {}", std::strerror(errno)));
    auto parent = getpid();
    auto pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        if (options.dies_with_us) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) _exit(127);
        }
        terminal.lend(getpid());
        for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
        if (options.output_to_error) dup2(STDERR_FILENO, STDOUT_FILENO);
        signals.restore();
        restore_broken_pipes();
        execvp(arguments[0], arguments.data());
        int reason = errno;
        [[maybe_unused]] auto written = write(ends[1], &reason, sizeof reason);
        _exit(127);
    }
    int reason = pid < 0 ? errno : 0;
    close(ends[1]);
    if (pid > 0) {
        setpgid(pid, pid);  // whoever comes first
        while (read(ends[0], &reason, sizeof reason) < 0 && errno == EINTR) {
        }
    }
    close(ends[0]);
    if (reason == 0) return pid;
    if (pid > 0) waitpid(pid, nullptr, 0);
    throw Error(
        fmt::format("{}: cannot be run: {}; give the command as you would type it without polter", command.front(), std::strerror(reason)));
}

int code_of(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

int run_job(const std::vector<std::string>& command, const Environment& environment, const JobOptions& options) {
    HeldSignals signals;
    Terminal terminal;
    auto pid = start(command, environment, signals, terminal, options);
    for (;;) {
        siginfo_t info{};
        auto signal = sigwaitinfo(&signals.set(), &info);
        if (signal < 0) continue;
        if (signal != SIGCHLD) {
            // One that the terminal sent has reached the group already, unless the group is not in its foreground.
            kill(-pid, signal);
            continue;
        }
        if (options.on_child) options.on_child();
        int status = 0;
        while (waitpid(pid, &status, WNOHANG | WUNTRACED) == pid) {
            if (!WIFSTOPPED(status)) return code_of(status);
            terminal.take_back();
            raise(SIGSTOP);
            terminal.lend(pid);
            kill(-pid, SIGCONT);
        }
    }
}

}  // namespace polter::launch
