// SPDX-License-Identifier: BSD-3-Clause
#include "scaling_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzers/variability/projection.hpp"
#include "mutations.hpp"

namespace polter::prediction {

namespace {

constexpr size_t least_intervals = 20;

bool of_all(const replay::Programs& programs, const replay::ProgramCollective& collective) {
    return collective.waits == replay::Waits::n_to_n && programs.communicators.at(collective.comm).size() == programs.ranks.size();
}

// Tsafrir's rule for each length: the delay of the slowest of `ranks` is the integral of the probability that it is longer than x.
double expected_longest(const Intervals& intervals, double ranks) {
    double sum = 0, before = 0;
    for (size_t i = 0; i < intervals.noise.size(); ++i) {
        const double p = static_cast<double>(intervals.noise.size() - i) / static_cast<double>(intervals.cells);  // of more than `before`
        sum += (intervals.noise[i] - before) * (1 - std::pow(1 - p, ranks));
        before = intervals.noise[i];
    }
    return sum;
}

}  // namespace

Intervals intervals_of(const replay::Programs& programs) {
    Intervals intervals;
    size_t count = SIZE_MAX;
    std::vector<std::vector<const replay::ProgramCollective*>> ends(programs.ranks.size());
    for (size_t rank = 0; rank < programs.ranks.size(); ++rank) {
        for (const auto& collective : programs.ranks[rank].collectives)
            if (of_all(programs, collective)) ends[rank].push_back(&collective);
        count = std::min(count, ends[rank].size());
    }
    if (count < least_intervals + 1) {
        intervals.why = fmt::format("it is for programs whose ranks all meet in collectives, at least {} times", least_intervals + 1);
        return intervals;
    }
    intervals.longest.assign(count - 1, 0);
    intervals.longest_quiet.assign(count - 1, 0);
    for (size_t rank = 0; rank < programs.ranks.size(); ++rank) {
        const auto& noise = programs.ranks[rank].noise;
        size_t at = 0;
        for (size_t i = 1; i < count; ++i) {
            const auto *before = ends[rank][i - 1], *now = ends[rank][i];
            const auto raise = [](double& most, int64_t ns) { most = std::max(most, static_cast<double>(ns)); };
            raise(intervals.longest[i - 1], now->enter - before->leave);
            raise(intervals.longest_quiet[i - 1], now->approximated_enter - before->approximated_leave);
            while (at < noise.size() && noise[at].end <= before->leave) ++at;
            int64_t hit = 0;
            for (size_t next = at; next < noise.size() && noise[next].begin < now->enter; ++next)
                hit += std::min(noise[next].end, now->enter) - std::max(noise[next].begin, before->leave);
            if (hit > 0) intervals.noise.push_back(static_cast<double>(hit));
            ++intervals.cells;
        }
    }
    std::sort(intervals.noise.begin(), intervals.noise.end());
    return intervals;
}

Method emma(const Intervals& intervals, double measured_ns, double factor) {
    Method method{"EMMA", {}, intervals.why};
    if (!intervals.why.empty()) return method;
    if (mutated(Mutation::emma_unscaled)) factor = 1;
    // What the longest of the ranks' stretches takes with the noise, less what it takes without.
    const auto fitted = [](std::vector<double> longest) {
        std::sort(longest.begin(), longest.end());
        return variability::fit(variability::Method::pwm, longest);
    };
    const variability::Fit noisy = fitted(intervals.longest), quiet = fitted(intervals.longest_quiet);
    for (const auto* fit : {&noisy, &quiet})
        if (!fit->accepted) {
            method.why = "the extreme value distribution does not fit: " + fit->why;
            return method;
        }
    const auto cost = [&](double ranks) {
        const double p = variability::level_of(variability::typical, ranks);
        return noisy.gev.quantile(p) - quiet.gev.quantile(p);
    };
    if (cost(1) > 0)
        method.ns = std::max(0.0, measured_ns * cost(factor) / cost(1));
    else
        method.why = "the longest stretches between collectives are no longer with the noise than without";
    return method;
}

Method tsafrir(const Intervals& intervals, double measured_ns, int64_t measured_ranks, int64_t ranks) {
    Method method{"Tsafrir", {}, intervals.why};
    if (!intervals.why.empty()) return method;
    if (mutated(Mutation::tsafrir_unscaled)) ranks = measured_ranks;
    const double measured = expected_longest(intervals, static_cast<double>(measured_ranks));
    if (measured > 0)
        method.ns = measured_ns * expected_longest(intervals, static_cast<double>(ranks)) / measured;
    else
        method.why = "no noise hit between the collectives";
    return method;
}

}  // namespace polter::prediction
