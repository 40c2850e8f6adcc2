// SPDX-License-Identifier: BSD-3-Clause
// From the traces of a quiet and an injected run to one pair of the experiment.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "analyzers/inject/alongside.hpp"
#include "analyzers/samples/statistics.hpp"
#include "replay/replay.hpp"
#include "replay/what_if.hpp"
#include "validate.hpp"

namespace polter::validation {

namespace fs = std::filesystem;

namespace {

const std::set<std::string> injector = {"polter-inject", "polter-watch"};
const replay::Scenario the_injector = {{"preempt", injector, {}}, {"runqueue", injector, {}}};
const replay::Scenario timers = {{"timer", {}, {}}};

replay::Scenario operator+(replay::Scenario a, const replay::Scenario& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

// The machine's own noise but for timer interrupts: a timer wakes the injector too, and the trace cannot tell its interrupts from others.
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

// One run, and by how much it were shorter without parts of its noise.
struct Replayed {
    replay::Result result;
    int64_t program_ns = 0;  // without MPI_Init
    int64_t without_own = 0, without_own_timers = 0, without_timers = 0, without_injector_timers = 0, without_all = 0;
};

Replayed replay_run(const fs::path& trace) {
    replay::Options options;
    options.trace = trace;
    Replayed out;
    out.result = replay::replay(options, [&](const replay::Result& result, replay::WhatIfs& what_ifs) {
        const auto own = own_noise(result);
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

template <class Change>
inject::Log with_durations(inject::Log log, const Change& change) {
    for (auto& source : log.sources)
        for (auto& event : source.events) event.duration_ns = change(event.duration_ns);
    return log;
}

double load_of(const inject::Log& log, const Replayed& injected) {
    int64_t sum = 0;
    for (const auto& source : log.sources)
        for (const auto& event : source.events) sum += event.duration_ns;
    return static_cast<double>(sum) / static_cast<double>(injected.result.ranks) / static_cast<double>(injected.program_ns);
}

int64_t median_or_0(const std::vector<int64_t>& values) {
    return values.empty() ? 0 : samples::median(values);
}

}  // namespace

Pair judge_pair(const std::string& quiet_at, const std::string& injected_at, const std::string& folder, CaseResult& result) {
    const std::string log_file = fs::path(injected_at) / inject::log_name;
    inject::Log log = inject::read_log(log_file);
    const Replayed quiet = replay_run(quiet_at), injected = replay_run(injected_at);
    const Found found = match_log(log_file, injected_at);
    result.found.add(found);
    Pair pair;
    pair.measured_quiet = quiet.program_ns;
    pair.measured_injected = injected.program_ns;
    pair.machine_noise = quiet.result.accumulated_noise_ns;
    pair.load = load_of(log, injected);
    pair.quiet = quiet.without_own;
    pair.injected = injected.without_own;
    // Without timer interrupts on both sides, and then with those of the quiet run.
    pair.estimated = injected.without_all + (quiet.without_own - quiet.without_own_timers);
    pair.estimated_with_own = injected.without_injector_timers + (quiet.program_ns - quiet.without_timers);
    // Noise begins at the same moment of the program, however long MPI_Init took.
    log.origin_ns += injected.result.init_ns - quiet.result.init_ns;
    const int64_t cost = result.event_cost.ns;
    const int64_t hidden = std::max<int64_t>(0, cost - median_or_0(found.longer_ns) - median_or_0(found.woken_ns));
    const auto added = [&](const auto& change) { return added_by(with_durations(log, change), quiet_at, folder); };
    const int64_t by_log = added([](int64_t duration) { return duration; }),
                  whole = added([&](int64_t duration) { return duration + cost; });
    pair.predicted = pair.quiet + whole;
    pair.predicted_by_log = pair.quiet + by_log;
    pair.hidden = whole - added([&](int64_t duration) { return duration + cost - hidden; });
    return pair;
}

}  // namespace polter::validation
