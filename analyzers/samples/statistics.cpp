// SPDX-License-Identifier: BSD-3-Clause
#include "statistics.hpp"

#include <boost/math/distributions/binomial.hpp>
#include <boost/math/statistics/univariate_statistics.hpp>
#include <cmath>
#include <map>
#include <random>

namespace polter::samples {

std::vector<double> Series::values() const {
    std::vector<double> list;
    for (const Sample& sample : samples) list.push_back(sample.value);
    return list;
}

std::vector<std::vector<double>> Series::blocks() const {
    std::map<int32_t, std::vector<double>> by_block;
    for (const Sample& sample : samples) by_block[sample.block].push_back(sample.value);
    std::vector<std::vector<double>> list;
    for (auto& [number, values] : by_block) list.push_back(std::move(values));
    return list;
}

void check(const std::vector<double>& values, const std::string& what) {
    if (values.empty()) throw Error("there are no samples of " + what);
    for (const double value : values)
        if (!std::isfinite(value)) throw Error("a sample of " + what + " is no number; the measurement that it comes from is damaged");
}

double median(std::vector<double> values) {
    check(values, "a median");
    return boost::math::statistics::median(values);
}

int64_t median(std::vector<int64_t> values) {
    if (values.empty()) throw Error("there are no samples of a median");
    return boost::math::statistics::median(values);
}

double mad(std::vector<double> values, double about) {
    check(values, "a median deviation");
    // Not Boost's median_absolute_deviation: that of 1.74 gives the value in the middle, not its distance.
    for (double& value : values) value = std::abs(value - about);
    return boost::math::statistics::median(values);
}

double quantile(const std::vector<double>& sorted, double p) {
    check(sorted, "a quantile");
    const double position = std::clamp(p, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<size_t>(position);
    const size_t above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (sorted[above] - sorted[below]) * (position - static_cast<double>(below));
}

Interval quantile_interval(const std::vector<double>& sorted, double p, double level) {
    check(sorted, "a quantile's interval");
    namespace policies = boost::math::policies;
    using Outwards = policies::policy<policies::discrete_quantile<policies::integer_round_outwards>>;
    const auto n = static_cast<double>(sorted.size());
    const boost::math::binomial_distribution<double, Outwards> below(n, std::clamp(p, 0.0, 1.0));
    const double tail = (1 - level) / 2;
    // The number of samples below the quantile is within [first, last] with the level's probability.
    const double first = boost::math::quantile(below, tail), last = boost::math::quantile(boost::math::complement(below, tail));
    const auto at = [&](double index) { return sorted[static_cast<size_t>(std::clamp(index, 0.0, n - 1))]; };
    return {at(first), at(last)};
}

namespace {

std::vector<double> draw(const Blocks& blocks, std::mt19937_64& random) {
    std::vector<double> values;
    for (size_t i = 0; i < blocks.size(); ++i) {
        const auto& block = blocks[random() % blocks.size()];
        values.insert(values.end(), block.begin(), block.end());
    }
    return values;
}

Interval resampled(uint64_t seed, size_t resamples, double level, const std::function<double(std::mt19937_64&)>& once) {
    std::mt19937_64 random(seed);
    std::vector<double> statistics;
    for (size_t k = 0; k < resamples; ++k) statistics.push_back(once(random));
    const auto [low, high] = central(std::move(statistics), level);
    return {low, high};
}

}  // namespace

Interval bootstrap(const Blocks& blocks, const Statistic& statistic, uint64_t seed, size_t resamples, double level) {
    if (blocks.empty()) throw Error("there are no blocks of samples");
    return resampled(seed, resamples, level, [&](std::mt19937_64& random) { return statistic(draw(blocks, random)); });
}

Interval bootstrap_difference(const Blocks& a, const Blocks& b, const Statistic& statistic, uint64_t seed, size_t resamples, double level) {
    if (a.empty() || b.empty()) throw Error("there are no blocks of samples");
    return resampled(seed, resamples, level, [&](std::mt19937_64& random) {
        const double of_a = statistic(draw(a, random));
        return statistic(draw(b, random)) - of_a;
    });
}

double dkw_band(uint64_t samples, double level) {
    if (samples == 0) throw Error("there are no samples of a distribution");
    return std::sqrt(std::log(2 / (1 - level)) / (2 * static_cast<double>(samples)));
}

double ks_distance(const std::vector<double>& a, const std::vector<double>& b) {
    check(a, "the first distribution");
    check(b, "the second distribution");
    double most = 0;
    size_t i = 0, j = 0;
    while (i < a.size() && j < b.size()) {
        const double at = std::min(a[i], b[j]);
        while (i < a.size() && a[i] <= at) ++i;
        while (j < b.size() && b[j] <= at) ++j;
        most = std::max(most, std::abs(static_cast<double>(i) / static_cast<double>(a.size()) -
                                       static_cast<double>(j) / static_cast<double>(b.size())));
    }
    return most;
}

double ks_critical(double samples_a, double samples_b, double level) {
    return std::sqrt(-std::log((1 - level) / 2) / 2) * std::sqrt((samples_a + samples_b) / (samples_a * samples_b));
}

}  // namespace polter::samples
