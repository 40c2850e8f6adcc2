// SPDX-License-Identifier: BSD-3-Clause
// From pairs of runs to intervals, and from those to a verdict.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "validate.hpp"

namespace polter::validation {

namespace {

constexpr size_t resamples = 2000;
constexpr double tolerance = 0.01;  // of the median, where the interval is narrower

int64_t median(std::vector<int64_t> values) {
    std::sort(values.begin(), values.end());
    const size_t n = values.size();
    if (n == 0) return 0;
    return n % 2 ? values[n / 2] : values[n / 2 - 1] + (values[n / 2] - values[n / 2 - 1]) / 2;
}

int64_t interquartile_range(std::vector<int64_t> values) {
    std::sort(values.begin(), values.end());
    const size_t n = values.size();
    return n < 4 ? values.back() - values.front() : values[n - 1 - (n - 1) / 4] - values[(n - 1) / 4];
}

uint64_t draw(uint64_t& state) {
    uint64_t x = state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

template <class Get>
std::vector<int64_t> column(const std::vector<Pair>& pairs, const Get& get) {
    std::vector<int64_t> values;
    for (const Pair& pair : pairs) values.push_back(get(pair));
    return values;
}

bool agrees(int64_t answer, const Interval& truth) {
    const auto allowed = std::llround(tolerance * static_cast<double>(truth.median));
    return (answer >= truth.low && answer <= truth.high) || std::llabs(answer - truth.median) <= allowed;
}

}  // namespace

Interval median_of(const std::vector<int64_t>& values, uint64_t seed) {
    Interval out;
    if (values.empty()) return out;
    out.median = median(values);
    std::vector<int64_t> medians, sample(values.size());
    uint64_t state = seed;
    for (size_t i = 0; i < resamples; ++i) {
        for (int64_t& one : sample) one = values[draw(state) % values.size()];
        medians.push_back(median(sample));
    }
    std::sort(medians.begin(), medians.end());
    out.low = medians[resamples / 40];
    out.high = medians[resamples - 1 - resamples / 40];
    return out;
}

void judge(CaseResult& result, uint64_t seed) {
    const auto& pairs = result.pairs;
    const auto quiet = column(pairs, [](const Pair& p) { return p.quiet; });
    result.quiet = median_of(quiet, seed);
    result.injected = median_of(column(pairs, [](const Pair& p) { return p.injected; }), seed);
    result.effect = median_of(column(pairs, [](const Pair& p) { return p.injected - p.quiet; }), seed);
    result.quiet_spread = interquartile_range(quiet);
    result.machine_noise = median(column(pairs, [](const Pair& p) { return p.machine_noise; }));
    result.estimation.time = median_of(column(pairs, [](const Pair& p) { return p.estimated; }), seed);
    result.estimation.error = median_of(column(pairs, [](const Pair& p) { return p.estimated - p.quiet; }), seed);
    result.estimation.within = agrees(result.estimation.time.median, result.quiet);
    result.prediction.time = median_of(column(pairs, [](const Pair& p) { return p.predicted; }), seed);
    result.prediction.error = median_of(column(pairs, [](const Pair& p) { return p.predicted - p.injected; }), seed);
    result.prediction.within = agrees(result.prediction.time.median, result.injected);
    if (result.effect.median <= 0 || result.quiet_spread > result.effect.median)
        result.no_verdict = fmt::format("the quiet runs differ by {:.1f} ms (half of them), the injected noise costs {:.1f} ms",
                                        static_cast<double>(result.quiet_spread) / 1e6, static_cast<double>(result.effect.median) / 1e6);
}

std::string verdict_of(const std::vector<CaseResult>& cases) {
    size_t judged = 0, right = 0;
    double worst_estimate = 0, worst_prediction = 0;
    for (const CaseResult& one : cases) {
        if (!one.no_verdict.empty()) continue;
        ++judged;
        right += one.estimation.within && one.prediction.within;
        const auto part = [](int64_t ns, const Interval& of) {
            return std::fabs(static_cast<double>(ns) / static_cast<double>(of.median));
        };
        worst_estimate = std::max(worst_estimate, part(one.estimation.time.median - one.quiet.median, one.quiet));
        worst_prediction = std::max(worst_prediction, part(one.prediction.time.median - one.injected.median, one.injected));
    }
    if (judged == 0)
        return "No verdict: this machine's quiet runs differ by more than the injected noise costs; stop what else runs here, or inject "
               "more.";
    const std::string of = judged == cases.size() ? fmt::format("{} cases", judged)
                                                  : fmt::format("{} cases ({} more without a verdict)", judged, cases.size() - judged);
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
        "{:.2f} % of the run time, the prediction by {:.2f} %.{}",
        right == judged ? "Correct here"
        : right == 0    ? "Wrong here"
                        : "Partly correct here",
        right, of, worst_estimate * 100, worst_prediction * 100, log);
}

}  // namespace polter::validation
