// SPDX-License-Identifier: BSD-3-Clause
#include "gev.hpp"

#include <boost/math/constants/constants.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <boost/math/tools/roots.hpp>
#include <cmath>

#include "analyzers/samples/samples.hpp"
#include "mutations.hpp"

namespace polter::variability {

namespace {

constexpr double gumbel_below = 1e-6;  // |shape| below which the limit at 0 is taken: closer, differences of gamma functions cancel
constexpr double gumbel_skewness = 1.1395470994046486;
const double euler = boost::math::constants::euler<double>();

double gamma_of(double x) {
    return boost::math::tgamma(x);
}

// Skewness of the distribution with this shape, above -1/3.
double skewness_of(double k) {
    if (std::abs(k) < 1e-4) {  // by a secant through points where nothing cancels
        const double h = 1e-3, below = skewness_of(-h), above = skewness_of(h);
        return gumbel_skewness + (above - below) / (2 * h) * k;
    }
    const double g1 = gamma_of(1 + k), g2 = gamma_of(1 + 2 * k), g3 = gamma_of(1 + 3 * k);
    const double third = -g3 + 3 * g1 * g2 - 2 * g1 * g1 * g1;
    return (k > 0 ? 1 : -1) * third / std::pow(g2 - g1 * g1, 1.5);
}

}  // namespace

double uniform(std::mt19937_64& random) {
    return (static_cast<double>(random() >> 11) + 0.5) * 0x1.0p-53;
}

std::string name_of(Method method) {
    return method == Method::pwm ? "probability-weighted moments" : "moments";
}

double Gev::quantile(double p) const {
    const double y = -std::log(p);
    const double k = mutated(Mutation::shape_sign) ? -shape : shape;
    return std::abs(k) < gumbel_below ? location - scale * std::log(y) : location + scale * (1 - std::pow(y, k)) / k;
}

double Gev::cumulative(double x) const {
    const double z = (x - location) / scale;
    if (std::abs(shape) < gumbel_below) return std::exp(-std::exp(-z));
    const double inner = 1 - shape * z;
    if (inner <= 0) return shape > 0 ? 1 : 0;
    return std::exp(-std::pow(inner, 1 / shape));
}

double Gev::draw(std::mt19937_64& random) const {
    return quantile(uniform(random));
}

Gev from_weighted_moments(double b0, double b1, double b2) {
    const double spread = 2 * b1 - b0, third = 3 * b2 - b0;
    if (!(spread > 0) || !(third > 0)) throw samples::Error("weighted moments of no distribution: the samples do not vary");
    const double c = spread / third - std::log(2) / std::log(3);
    Gev gev;
    gev.shape = 7.8590 * c + 2.9554 * c * c;
    if (gev.shape <= -1) throw samples::Error("a tail so heavy that its mean does not exist");
    const double k = gev.shape;
    if (std::abs(k) < gumbel_below) {
        gev.scale = spread / std::log(2);
        gev.location = b0 - euler * gev.scale;
    } else {
        gev.scale = spread * k / (gamma_of(1 + k) * (1 - std::pow(2, -k)));
        gev.location = b0 + gev.scale * (gamma_of(1 + k) - 1) / k;
    }
    return gev;
}

Gev from_moments(double mean, double deviation, double skewness) {
    if (!(deviation > 0)) throw samples::Error("moments of no distribution: the samples do not vary");
    const double low = -1.0 / 3 + 1e-6, high = 5;
    const auto distance = [&](double k) { return skewness_of(k) - skewness; };
    if (!(distance(low) > 0) || !(distance(high) < 0)) throw samples::Error("a skewness that no distribution of extreme values has");
    boost::uintmax_t steps = 100;
    const auto [left, right] = boost::math::tools::toms748_solve(distance, low, high, boost::math::tools::eps_tolerance<double>(50), steps);
    Gev gev;
    gev.shape = (left + right) / 2;
    const double k = gev.shape, exponent = mutated(Mutation::scale_exponent) ? 1.5 : 0.5;
    if (std::abs(k) < gumbel_below) {
        gev.scale = deviation * std::sqrt(6) / boost::math::constants::pi<double>();
        gev.location = mean - euler * gev.scale;
    } else {
        const double g1 = gamma_of(1 + k), g2 = gamma_of(1 + 2 * k);
        gev.scale = deviation * std::abs(k) / std::pow(g2 - g1 * g1, exponent);
        gev.location = mean - gev.scale / k * (1 - g1);
    }
    return gev;
}

namespace {

Gev by_weighted_moments(const std::vector<double>& sorted) {
    const auto n = static_cast<double>(sorted.size());
    double b0 = 0, b1 = 0, b2 = 0;
    for (size_t i = 0; i < sorted.size(); ++i) {
        const auto below = static_cast<double>(i);
        b0 += sorted[i] / n;
        b1 += below / (n - 1) * sorted[i] / n;
        b2 += below * (below - 1) / ((n - 1) * (n - 2)) * sorted[i] / n;
    }
    return from_weighted_moments(b0, b1, b2);
}

struct Moments {
    double mean = 0, deviation = 0, skewness = 0;
};

// Variance with n - 1, skewness with its correction for few samples (G1 of Joanes and Gill 1998).
Moments moments_of(const std::vector<double>& values) {
    const auto n = static_cast<double>(values.size());
    Moments m;
    double second = 0, third = 0;
    for (const double value : values) m.mean += value / n;
    for (const double value : values) {
        const double d = value - m.mean;
        second += d * d / n;
        third += d * d * d / n;
    }
    m.deviation = std::sqrt(second * n / (n - 1));
    m.skewness = second > 0 ? std::sqrt(n * (n - 1)) / (n - 2) * third / std::pow(second, 1.5) : 0;
    return m;
}

}  // namespace

Fit fit(Method method, const std::vector<double>& sorted) {
    Fit result;
    if (sorted.size() < least_maxima) {
        result.why = "fewer than " + std::to_string(least_maxima) + " maxima";
        return result;
    }
    try {
        const Moments m = moments_of(sorted);
        if (method == Method::mom)
            result.gev = from_moments(m.mean, m.deviation, m.skewness);
        else if (mutated(Mutation::moments_for_pwm))
            result.gev = from_weighted_moments(m.mean, m.deviation * m.deviation, m.skewness);
        else
            result.gev = by_weighted_moments(sorted);
    } catch (const samples::Error& error) {
        result.why = error.what();
        return result;
    }
    if (std::abs(result.gev.shape) >= widest_shape && !mutated(Mutation::wide_shapes))
        result.why = "a shape of 0.5 or more: single values decide the tail";
    else
        result.accepted = true;
    return result;
}

}  // namespace polter::variability
