// SPDX-License-Identifier: BSD-3-Clause
// From the traces of a quiet and an injected run to one pair of the experiment.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <set>

#include "analyzers/inject/alongside.hpp"
#include "removals.hpp"
#include "replay/replay.hpp"
#include "replay/what_if.hpp"
#include "validate.hpp"

namespace polter::validation {

namespace fs = std::filesystem;

namespace {

// One run, and by how much it were shorter without parts of its noise.
struct Replayed {
    replay::Result result;
    int64_t program_ns = 0;  // without MPI_Init
    int64_t without_own = 0, without_own_timers = 0, without_timers = 0, without_injector_timers = 0, without_all = 0;
};

Replayed replay_run(const fs::path& trace, const PairFaults& faults) {
    replay::Options options;
    options.trace = trace;
    Replayed out;
    out.result = replay::replay(options, [&](const replay::Result& result, replay::WhatIfs& what_ifs) {
        const auto own = faults.own_noise_stays ? replay::Scenario() : own_noise(result);
        const auto timers = faults.timers_stay ? replay::Scenario() : timer_interrupts;
        const auto saved = what_ifs.savings({own, own + timers, timers, the_injector + timers, the_injector + own + timers});
        out.program_ns = result.measured_ns - result.init_ns;
        out.without_own = out.program_ns - saved[0];
        out.without_own_timers = out.program_ns - saved[1];
        out.without_timers = out.program_ns - saved[2];
        out.without_injector_timers = out.program_ns - saved[3];
        out.without_all = out.program_ns - saved[4];
    });
    return out;
}

// Without timer interrupts on both sides, and then with those of the quiet run.
int64_t estimate(const Replayed& quiet, const Replayed& injected) {
    return injected.without_all + (quiet.without_own - quiet.without_own_timers);
}

int64_t added_by(const inject::Log& log, const fs::path& quiet, const fs::path& folder) {
    const fs::path file = folder / ("polter-predicted-" + std::to_string(getpid()) + ".json");
    inject::write_log(log, file);
    replay::Options options;
    options.trace = quiet;
    options.inject = file;
    const int64_t added = replay::replay(options).injected->added_ns;
    fs::remove(file);
    return added;
}

// What the events cost the injected run that no record has. Where they ended, as much noise is added to that run as they hid: what the
// next nanosecond costs there is what the last one did. Once more, with the events moved by what was added before them.
int64_t hidden_cost(inject::Log log, const EventCost& cost, const fs::path& injected, const fs::path& folder) {
    int64_t first = INT64_MAX, last = INT64_MIN, added = 0;
    if (!only_hidden(log, cost)) return 0;
    for (const auto& source : log.sources)
        for (const auto& event : source.events) {
            first = std::min(first, event.begin_ns);
            last = std::max(last, event.begin_ns);
        }
    for (int round = 0; round < 2; ++round) {
        inject::Log moved = log;
        const double each = last > first ? static_cast<double>(added) / static_cast<double>(last - first) : 0;
        for (auto& source : moved.sources)
            for (auto& event : source.events) event.begin_ns += std::llround(each * static_cast<double>(event.begin_ns - first));
        added = added_by(moved, injected, folder);
    }
    return added;
}

double load_of(const inject::Log& log, const Replayed& injected) {
    int64_t sum = 0;
    for (const auto& source : log.sources)
        for (const auto& event : source.events) sum += event.duration_ns;
    return static_cast<double>(sum) / static_cast<double>(injected.result.ranks) / static_cast<double>(injected.program_ns);
}

}  // namespace

inject::Log with_cost(inject::Log log, const EventCost& cost) {
    for (auto& source : log.sources)
        for (auto& event : source.events) event.duration_ns += cost.of(event.cpu).beyond;
    return log;
}

bool only_hidden(inject::Log& log, const EventCost& cost) {
    bool hidden = false;
    for (auto& source : log.sources)
        for (auto& event : source.events) {
            event.begin_ns += event.duration_ns;
            event.duration_ns = cost.of(event.cpu).hidden;
            hidden = hidden || event.duration_ns > 0;
        }
    return hidden;
}

replay::Scenario own_noise(const replay::Result& result) {
    replay::Scenario own;
    for (const auto& source : result.sources) {
        if (source.name == "timer") continue;
        if (source.name != "preempt" && source.name != "runqueue") {
            own.push_back({source.name, {}, {}});
            continue;
        }
        std::set<std::string> culprits;
        for (const auto& one : result.culprits)
            if (one.source == source.name && !injector.contains(one.culprit)) culprits.insert(one.culprit);
        if (!culprits.empty()) own.push_back({source.name, culprits, {}});
    }
    return own;
}

Pair judge_pair(const std::string& quiet_at, const std::string& injected_at, const std::string& folder, const EventCost& cost, Found& found,
                const PairFaults& faults) {
    const std::string log_file = fs::path(injected_at) / inject::log_name;
    inject::Log log = inject::read_log(log_file);
    const Replayed quiet = replay_run(quiet_at, faults), injected = replay_run(injected_at, faults);
    found.add(match_log(log_file, injected_at));
    Pair pair;
    pair.cost = pair.cost_by_loop = cost;
    pair.measured_quiet = quiet.program_ns;
    pair.measured_injected = injected.program_ns;
    pair.machine_noise = quiet.result.accumulated_noise_ns;
    pair.load = load_of(log, injected);
    pair.quiet = quiet.without_own;
    pair.injected = injected.without_own;
    const int64_t hidden = faults.records_alone ? 0 : hidden_cost(log, cost, injected_at, folder);
    pair.estimated_as_recorded = estimate(quiet, injected);
    pair.estimated = pair.estimated_by_loop = pair.estimated_as_recorded - hidden;
    pair.estimated_with_own = injected.without_injector_timers + (quiet.program_ns - quiet.without_timers) - hidden;
    // Noise begins at the same moment of the program, however long MPI_Init took.
    if (!faults.log_unmoved) log.origin_ns += injected.result.init_ns - quiet.result.init_ns;
    pair.predicted = pair.quiet + added_by(faults.log_alone ? log : with_cost(log, cost), quiet_at, folder);
    pair.predicted_by_log = pair.quiet + added_by(log, quiet_at, folder);
    return pair;
}

}  // namespace polter::validation
