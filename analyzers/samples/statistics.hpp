// SPDX-License-Identifier: BSD-3-Clause
// Robust statistics of samples. All throw Error for no samples, and for one that is not finite.
//
// Sources: quantiles, median and MAD by Boost.Math; intervals of quantiles by order statistics (David and Nagaraja, "Order Statistics",
// section 7.1); the block bootstrap of Kuensch 1989, with blocks that are given; the band of Dvoretzky, Kiefer and Wolfowitz with
// Massart's constant.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "samples.hpp"

namespace polter::samples {

struct Interval {
    double low = 0, high = 0;
};

inline constexpr double usual_level = 0.95;

double median(std::vector<double> values);
int64_t median(std::vector<int64_t> values);           // of an even number: the mean of the two in the middle, rounded towards 0
double mad(std::vector<double> values, double about);  // the median of |value - about|

// Between the two nearest samples by linear interpolation (type 7 of Hyndman and Fan).
double quantile(const std::vector<double>& sorted, double p);
// Holds the quantile with at least this probability, whatever the distribution; an end that too few samples leave open is the extreme.
Interval quantile_interval(const std::vector<double>& sorted, double p, double level = usual_level);

// The central part of values: so much of them lies inside. For resampled statistics.
template <class T>
std::pair<T, T> central(std::vector<T> values, double level = usual_level) {
    if (values.empty()) throw Error("no resampled values");
    std::sort(values.begin(), values.end());
    const auto cut = static_cast<size_t>(static_cast<double>(values.size()) * (1 - level) / 2 + 1e-9);
    return {values[cut], values[values.size() - 1 - cut]};
}

using Statistic = std::function<double(const std::vector<double>&)>;
using Blocks = std::vector<std::vector<double>>;

// Blocks are drawn with replacement, as many as there are. The same seed gives the same answer.
Interval bootstrap(const Blocks&, const Statistic&, uint64_t seed, size_t resamples = 1000, double level = usual_level);
// Of statistic(b) - statistic(a), each side drawn by itself.
Interval bootstrap_difference(const Blocks& a, const Blocks& b, const Statistic&, uint64_t seed, size_t resamples = 1000,
                              double level = usual_level);

// The true distribution function lies within this of the empirical one everywhere, with this probability; of independent samples.
double dkw_band(uint64_t samples, double level = usual_level);
// The greatest distance of two empirical distribution functions, and how great it is by chance at most with this probability.
double ks_distance(const std::vector<double>& sorted_a, const std::vector<double>& sorted_b);
double ks_critical(double samples_a, double samples_b, double level = usual_level);

}  // namespace polter::samples
