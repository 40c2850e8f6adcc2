// SPDX-License-Identifier: BSD-3-Clause
// The invariants of the replay, as questions about one trace. Each is asked of a replay that is right and of one with a fault built in.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "random_program.hpp"
#include "replay/testing.hpp"

namespace polter::test {

struct Violations {
    int64_t identity = 0, causality = 0, monotonicity = 0, bounds = 0, additivity = 0, margins = 0;
    int64_t causality_of_low = 0;  // of `causality`: in the lane of the lower bound
};

struct Observed {
    replay::Result result;
    Violations violations;
    std::vector<std::pair<int64_t, std::vector<int64_t>>> ends;  // by rank: last measured time, delays
};

inline Observed observe(const std::string& trace, const std::vector<Program::Order>& orders, replay::Faults faults = {},
                        std::optional<std::vector<std::string>> remove = std::nullopt, bool reverse_order = false, bool calls_only = false,
                        const std::string& use_model = {}) {
    Observed observed;
    Violations& violations = observed.violations;
    std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> at;    // rank, measured → delays
    std::map<int64_t, std::pair<int64_t, std::vector<int64_t>>> last;  // by rank
    std::map<uint32_t, std::pair<int64_t, std::vector<int64_t>>> of_thread;
    std::vector<uint64_t> sets;
    size_t low = 0, high = 0, all = 0;
    replay::Hooks hooks;
    hooks.faults = faults;
    hooks.reverse_order = reverse_order;
    hooks.observer = [&](const replay::Scenarios& scenarios, const replay::Thread& thread, int64_t time, const int64_t* delay) {
        const replay::Lanes& lanes = scenarios.lanes();
        if (sets.empty()) {
            sets = scenarios.lane_sets();
            low = lanes.low;
            high = lanes.high;
            all = scenarios.all();
        }
        const bool call = thread.in_call ? thread.depth == 0 && time == thread.enter : thread.has_mpi && time == thread.leave;
        if (calls_only && !call) return;
        std::vector<int64_t> now(delay, delay + lanes.count);
        if (now[0] != 0) ++violations.identity;
        if (now[low] < now[all] || now[all] < now[high]) ++violations.bounds;
        for (size_t s = 0; s < lanes.estimates; ++s)
            for (size_t t = 0; t < lanes.estimates; ++t)
                if ((sets[s] & ~sets[t]) == 0 && now[s] > now[t]) ++violations.monotonicity;
        if (const auto before = of_thread.find(thread.index); before != of_thread.end())
            for (size_t lane = 0; lane < lanes.count; ++lane)
                if (time - now[lane] < before->second.first - before->second.second[lane]) {
                    ++violations.causality;
                    if (lanes.bounded() && lane == low) ++violations.causality_of_low;
                }
        of_thread[thread.index] = last[thread.rank] = {time, now};
        at[{thread.rank, time}] = std::move(now);
    };
    replay::Options options;
    options.trace = trace;
    options.remove = remove;
    options.use_model = use_model;
    observed.result = replay::replay_with(options, hooks);
    for (const Program::Order& order : orders) {
        const auto first = at.find({static_cast<int64_t>(order.first_rank), order.first});
        const auto second = at.find({static_cast<int64_t>(order.second_rank), order.second});
        if (first == at.end() || second == at.end()) {
            ++violations.causality;  // an event that the replay never came to
            continue;
        }
        for (size_t lane = 0; lane < first->second.size(); ++lane) {
            const int64_t distance = (order.second - second->second[lane]) - (order.first - first->second[lane]);
            if (distance >= std::min<int64_t>(0, order.second - order.first)) continue;
            ++violations.causality;
            if (low != all && lane == low) ++violations.causality_of_low;
        }
    }
    int64_t sum = 0;
    for (const auto& source : observed.result.sources) sum += source.share_ns;
    if (sum != observed.result.accumulated_noise_ns) ++violations.additivity;
    for (const auto& rank : observed.result.per_rank) {
        sum = 0;
        for (const auto& [name, source] : rank.sources) sum += source.share_ns;
        if (sum != rank.accumulated_noise_ns) ++violations.additivity;
    }
    std::map<std::string, int64_t> paid;
    for (const auto& row : observed.result.attribution.rows) paid[row.source] += row.ns;
    for (const auto& source : observed.result.sources)
        if (paid[source.name] != source.share_ns) ++violations.margins;
    for (auto& [rank, end] : last) observed.ends.push_back(end);
    return observed;
}

// Of any archive: noise that is recorded behind a user region may have hit before it, so only calls are held to the order of time.
inline Observed observe_calls(const std::string& trace) {
    return observe(trace, {}, {}, std::nullopt, false, true);
}

}  // namespace polter::test
