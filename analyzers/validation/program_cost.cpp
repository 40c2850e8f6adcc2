// SPDX-License-Identifier: BSD-3-Clause
#include "program_cost.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "analyzers/samples/statistics.hpp"

namespace polter::validation {

namespace {

constexpr int64_t least_work_ns = 100'000;  // shorter work is not known well enough
constexpr size_t nearby = 6;                // pieces before and behind that tell the runs' speeds
constexpr size_t least_pieces = 50;

struct Work {
    int64_t length = 0, noise = 0;  // length: with noise
    uint32_t events = 0, timers = 0;
    double without() const { return static_cast<double>(length - noise); }
};

Work work_after(const std::vector<Call>& calls, size_t call) {
    const Call& before = calls[call];
    return {calls[call + 1].time - before.left, before.noise_ns, before.events, before.timers};
}

// Second run's time for the first run's, about there; 0: not known.
double speed_near(const std::vector<std::pair<Work, Work>>& works, const std::vector<size_t>& clean, size_t at) {
    const auto behind = static_cast<size_t>(std::lower_bound(clean.begin(), clean.end(), at) - clean.begin());
    std::vector<double> ratios;
    for (size_t k = behind > nearby ? behind - nearby : 0; k < std::min(clean.size(), behind + nearby); ++k)
        ratios.push_back(works[clean[k]].second.without() / works[clean[k]].first.without());
    if (ratios.size() < nearby) return 0;
    std::sort(ratios.begin(), ratios.end());
    return samples::quantile(ratios, 0.5);
}

// Without the shortest and longest twentieth, as the loop's.
int64_t trimmed_mean(std::vector<int64_t> values) {
    std::sort(values.begin(), values.end());
    const size_t cut = values.size() / 20;
    double sum = 0;
    for (size_t i = cut; i < values.size() - cut; ++i) sum += static_cast<double>(values[i]);
    return std::llround(sum / static_cast<double>(values.size() - 2 * cut));
}

}  // namespace

std::vector<int64_t> hidden_in_work(const std::vector<Call>& first, const std::vector<Call>& second) {
    std::vector<std::pair<Work, Work>> works;
    std::vector<size_t> clean;
    for (const Point& point : common_points(first, second)) {
        if (!point.same || first[point.first].polled || second[point.second].polled) continue;
        if (point.first + 1 >= first.size() || point.second + 1 >= second.size()) continue;
        const Work a = work_after(first, point.first), b = work_after(second, point.second);
        if (std::min(a.without(), b.without()) < static_cast<double>(least_work_ns)) continue;
        if (a.events + b.events + a.timers + b.timers == 0) clean.push_back(works.size());
        works.emplace_back(a, b);
    }
    std::vector<int64_t> hidden;
    for (size_t i = 0; i < works.size(); ++i) {
        const auto& [a, b] = works[i];
        const bool in_first = a.events == 1 && b.events == 0 && a.timers == b.timers + 1;
        const bool in_second = b.events == 1 && a.events == 0 && b.timers == a.timers + 1;
        if (!in_first && !in_second) continue;
        const double speed = speed_near(works, clean, i);
        if (speed <= 0) continue;
        hidden.push_back(std::llround(in_first ? a.without() - b.without() / speed : b.without() - a.without() * speed));
    }
    return hidden;
}

EventCost with_program(EventCost loop, const std::map<int32_t, std::vector<int64_t>>& hidden) {
    for (const auto& [cpu, values] : hidden) {
        if (values.size() < least_pieces) continue;
        CpuCost cost = loop.of(cpu);
        const int64_t measured = std::max<int64_t>(0, trimmed_mean(values));
        cost.beyond += measured - cost.hidden;
        cost.hidden = measured;
        cost.events = values.size();
        loop.cpus[cpu] = cost;
    }
    return loop;
}

}  // namespace polter::validation
