// SPDX-License-Identifier: BSD-3-Clause
// Limits, and the node's settings.
#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "files.hpp"
#include "finding.hpp"
#include "text.hpp"

namespace polter::doctor {
namespace {

std::string shown(rlim_t value) {
    return value == RLIM_INFINITY ? "unlimited" : fmt::format("{}", value);
}

Finding descriptors() {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    Finding f{"limit", "open files", State::works, fmt::format("{} (at most {})", shown(limit.rlim_cur), shown(limit.rlim_max)), {}};
    // An archive has a file a location: polter raises its own limit to the highest allowed.
    if (limit.rlim_max >= 4096) return f;
    f.state = State::note;
    f.text += ": too few for traces of more threads than that";
    f.mend = "sudo prlimit --pid $$ --nofile=65536:65536";
    return f;
}

Finding locked_memory() {
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    const std::string pool = first_line("/proc/sys/kernel/perf_event_mlock_kb");
    return {
        "limit",
        "locked memory",
        State::works,
        fmt::format("{} bytes a process; perf rings: {} KiB a user and CPU beside it", shown(limit.rlim_cur), pool.empty() ? "?" : pool),
        {}};
}

std::string list_or_none(const std::string& path) {
    const std::string list = first_line(path);
    return list.empty() || list == "(null)" ? "none" : list;
}

Finding clock() {
    const std::string base = "/sys/devices/system/clocksource/clocksource0/";
    const std::string current = first_line(base + "current_clocksource"), available = first_line(base + "available_clocksource");
    std::uint64_t shortest = ~0ull;
    timespec before{}, after{};
    for (int i = 0; i < 1000; i++) {
        clock_gettime(CLOCK_MONOTONIC, &before);
        for (int k = 0; k < 10; k++) clock_gettime(CLOCK_MONOTONIC, &after);
        const auto ns = (after.tv_sec - before.tv_sec) * 1'000'000'000ll + (after.tv_nsec - before.tv_nsec);
        shortest = std::min(shortest, static_cast<std::uint64_t>(std::max(ns, 0ll)));
    }
    Finding f{"kernel", "clock source", State::works, fmt::format("{}: a reading takes {}", current, node::duration(shortest / 10)), {}};
    // By the vDSO it is some tens of nanoseconds; a system call is ten times that.
    if (shortest / 10 < 150) return f;
    f.state = State::note;
    f.text += ", and each MPI call reads it twice";
    if (available.find("tsc") != available.npos && current != "tsc")
        f.mend = fmt::format("echo tsc | sudo tee {}current_clocksource", base);
    return f;
}

Finding watchdog() {
    const bool soft = first_line("/proc/sys/kernel/watchdog") == "1", nmi = first_line("/proc/sys/kernel/nmi_watchdog") == "1";
    Finding f{"kernel", "watchdog", State::works, "off", {}};
    if (!soft && !nmi) return f;
    f.state = State::note;
    f.text = fmt::format("on{}: it interrupts each CPU every few seconds", nmi ? ", by non-maskable interrupts too" : "");
    f.mend = "sudo sysctl kernel.watchdog=0";
    return f;
}

Finding tick() {
    timespec resolution{};
    clock_getres(CLOCK_MONOTONIC_COARSE, &resolution);  // one tick
    const double hz = 1e9 / (static_cast<double>(resolution.tv_sec) * 1e9 + static_cast<double>(std::max(resolution.tv_nsec, 1l)));
    return {
        "kernel",
        "timer tick",
        State::works,
        fmt::format("{:.0f} Hz on a CPU that computes, but for nohz_full CPUs: {}", hz, list_or_none("/sys/devices/system/cpu/nohz_full")),
        {}};
}

Finding governor() {
    const std::string name = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    Finding f{"kernel", "frequency", State::works, name.empty() ? "not the kernel's to change" : name, {}};
    if (name.empty() || name == "performance") return f;
    f.state = State::note;
    f.text += ": changes of the clock frequency stay in the program's time";
    f.mend = "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";
    return f;
}

Finding numa_balancing() {
    Finding f{"kernel", "NUMA balancing", State::works, "off", {}};
    const std::string value = first_line("/proc/sys/kernel/numa_balancing");
    if (value.empty() || value == "0") return f;
    f.state = State::note;
    f.text = "on: it takes pages away to see who uses them, which costs page faults";
    f.mend = "sudo sysctl kernel.numa_balancing=0";
    return f;
}

}  // namespace

Findings limits() {
    return {descriptors(), locked_memory()};
}

Findings kernel() {
    return {clock(),    tick(),           {"kernel", "isolated CPUs", State::works, list_or_none("/sys/devices/system/cpu/isolated"), {}},
            watchdog(), numa_balancing(), governor()};
}

}  // namespace polter::doctor
