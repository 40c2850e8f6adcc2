// SPDX-License-Identifier: BSD-3-Clause
#include "summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "noise.h"

namespace polter::node {

Kind kind_of(unsigned account) {
    switch (account) {
        case ran:
            return Kind::task;
        case POLTER_FAULT:
            return Kind::counted;
        case POLTER_PREEMPT:
        case POLTER_RUNQUEUE:
        case POLTER_THROTTLE:
        case POLTER_PREEMPT_JOB:
        case POLTER_WAKEUP:
            return Kind::wait;
        default:
            return Kind::interruption;
    }
}

const char* name_of(unsigned account) {
    const char* name = account == ran ? "ran" : polter_account_name(account);
    return name ? name : "unknown";
}

std::vector<Source> sources_of(const Observation& observation, std::optional<unsigned> cpu) {
    std::map<unsigned, Source> sources;
    std::map<std::pair<unsigned, std::string>, Stats> culprits;
    for (const auto& entry : observation.entries) {
        if (cpu && entry.cpu != *cpu) continue;
        if (entry.account == ran && entry.idle) continue;
        auto& source = sources[entry.account];
        source.account = entry.account;
        source.all += entry.stats;
        if (entry.idle) source.idle += entry.stats;
        culprits[{entry.account, entry.culprit}] += entry.stats;
    }
    for (const auto& [key, stats] : culprits) {
        std::string name = key.second;
        if (name.empty()) name = "(idle)";  // on whose CPU a task waited for the switch to itself
        sources[key.first].culprits.push_back({std::move(name), stats});
    }
    std::vector<Source> out;
    for (auto& [account, source] : sources) {
        std::sort(source.culprits.begin(), source.culprits.end(), [](const Culprit& a, const Culprit& b) {
            return std::tie(b.stats.total_ns, b.stats.count, a.name) < std::tie(a.stats.total_ns, a.stats.count, b.name);
        });
        out.push_back(std::move(source));
    }
    return out;
}

Times times_of(const Observation& observation, std::optional<unsigned> cpu) {
    Times times;
    for (const auto& c : observation.cpus) {
        if (cpu && c.cpu != *cpu) continue;
        times.wall_ns += c.end_ns - c.begin_ns;
        times.steal_ns += c.steal_ns;
    }
    for (const auto& entry : observation.entries)
        if (entry.account == ran && entry.idle && (!cpu || entry.cpu == *cpu)) times.idle_ns += entry.stats.total_ns;
    return times;
}

Observation between(const Observation& earlier, const Observation& later) {
    Observation part = later;
    std::map<std::tuple<unsigned, unsigned, bool, std::string>, const Stats*> before;
    for (const auto& e : earlier.entries) before[{e.cpu, e.account, e.idle, e.culprit}] = &e.stats;
    for (auto& e : part.entries)
        if (const auto found = before.find({e.cpu, e.account, e.idle, e.culprit}); found != before.end())
            e.stats = e.stats.since(*found->second);
    std::erase_if(part.entries, [](const Entry& e) { return e.stats.count == 0; });
    for (auto& c : part.cpus)
        for (const auto& b : earlier.cpus)
            if (b.cpu == c.cpu) {
                c.begin_ns = b.end_ns;
                c.steal_ns -= b.steal_ns;
            }
    part.events_not_shown -= earlier.events_not_shown;
    part.unbalanced -= earlier.unbalanced;
    part.not_booked -= earlier.not_booked;
    part.not_booked_ns -= earlier.not_booked_ns;
    part.waits_not_followed -= earlier.waits_not_followed;
    return part;
}

std::vector<std::string> warnings_of(const Observation& o) {
    std::vector<std::string> warnings;
    const auto count = [&](std::uint64_t n, const std::string& text) {
        if (n) warnings.push_back(fmt::format("{} {}", n, text));
    };
    count(o.events_not_shown, "events were not shown by the kernel: the sums are too small by what they took");
    count(o.unbalanced, "interruptions began or ended unseen, and are in no sum");
    count(o.not_booked, fmt::format("events ({} ns) found no room in the table of culprits, and are in no sum", o.not_booked_ns));
    count(o.waits_not_followed, "times there was no room to follow another task's waits");
    return warnings;
}

}  // namespace polter::node
