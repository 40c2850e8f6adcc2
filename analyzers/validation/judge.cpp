// SPDX-License-Identifier: BSD-3-Clause
// From pairs of runs to intervals, and from those to a verdict.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzers/samples/statistics.hpp"
#include "validate.hpp"

namespace polter::validation {

namespace {

constexpr size_t resamples = 2000;

int64_t interquartile_range(const std::vector<int64_t>& values) {
    std::vector<double> sorted(values.begin(), values.end());
    std::sort(sorted.begin(), sorted.end());
    return std::llround(samples::quantile(sorted, 0.75) - samples::quantile(sorted, 0.25));
}

template <class Get>
std::vector<int64_t> column(const std::vector<Pair>& pairs, const Get& get) {
    std::vector<int64_t> values;
    for (const Pair& pair : pairs) values.push_back(get(pair));
    return values;
}

bool agrees(int64_t answer, const Interval& truth) {
    const auto allowed = std::llround(tolerance_percent / 100 * static_cast<double>(truth.median));
    return (answer >= truth.low && answer <= truth.high) || std::llabs(answer - truth.median) <= allowed;
}

// Of one median, in percent, signs written: "-1.2 to +2.5".
std::string around(const Interval& one) {
    const auto part = [&](int64_t ns) { return 100 * static_cast<double>(ns - one.median) / static_cast<double>(one.median); };
    return fmt::format("{:+.1f} to {:+.1f} %", part(one.low), part(one.high));
}

// Whether the runs tell an answer that ignored the injected noise from a right one.
std::string why_no_verdict(const CaseResult& result) {
    const bool told_apart = !agrees(result.injected.median, result.quiet) && !agrees(result.quiet.median, result.injected);
    if (result.effect.median > 0 && told_apart) return "";
    return fmt::format(
        "the injected noise costs {:.1f} %, and the runs' medians are known to within {} (quiet) and {} (injected), or 1 %: an answer that "
        "ignored the noise would pass",
        100 * static_cast<double>(result.effect.median) / static_cast<double>(result.quiet.median), around(result.quiet),
        around(result.injected));
}

}  // namespace

Interval median_of(const std::vector<int64_t>& values, uint64_t seed) {
    if (values.empty()) return {};
    samples::Blocks pairs;
    for (const int64_t value : values) pairs.push_back({static_cast<double>(value)});
    const auto interval = samples::bootstrap(
        pairs, [](const std::vector<double>& drawn) { return samples::median(drawn); }, seed, resamples);
    return {samples::median(values), std::llround(interval.low), std::llround(interval.high)};
}

void judge(CaseResult& result, uint64_t seed, const JudgeFaults& faults) {
    const auto& pairs = result.pairs;
    const auto quiet = column(pairs, [](const Pair& p) { return p.quiet; });
    result.quiet = median_of(quiet, seed);
    result.injected = median_of(column(pairs, [](const Pair& p) { return p.injected; }), seed);
    result.effect = median_of(column(pairs, [](const Pair& p) { return p.injected - p.quiet; }), seed);
    result.quiet_spread = interquartile_range(quiet);
    result.machine_noise = samples::median(column(pairs, [](const Pair& p) { return p.machine_noise; }));
    result.beyond = median_of(column(pairs, [](const Pair& p) { return p.cost.mean().beyond; }), seed);
    result.hidden_timer = median_of(column(pairs, [](const Pair& p) { return p.cost.mean().hidden_timer; }), seed);
    result.hidden = median_of(column(pairs, [](const Pair& p) { return p.cost.mean().hidden; }), seed);
    result.hidden_by_loop = median_of(column(pairs, [](const Pair& p) { return p.cost_by_loop.mean().hidden; }), seed);
    result.measured_quiet = median_of(column(pairs, [](const Pair& p) { return p.measured_quiet; }), seed);
    result.measured_injected = median_of(column(pairs, [](const Pair& p) { return p.measured_injected; }), seed);
    result.load = 0;
    for (const Pair& pair : pairs) result.load += pair.load / static_cast<double>(pairs.size());
    const auto answer = [&](int64_t Pair::*said, int64_t Pair::*measured, const Interval& truth) {
        Answer out;
        out.time = median_of(column(pairs, [&](const Pair& p) { return p.*said; }), seed);
        out.error = median_of(column(pairs, [&](const Pair& p) { return p.*said - p.*measured; }), seed);
        out.within = agrees(out.time.median, truth);
        return out;
    };
    result.estimation = answer(&Pair::estimated, &Pair::quiet, result.quiet);
    result.prediction = answer(&Pair::predicted, &Pair::injected, result.injected);
    result.estimation_as_recorded = answer(&Pair::estimated_as_recorded, &Pair::quiet, result.quiet);
    result.estimation_with_own = answer(&Pair::estimated_with_own, &Pair::measured_quiet, result.measured_quiet);
    result.estimation_by_loop = answer(&Pair::estimated_by_loop, &Pair::quiet, result.quiet);
    result.prediction_by_log = answer(&Pair::predicted_by_log, &Pair::injected, result.injected);
    result.no_verdict = faults.always_a_verdict ? "" : why_no_verdict(result);
}

std::string verdict_of(const std::vector<CaseResult>& cases) {
    size_t judged = 0, right = 0, right_as_recorded = 0;
    double worst_estimate = 0, worst_prediction = 0, worst_as_recorded = 0;
    bool hidden = false;
    for (const CaseResult& one : cases) {
        if (!one.no_verdict.empty()) continue;
        ++judged;
        right += one.estimation.within && one.prediction.within;
        right_as_recorded += one.estimation_as_recorded.within;
        hidden = hidden || one.hidden.median > 0;
        const auto part = [](int64_t ns, const Interval& of) {
            return std::fabs(static_cast<double>(ns) / static_cast<double>(of.median));
        };
        worst_estimate = std::max(worst_estimate, part(one.estimation.time.median - one.quiet.median, one.quiet));
        worst_as_recorded = std::max(worst_as_recorded, part(one.estimation_as_recorded.time.median - one.quiet.median, one.quiet));
        worst_prediction = std::max(worst_prediction, part(one.prediction.time.median - one.injected.median, one.injected));
    }
    if (judged == 0)
        return "No verdict: this machine's runs differ by more than the injected noise costs; stop what else runs here, inject more "
               "(--level), or run more pairs (--pairs).";
    const std::string of = judged == cases.size() ? fmt::format("{} cases", judged)
                                                  : fmt::format("{} cases ({} more without a verdict)", judged, cases.size() - judged);
    const std::string records = hidden ? fmt::format(
                                             " From the records alone, with the hidden time still in it, the estimate lies there in {} and "
                                             "is off by at most {:.2f} %.",
                                             right_as_recorded, worst_as_recorded * 100)
                                       : "";
    Found all;
    for (const CaseResult& one : cases) all.add(one.found);
    const auto least = [](uint64_t part, uint64_t whole) {
        return whole == 0 || static_cast<double>(part) >= 0.99 * static_cast<double>(whole);
    };
    const std::string log = !least(all.found, all.logged)
                                ? fmt::format(" The trace lacks {} of {} injected events.", all.logged - all.found, all.logged)
                            : !least(all.recorded - all.invented, all.recorded)
                                ? fmt::format(" The trace has {} interruptions by the injector that it did not log.", all.invented)
                                : "";
    return fmt::format(
        "{}: in {} of {} estimate and prediction lie within the runs' own interval or 1 %; the estimate is off by at most "
        "{:.2f} % of the run time, the prediction by {:.2f} %.{}{}",
        right == judged ? "Correct here"
        : right == 0    ? "Wrong here"
                        : "Partly correct here",
        right, of, worst_estimate * 100, worst_prediction * 100, records, log);
}

}  // namespace polter::validation
