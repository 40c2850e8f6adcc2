// SPDX-License-Identifier: BSD-3-Clause
#include "event_cost.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>

#include "analyzers/samples/statistics.hpp"

namespace polter::validation {

namespace {

constexpr size_t most_cpus = 64, most_gaps = 1u << 14;  // a second of a CPU has some thousands
constexpr int64_t shortest_gap_ns = 2'000;              // reading the clock takes less

struct Detours {
    std::atomic<bool> stop;
    std::atomic<size_t> count;
    std::pair<int64_t, int64_t> gaps[most_gaps];
};

int64_t now_ns() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

std::vector<int> allowed_cpus() {
    std::vector<int> cpus;
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    for (int cpu = 0; cpu < CPU_SETSIZE && cpus.size() < most_cpus; ++cpu)
        if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    return cpus;
}

[[noreturn]] void loop(Detours& detours, int cpu, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
    size_t count = 0;
    for (int64_t last = now_ns(); !detours.stop.load(std::memory_order_relaxed) && count < most_gaps;) {
        const int64_t now = now_ns();
        if (now - last > shortest_gap_ns) detours.gaps[count++] = {last, now - last};
        last = now;
    }
    detours.count = count;
    _exit(0);
}

}  // namespace

std::vector<int64_t> beyond_length(const std::vector<std::pair<int64_t, int64_t>>& gaps, const std::vector<inject::Injected>& events) {
    std::vector<int64_t> longer;
    for (const inject::Injected& event : events) {
        const int64_t end = event.begin_ns + event.duration_ns;
        const auto after =
            std::upper_bound(gaps.begin(), gaps.end(), event.begin_ns, [](int64_t at, const auto& gap) { return at < gap.first; });
        if (after == gaps.begin()) continue;
        const auto& [begin, length] = *std::prev(after);
        if (begin + length >= end) longer.push_back(length - event.duration_ns);
    }
    return longer;
}

EventCost measure_event_cost(const std::function<inject::Log(const std::string&)>& inject) {
    const auto cpus = allowed_cpus();
    const size_t bytes = cpus.size() * sizeof(Detours);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) return {};
    auto* detours = static_cast<Detours*>(memory);  // all zero
    std::vector<pid_t> children;
    const pid_t parent = getpid();
    for (size_t i = 0; i < cpus.size(); ++i) {
        const pid_t child = fork();
        if (child == 0) loop(detours[i], cpus[i], parent);
        if (child > 0) children.push_back(child);
    }
    const auto end = [&] {
        for (size_t i = 0; i < cpus.size(); ++i) detours[i].stop = true;
        for (const pid_t child : children) waitpid(child, nullptr, 0);
    };
    EventCost cost;
    try {
        const inject::Log log = inject(fmt::format("periodic,period=5ms,duration=200us,cpus={}", fmt::join(cpus, "+")));
        end();
        std::vector<int64_t> longer;
        for (size_t i = 0; i < cpus.size(); ++i) {
            std::vector<inject::Injected> events;
            for (const auto& event : log.sources.at(0).events)
                if (event.cpu == cpus[i]) events.push_back(event);
            const auto more = beyond_length({detours[i].gaps, detours[i].gaps + detours[i].count}, events);
            longer.insert(longer.end(), more.begin(), more.end());
        }
        cost = {longer.empty() ? 0 : samples::median(longer), longer.size()};
    } catch (...) {
        end();
        munmap(memory, bytes);
        throw;
    }
    munmap(memory, bytes);
    return cost;
}

}  // namespace polter::validation
