// SPDX-License-Identifier: BSD-3-Clause
// Of each kind of interval: its parts, its fits, and what is projected from it. Start reading here.
#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <map>
#include <numeric>

#include "mutations.hpp"
#include "replay/base/error.hpp"
#include "variability.hpp"

namespace polter::variability {

namespace {

double mean_of(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double covariance(const std::vector<double>& a, const std::vector<double>& b) {
    const double of_a = mean_of(a), of_b = mean_of(b);
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - of_a) * (b[i] - of_b);
    return sum / static_cast<double>(a.size());
}

std::vector<double> sum_of(std::vector<double> a, const std::vector<double>& b, double sign = 1) {
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) a[i] += sign * b[i];
    return a;
}

// An interval is its work and the barrier; what it would be shorter by without OS noise is that noise's.
void split(Kind& kind) {
    const Intervals& of = kind.intervals;
    const std::vector<double> length = sum_of(of.work, of.barrier);
    kind.mean = mean_of(length);
    const double variance = covariance(length, length);
    kind.deviation = std::sqrt(variance);
    const auto add = [&](const char* name, const std::vector<double>& values) {
        if (!values.empty()) kind.parts.push_back({name, mean_of(values), variance > 0 ? covariance(values, length) / variance : 0});
    };
    if (of.without_work.empty()) {
        add("barrier", of.barrier);
        add("work", of.work);
        return;
    }
    add("OS noise", sum_of(sum_of(length, of.without_work, -1), of.without_barrier, -1));
    add("barrier", of.without_barrier);
    add("work", of.without_work);
}

std::string type_of(const Parametric& of) {
    if (!of.of_sample.accepted || !of.shape_interval) return "none";
    return of.shape_interval->high < 0 ? "Frechet" : of.shape_interval->low > 0 ? "Weibull" : "Gumbel";
}

// One rank that arrives last far more often than chance makes any of them.
void check_slowest(Kind& kind, int64_t ranks) {
    std::map<int32_t, size_t> times;
    for (const int32_t rank : kind.intervals.slowest) ++times[rank];
    if (times.empty() || ranks < 2 || mutated(Mutation::any_rank_last)) return;
    const auto most = std::max_element(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    const auto n = static_cast<double>(kind.intervals.slowest.size()), p = 1 / static_cast<double>(ranks);
    const boost::math::binomial_distribution<double> chance(n, p);
    const auto count = static_cast<double>(most->second);
    const double by_chance = boost::math::cdf(boost::math::complement(chance, count - 1)) * static_cast<double>(ranks);
    if (by_chance < 0.001 && count > 4 * n * p && count > 0.05 * n)
        kind.warnings.push_back(
            fmt::format("rank {} arrives last in {:.0f} % of the intervals: the projection takes for granted that of every {} ranks one is "
                        "like it; where "
                        "it is the only one (a slow node, more work), the projected lengths are too long",
                        most->first, 100 * count / n, ranks));
}

void check_stationary(Kind& kind) {
    if (mutated(Mutation::always_the_same)) return;
    std::vector<double> first = kind.intervals.work, second;
    second.assign(first.begin() + static_cast<std::ptrdiff_t>(first.size() / 2), first.end());
    first.resize(first.size() / 2);
    std::sort(first.begin(), first.end());
    std::sort(second.begin(), second.end());
    constexpr double level = 0.999;
    if (samples::ks_distance(first, second) >
        samples::ks_critical(static_cast<double>(first.size()), static_cast<double>(second.size()), level))
        kind.warnings.push_back(
            "the first half of the intervals differs from the second: the run was not the same all the time, and no interval holds for "
            "another run; measure longer, or "
            "leave out what differs");
}

Kind analyze_kind(const Intervals& intervals, const Measured& measured, const std::vector<int64_t>& ranks, const Options& options) {
    Kind kind;
    kind.intervals = intervals;
    split(kind);
    std::vector<double> sorted = intervals.work, without = intervals.without_work;
    std::sort(sorted.begin(), sorted.end());
    std::sort(without.begin(), without.end());
    kind.independent = independent_of(intervals.work, typical);
    for (const int64_t wanted : ranks) {
        Projection projection;
        projection.ranks = wanted;
        const double factor = static_cast<double>(wanted) / static_cast<double>(measured.ranks), q = level_of(typical, factor);
        const double independent = independent_of(intervals.work, q);
        projection.typical = project_typical(sorted, factor, independent);
        projection.next = project_next(sorted, factor, independent);
        projection.mean = mean_of_maxima(sorted, factor);
        if (!without.empty()) projection.typical_without = project_typical(without, factor, independent_of(intervals.without_work, q));
        for (const Method method : {Method::pwm, Method::mom})
            projection.parametric.push_back(project_parametric(method, sorted, factor, options.seed, options.resamples));
        projection.resampled = resampled_maxima(sorted, factor, options.seed, options.resamples);
        kind.projections.push_back(std::move(projection));
    }
    for (const Parametric& parametric : kind.projections.front().parametric) {
        kind.fits.push_back(parametric.of_sample);
        kind.types.push_back(type_of(parametric));
    }
    kind.agree = kind.types[0] == kind.types[1] && kind.types[0] != "none";
    const auto n = static_cast<double>(sorted.size());
    if (kind.independent < 0.9 * n)
        kind.warnings.push_back(fmt::format(
            "consecutive intervals are alike: {:.0f} of them say as much as {:.0f} independent ones; the intervals are widened for that", n,
            kind.independent));
    check_stationary(kind);
    check_slowest(kind, measured.ranks);
    if (intervals.exchanges)
        kind.warnings.push_back(
            "ranks communicate within the interval, so how long one works depends on its neighbours: the projection holds as far as what "
            "is added depends on what is "
            "there no more than parts of the measured machine do on each other");
    return kind;
}

Check check_of(const Options& options, const Measured& larger, const Result& result) {
    const Kind& kind = result.kinds.front();
    const auto projection =
        std::find_if(kind.projections.begin(), kind.projections.end(), [&](const Projection& one) { return one.ranks == larger.ranks; });
    if (larger.intervals.empty())
        throw replay::InputError(
            fmt::format("{}: has fewer than {} intervals of any kind; there is nothing to check against", options.check, least_maxima));
    Check check;
    check.input = options.check;
    check.ranks = larger.ranks;
    std::vector<double> work = larger.intervals.front().work;
    std::sort(work.begin(), work.end());
    check.intervals = work.size();
    check.typical = project_typical(work, 1, static_cast<double>(work.size())).value;
    const auto inside = [](const samples::Interval& interval, double value) { return interval.low <= value && value <= interval.high; };
    if (const auto& interval = projection->typical.interval) check.typical_inside = inside(*interval, check.typical);
    if (const auto& interval = projection->next.interval) {
        const auto count = std::count_if(work.begin(), work.end(), [&](double value) { return inside(*interval, value); });
        check.inside = static_cast<double>(count) / static_cast<double>(work.size());
    }
    return check;
}

std::vector<int64_t> ranks_of(const Options& options, int64_t measured) {
    std::vector<int64_t> ranks = options.ranks;
    if (ranks.empty())
        for (const int64_t factor : {2, 4, 8, 16}) ranks.push_back(measured * factor);
    for (const int64_t wanted : ranks)
        if (wanted < measured)
            throw replay::InputError(fmt::format("the input has {} ranks: it can be projected to more, not to {}", measured, wanted));
    ranks.push_back(measured);
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return ranks;
}

}  // namespace

Result analyze(Measured measured, const Options& options) {
    Result result;
    result.seed = options.seed;
    std::vector<int64_t> ranks = ranks_of(options, measured.ranks);
    std::optional<Measured> larger;
    if (!options.check.empty()) {
        larger = read(options.check, false);
        Options asked = options;
        asked.ranks = std::move(ranks);
        asked.ranks.push_back(larger->ranks);
        ranks = ranks_of(asked, measured.ranks);
    }
    for (const Intervals& intervals : measured.intervals)
        if (intervals.work.size() >= least_maxima) result.kinds.push_back(analyze_kind(intervals, measured, ranks, options));
    if (result.kinds.empty())
        throw replay::InputError(
            fmt::format("{}: has no {} intervals that do the same; record a longer run", measured.input, least_maxima));
    if (measured.left_out_ns > 0.1 * measured.total_ns)
        result.warnings.push_back(fmt::format("{:.0f} % of the time is in kinds of fewer than {} intervals: nothing is said about it",
                                              100 * measured.left_out_ns / measured.total_ns, least_maxima));
    result.measured = std::move(measured);
    if (larger) result.check = check_of(options, *larger, result);
    return result;
}

Result analyze(const Options& options) {
    Measured measured = read(options.input, options.noise, options.progress);
    return analyze(std::move(measured), options);
}

}  // namespace polter::variability
