// SPDX-License-Identifier: BSD-3-Clause
// The method of the paper: thresholds of groups, impact, interference; and the same measured against the fastest run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "interference.hpp"
#include "mutations.hpp"
#include "replay/base/error.hpp"

namespace polter::interference {

double probability_of(double percent) {
    return 1 / (1 + std::exp(-steepness * (percent - inflection)));
}

std::string class_of(double percent) {
    return percent < low_below ? "low" : percent > high_above ? "high" : "medium";
}

double accuracy_of(double measured, double estimated) {
    return 1 - std::abs(probability_of(measured) - probability_of(estimated));
}

namespace {

std::vector<double> durations(const Run& run, const std::vector<size_t>& members) {
    std::vector<double> list;
    for (const size_t i : members) list.push_back(static_cast<double>(run.segments[i].duration));
    return list;
}

void take_means(GroupTimes& group, const std::vector<double>& times) {  // a mutation
    const auto n = static_cast<double>(times.size());
    group.median_ns = group.mad_ns = 0;
    for (const double time : times) group.median_ns += time / n;
    for (const double time : times) group.mad_ns += (time - group.median_ns) * (time - group.median_ns) / n;
    group.mad_ns = std::sqrt(group.mad_ns);
}

// Interference of blocks of consecutive segments, resampled. A block has pairs: impact, duration.
samples::Interval interval_of(const Run& run, const std::vector<double>& impact) {
    const size_t n = run.segments.size(), length = std::max<size_t>(1, static_cast<size_t>(std::sqrt(static_cast<double>(n))));
    samples::Blocks blocks;
    for (size_t i = 0; i < n; ++i) {
        if (i % length == 0) blocks.emplace_back();
        blocks.back().push_back(impact[i]);
        blocks.back().push_back(static_cast<double>(run.segments[i].duration));
    }
    const auto percent = [](const std::vector<double>& pairs) {
        double over = 0, all = 0;
        for (size_t i = 0; i < pairs.size(); i += 2) {
            over += pairs[i];
            all += pairs[i + 1];
        }
        return all > 0 ? 100 * over / all : 0;
    };
    constexpr uint64_t seed = 1;
    constexpr size_t resamples = 400;
    return samples::bootstrap(blocks, percent, seed, resamples);
}

void add_warnings(const Run& run, Estimate& estimate) {
    const auto total = static_cast<double>(run.total());
    const auto warn = [&](const std::string& text) { estimate.warnings.push_back(text); };
    if (estimate.rate_hz > highest_rate_hz)
        warn(
            fmt::format("{:.0f} collectives a second end segments: above {:.0f}, segments are so short that small disturbances look like "
                        "interference, and the estimate cannot be trusted; compare several runs",
                        estimate.rate_hz, highest_rate_hz));
    if (static_cast<double>(estimate.unused_ns) > 0.1 * total)
        warn(fmt::format("{:.0f} % of the time ({} segments) is in groups of fewer than {} segments: nothing can be said about it",
                         100 * static_cast<double>(estimate.unused_ns) / total, estimate.unused_segments, least_members));
    if (run.counter.empty())
        warn(
            "the trace has no counter of floating-point operations or instructions: segments are told apart by what they communicate and "
            "which functions they call, and those that compute differently count as interference; if the processor has such counters, "
            "record with --papi PAPI_FP_OPS or --papi PAPI_TOT_INS");
    double wide = 0;
    for (const GroupTimes& group : estimate.groups)
        if (group.mad_ns > 0.1 * group.median_ns) wide += group.median_ns * static_cast<double>(group.group.members.size());
    if (wide > 0.1 * total)
        warn(
            "the segments of some groups differ widely (MAD above 10 % of the median): either they do not do the same, or nearly half of "
            "them were hit; the estimate is too low where more than half were");
    if (run.before + run.after > run.total() / 2)
        warn(fmt::format("only {:.0f} % of the run lies between its blocking collectives of all ranks; the rest is not judged",
                         100 * total / (total + static_cast<double>(run.before + run.after))));
}

}  // namespace

Estimate estimate(const Run& run) {
    Estimate result;
    const auto total = static_cast<double>(run.total());
    if (total <= 0)
        throw replay::InputError(run.trace +
                                 ": all segments have the length 0; the trace's clock did not move, so there is nothing to judge");
    std::vector<double> impact(run.segments.size(), 0);
    double over_median = 0;
    for (Group& members : group(run)) {
        GroupTimes group;
        group.group = std::move(members);
        const std::vector<double> times = durations(run, group.group.members);
        group.median_ns = samples::median(times);
        group.mad_ns = samples::mad(times, group.median_ns);
        if (mutated(Mutation::mean_for_median)) take_means(group, times);
        // Equal times, to the clock's resolution, would make the next tick of the clock a hit.
        const double floor = mutated(Mutation::no_resolution) ? 0 : static_cast<double>(run.resolution_ns);
        group.threshold_ns = group.median_ns + deviations * std::max(group.mad_ns, floor);
        const bool used = group.group.used() || mutated(Mutation::small_groups_count);
        for (const size_t i : group.group.members) {
            const Segment& segment = run.segments[i];
            const auto duration = static_cast<double>(segment.duration);
            if (!used) {
                ++result.unused_segments;
                result.unused_ns += segment.duration;
            } else if (duration > group.threshold_ns) {
                Hit hit;
                hit.segment = i;
                hit.group = result.groups.size();
                hit.begin_ns = segment.end - segment.duration;
                hit.duration_ns = segment.duration;
                impact[i] = hit.over_threshold_ns = duration - group.threshold_ns;
                hit.over_median_ns = duration - group.median_ns;
                group.over_threshold_ns += hit.over_threshold_ns;
                group.over_median_ns += hit.over_median_ns;
                ++group.hit;
                result.hits.push_back(std::move(hit));
            }
        }
        result.percent += 100 * group.over_threshold_ns / total;
        over_median += group.over_median_ns;
        result.groups.push_back(std::move(group));
    }
    result.percent_over_median = 100 * over_median / total;
    std::sort(result.hits.begin(), result.hits.end(), [](const Hit& a, const Hit& b) { return a.segment < b.segment; });
    result.interval = interval_of(run, impact);
    result.rate_hz = static_cast<double>(run.segments.size()) / (total * 1e-9);
    add_warnings(run, result);
    return result;
}

Measured measure(const Run& run, const Run& fastest, double estimated_percent) {
    Measured measured;
    double displacement = 0;
    for (const Pairing& pair : group_together(run, fastest))
        displacement +=
            static_cast<double>(pair.a.size()) * (samples::median(durations(run, pair.a)) - samples::median(durations(fastest, pair.b)));
    if (mutated(Mutation::keep_displacement)) displacement = 0;
    measured.displacement_ns = std::llround(displacement);
    const auto total = static_cast<double>(run.total());
    measured.percent = 100 * (total - static_cast<double>(fastest.total()) - displacement) / total;
    measured.accuracy = accuracy_of(measured.percent, estimated_percent);
    return measured;
}

}  // namespace polter::interference
