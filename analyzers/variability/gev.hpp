// SPDX-License-Identifier: BSD-3-Clause
// The generalised extreme value distribution, and its fits by two methods.
//
// Sources: Hosking, Wallis and Wood, Technometrics 27 (1985), for the distribution and probability-weighted moments; Madsen, Rasmussen and
// Rosbjerg, Water Resources Research 33 (1997), for the method of moments. Both formulas are in Dominguez-Trujillo et al., "Lightweight
// Measurement and Analysis of HPC Performance Variability" (2020), section II, with errors in print (README).
//
// `shape` has Hosking's sign: below 0 a heavy tail (Frechet), 0 Gumbel, above 0 a bounded one (Weibull). It is SciPy's c, and minus the
// shape of R's evd. Units: those of the samples. Functions throw samples::Error for samples that no fit can be made of.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

namespace polter::variability {

inline constexpr double widest_shape = 0.5;  // fits beyond are rejected: their extremes have no meaning
inline constexpr size_t least_maxima = 20;   // for a fit

struct Gev {
    double location = 0, scale = 1, shape = 0;
    double quantile(double p) const;  // p within (0, 1)
    double cumulative(double x) const;
    double draw(std::mt19937_64&) const;
};

enum class Method { pwm, mom };
std::string name_of(Method);

struct Fit {
    Gev gev;
    bool accepted = false;
    std::string why;  // it is not
};

// By probability-weighted moments, valid for shapes above -1; by moments, valid for shapes above -1/3. A shape outside, or of widest_shape
// or more, is not accepted. Fewer than least_maxima samples, or equal ones, are not either.
Fit fit(Method, const std::vector<double>& sorted);

// From the moments themselves. Throws samples::Error where no distribution has them.
Gev from_weighted_moments(double b0, double b1, double b2);
Gev from_moments(double mean, double deviation, double skewness);

// Uniform in (0, 1), the same on every platform.
double uniform(std::mt19937_64&);

}  // namespace polter::variability
