// SPDX-License-Identifier: BSD-3-Clause
// From the maxima of intervals on N ranks to those on `factor` times as many.
//
// Assumption: the larger machine consists of `factor` parts like the measured one, independent of each other; so its distribution function
// is F^factor, where F is that of the measured maxima. Nothing is assumed about F, or about ranks of one part.
// The p-quantile of F^factor is then the p^(1/factor)-quantile of F, whose interval by order statistics holds for every continuous F.
//
// Sources: EMMA: Sun and Peterson, J. Supercomputing 2012, as used by Dominguez-Trujillo et al. 2020, section III; fractional order
// statistics: Hutson, J. Applied Statistics 26 (1999). All samples sorted, of one unit. Errors: samples::Error.
#pragma once

#include <optional>
#include <vector>

#include "analyzers/samples/statistics.hpp"
#include "gev.hpp"

namespace polter::variability {

inline constexpr double typical = 0.5703760016984968;  // exp(-exp(-gamma)): at this quantile lies the mean of a Gumbel distribution

double level_of(double p, double factor);  // p^(1/factor)

// What a distribution-free interval needs, and what it is. Without basis there are too few intervals.
struct Projected {
    double value = 0;
    std::optional<samples::Interval> interval;  // unset: no basis
    double needed = 0;                          // independent intervals
};

// The typical interval's length: EMMA's quantile. `independent`: as many of the samples as are worth independent ones. `value` is there
// with or without a basis; without, it is the greatest sample where the quantile lies above all.
Projected project_typical(const std::vector<double>& sorted, double factor, double independent, double level = samples::usual_level);

// Holds the length of one further interval on the larger machine with this probability. Where the samples leave its upper end open, the
// interval is moved down as far as the level allows.
Projected project_next(const std::vector<double>& sorted, double factor, double independent, double level = samples::usual_level);

// The mean length, so that a run takes the number of intervals times this: the mean over all choices of `factor` of the samples of the
// greatest one. Without an interval: a heavy tail's mean depends on values that the samples need not have. Unset for fewer than 2 * factor
// samples.
std::optional<double> mean_of_maxima(const std::vector<double>& sorted, double factor);

// As many independent samples as say as much of the distribution at `p` as these do in their order. All of them, where they show no
// correlation (at 5 %) of being above the quantile.
double independent_of(const std::vector<double>& in_order, double p);

// The paper's parametric projection: EMMA of the fit, and the central part of EMMA of resampled fits.
struct Parametric {
    Method method = Method::pwm;
    Fit of_sample;
    double value = 0;
    std::optional<samples::Interval> interval, shape_interval;
    size_t resamples = 0, rejected = 0;
};
Parametric project_parametric(Method, const std::vector<double>& sorted, double factor, uint64_t seed, size_t resamples);

// The paper's other one: maxima of `factor` samples drawn with replacement; the central part of them. It never exceeds the greatest sample.
samples::Interval resampled_maxima(const std::vector<double>& sorted, double factor, uint64_t seed, size_t resamples,
                                   double level = samples::usual_level);

}  // namespace polter::variability
