// SPDX-License-Identifier: BSD-3-Clause
// Processes that share a CPU with what is measured.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "daemon_fixture.hpp"

constexpr std::uint64_t ms = 1'000'000;

inline int last_cpu() {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    int last = 0;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set)) last = i;
    return last;
}
inline const int cpu = last_cpu();  // of this process before it pins anything

inline void pin(int to) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(to), &set);
    sched_setaffinity(0, sizeof set, &set);
}

inline void spin(std::uint64_t ns) {
    for (const std::uint64_t end = monotonic_ns() + ns; monotonic_ns() < end;) {
    }
}

// What the hypervisor has taken from the test's CPU, by the kernel's books: whole ticks.
inline std::uint64_t booked_steal() {
    std::ifstream file("/proc/stat");
    const std::string label = "cpu" + std::to_string(cpu);
    const std::uint64_t tick = 1'000'000'000u / static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string name;
        std::uint64_t ticks = 0;
        words >> name;
        for (int i = 0; i < 8; i++) words >> ticks;
        if (name == label) return ticks * tick;
    }
    return 0;
}

// Does something again and again, and is killed at the end.
class Child {
  public:
    Child(const char* name, const std::function<void()>& body) {
        pid_ = fork();
        if (pid_ != 0) return;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, name);
        for (;;) body();
    }
    ~Child() {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    Child(const Child&) = delete;
    // Nanoseconds that it has run: all of them in place of a thread on the same CPU that never sleeps.
    std::uint64_t ran() const {
        clockid_t clock;
        timespec t{};
        if (clock_getcpuclockid(pid_, &clock) == 0) clock_gettime(clock, &t);
        return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
    }
    // For measure(): it has run so much longer.
    std::function<bool()> runs(std::uint64_t ns) const {
        return [this, until = ran() + ns] { return ran() > until; };
    }

  private:
    pid_t pid_;
};

// Pinned to the CPU, it computes for `busy` and sleeps for `idle`, in turn; `first` is done once before.
class Competitor : public Child {
  public:
    Competitor(const char* name, std::uint64_t busy, std::uint64_t idle, const std::function<void()>& first = {})
        : Child(name, [=, begun = false]() mutable {
              if (!begun) {
                  begun = true;
                  pin(cpu);
                  if (first) first();
              }
              spin(busy);
              const timespec t{0, static_cast<long>(idle)};
              if (idle) nanosleep(&t, nullptr);
          }) {}
};
