// SPDX-License-Identifier: BSD-3-Clause
#include "child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>

#include "otf2_watchdog.hpp"

namespace polter::replay {

namespace {

namespace fs = std::filesystem;

constexpr int look_ms = 200;
constexpr int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

volatile pid_t child_pid = 0;

void pass_on(int signal) {
    const int before = errno;
    if (child_pid > 0) kill(child_pid, signal);
    errno = before;
}

// While it exists, these signals are passed on to the child.
struct PassingOn {
    struct sigaction before[std::size(passed_on)];
    PassingOn() {
        struct sigaction action {};
        action.sa_handler = pass_on;
        action.sa_flags = SA_RESTART;
        sigemptyset(&action.sa_mask);
        for (size_t i = 0; i < std::size(passed_on); ++i) {
            sigaction(passed_on[i], nullptr, &before[i]);
            if (before[i].sa_handler != SIG_IGN) sigaction(passed_on[i], &action, nullptr);  // keeps ignored signals ignored (nohup)
        }
    }
    ~PassingOn() {
        child_pid = 0;
        for (size_t i = 0; i < std::size(passed_on); ++i) sigaction(passed_on[i], &before[i], nullptr);
    }
    PassingOn(const PassingOn&) = delete;
    PassingOn& operator=(const PassingOn&) = delete;
};

std::string place(const Watch& seen) {
    const std::string anchor = seen.anchor;
    const std::string folder = fs::path(anchor).replace_extension().string();
    switch (seen.reading.load()) {
        case Reading::nothing:
            return {};
        case Reading::anchor:
            return anchor;
        case Reading::definitions:
            return folder + ".def";
        case Reading::mappings:
            return fmt::format("{}/{}.def", folder, seen.location.load());
        case Reading::events:
            return fmt::format("{}/{}.evt", folder, seen.location.load());
    }
    return anchor;
}

std::string story(const Watch& seen, const std::string& what) {
    const std::string file = place(seen), anchor = *seen.anchor ? seen.anchor : "the trace";
    if (file.empty())
        return fmt::format("{}: the replay {} outside of the OTF2 library; this is a defect of polter, please report the trace", anchor,
                           what);
    return fmt::format(
        "{}: the OTF2 library {} while it read this file, which is most likely damaged; `otf2-print {}` tells: if that reads to the end, "
        "please report the trace as a defect of polter",
        file, what, anchor);
}

double cpu_seconds(pid_t pid) {
    clockid_t clock;
    timespec time{};
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double monotonic_seconds() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

bool told_to_end(int signal) {
    switch (signal) {
        case SIGSEGV:
        case SIGBUS:
        case SIGFPE:
        case SIGILL:
        case SIGABRT:
        case SIGSYS:
        case SIGTRAP:
        case SIGKILL:
            return false;
        default:
            return true;
    }
}

// Waits for the end of the pipe. Also polls the child, as its own children may keep the pipe open.
ChildEnd wait_for(pid_t pid, int pipe, const Watch& seen, double stall_s, const ApartFaults& faults, double limit_s) {
    const double began = monotonic_seconds();
    uint64_t steps = UINT64_MAX;
    double since = 0;
    bool stalled = false, late = false;
    int status = 0;
    for (;;) {
        pollfd end{pipe, POLLIN, 0};
        const double left_s = std::max(0.0, limit_s - (monotonic_seconds() - began));
        const bool closed = poll(&end, 1, left_s * 1000 < look_ms ? static_cast<int>(left_s * 1000) + 1 : look_ms) > 0;
        const pid_t done = waitpid(pid, &status, closed || stalled || late ? 0 : WNOHANG);
        if (done == pid) break;
        if (done < 0 && errno != EINTR) return {1, 0, "the process that reads the trace was lost"};
        const double cpu = cpu_seconds(pid);
        const uint64_t now = seen.steps.load();
        if (now != steps || seen.reading.load() == Reading::nothing) {
            steps = now;
            since = cpu;
        } else if (cpu - since > stall_s && !faults.patient) {
            stalled = true;
            kill(pid, SIGKILL);
        }
        if (!stalled && left_s <= 0) {
            late = true;
            kill(pid, SIGKILL);
        }
    }
    ChildEnd result;
    if (WIFEXITED(status)) {
        result.exit_code = WEXITSTATUS(status);
    } else if (late) {
        result.late = true;
    } else if (stalled) {
        result = {1, 0, story(seen, fmt::format("did not come forward in {:g} s of computing", stall_s))};
    } else if (told_to_end(WTERMSIG(status))) {
        result = {128 + WTERMSIG(status), WTERMSIG(status), {}};
    } else if (WTERMSIG(status) == SIGKILL) {
        result = {1, 0,
                  fmt::format("{}: the process that read it was killed; if nobody meant to, the system ran out of memory",
                              *seen.anchor ? seen.anchor : "the trace")};
    } else {
        result = {1, 0, story(seen, fmt::format("died ({})", strsignal(WTERMSIG(status))))};
    }
    std::error_code ignored;
    if (!WIFEXITED(status) && *seen.unfinished && !faults.keeps_unfinished) fs::remove_all(seen.unfinished, ignored);
    return result;
}

}  // namespace

std::optional<ChildEnd> go_apart(double stall_s, ApartFaults faults, double limit_s) {
    void* memory = mmap(nullptr, sizeof(Watch), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return std::nullopt;
    auto* seen = new (memory) Watch();
    int pipe[2];
    if (pipe2(pipe, O_CLOEXEC) != 0) return std::nullopt;
    std::fflush(nullptr);  // otherwise both would print what is still in the buffers
    // A signal between fork and the installation of the handlers must not end the parent alone.
    sigset_t blocked, before;
    sigemptyset(&blocked);
    for (const int signal : passed_on) sigaddset(&blocked, signal);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    const pid_t parent = getpid(), pid = fork();
    if (pid <= 0) {
        sigprocmask(SIG_SETMASK, &before, nullptr);
        close(pipe[0]);
        if (pid < 0) {
            close(pipe[1]);
            munmap(memory, sizeof(Watch));
            return std::nullopt;
        }
        if (!faults.outlives) prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        watch = seen;
        return std::nullopt;
    }
    close(pipe[1]);
    child_pid = faults.deaf ? 0 : pid;
    ChildEnd end;
    {
        const PassingOn passing;
        sigprocmask(SIG_SETMASK, &before, nullptr);
        end = wait_for(pid, pipe[0], *seen, stall_s, faults, limit_s);
    }
    close(pipe[0]);
    munmap(memory, sizeof(Watch));
    return end;
}

}  // namespace polter::replay
