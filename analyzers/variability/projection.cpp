// SPDX-License-Identifier: BSD-3-Clause
#include "projection.hpp"

#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <boost/math/tools/roots.hpp>
#include <cmath>

#include "mutations.hpp"

namespace polter::variability {

double level_of(double p, double factor) {
    return std::pow(p, 1 / factor);
}

namespace {

// The rank (a real number within [low, high]) at which an increasing function has this value; an end where it has it nowhere.
template <class F>
double rank_where(const F& increasing, double value, double low, double high) {
    const auto distance = [&](double rank) { return increasing(rank) - value; };
    if (distance(low) >= 0) return low;
    if (distance(high) <= 0) return high;
    boost::uintmax_t steps = 200;
    const auto [left, right] = boost::math::tools::toms748_solve(distance, low, high, boost::math::tools::eps_tolerance<double>(40), steps);
    return (left + right) / 2;
}

// Of sorted samples, at a rank that counts from 1 among `independent` ones.
double at_rank(const std::vector<double>& sorted, double rank, double independent) {
    const auto n = static_cast<double>(sorted.size());
    const double position = std::clamp(rank * (n + 1) / (independent + 1), 1.0, n) - 1;
    const auto below = static_cast<size_t>(position);
    const size_t above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (sorted[above] - sorted[below]) * (position - static_cast<double>(below));
}

constexpr double least_rank = 1e-3;

}  // namespace

Projected project_typical(const std::vector<double>& sorted, double factor, double independent, double level) {
    samples::check(sorted, "maxima of intervals");
    const double q = level_of(mutated(Mutation::emma_median) ? 0.5 : typical, mutated(Mutation::emma_unscaled) ? 1 : factor);
    const double of_interval = mutated(Mutation::level_unscaled) ? typical : q, tail = (1 - level) / 2;
    // That the sample of this rank lies above the quantile.
    const auto above = [&](double p) {
        return [p, independent](double rank) { return boost::math::ibetac(rank, independent + 1 - rank, p); };
    };
    const double most = independent + 1 - least_rank;
    Projected result;
    result.value = at_rank(sorted, rank_where(above(q), 0.5, least_rank, most), independent);
    result.needed = std::ceil(std::log(tail) / std::log(of_interval));
    const double low = rank_where(above(of_interval), tail, least_rank, most),
                 high = rank_where(above(of_interval), 1 - tail, least_rank, most);
    if (mutated(Mutation::plain_bootstrap)) {
        result.interval = project_parametric(Method::pwm, sorted, factor, 1, 200).interval;
    } else if ((low >= 1 && high <= independent) || mutated(Mutation::basis_always)) {
        result.interval = samples::Interval{at_rank(sorted, low, independent), at_rank(sorted, high, independent)};
    }
    return result;
}

Projected project_next(const std::vector<double>& sorted, double factor, double independent, double level) {
    samples::check(sorted, "maxima of intervals");
    const double m = mutated(Mutation::coverage_for_one) ? 1 : factor, tail = (1 - level) / 2;
    // That a further maximum of `m` lies below the sample of this rank: the mean of U^m, where U is the beta-distributed quantile of it.
    const auto below = [&](double rank) {
        return std::exp(boost::math::lgamma(rank + m) - boost::math::lgamma(rank) + boost::math::lgamma(independent + 1) -
                        boost::math::lgamma(independent + m + 1));
    };
    const double most = independent + 1 - least_rank;
    Projected result;
    result.value = at_rank(sorted, rank_where(below, 0.5, least_rank, most), independent);
    result.needed = std::ceil(level / (1 - level) * m);
    double low = rank_where(below, tail, least_rank, most), high = rank_where(below, 1 - tail, least_rank, most);
    if (high > independent) {
        high = independent;
        low = rank_where(below, below(high) - level, least_rank, most);
    }
    if ((low >= 1 && below(high) - below(low) > level - 1e-6) || mutated(Mutation::basis_always))
        result.interval = samples::Interval{at_rank(sorted, low, independent), at_rank(sorted, high, independent)};
    return result;
}

std::optional<double> mean_of_maxima(const std::vector<double>& sorted, double factor) {
    samples::check(sorted, "maxima of intervals");
    const double m = mutated(Mutation::mean_unscaled) ? 1 : factor;
    const auto n = static_cast<double>(sorted.size());
    if (n < 2 * m) return {};
    double sum = 0, weights = 0;
    for (size_t i = 0; i < sorted.size(); ++i) {
        const double rank = static_cast<double>(i) + 1;
        if (rank <= m - 1) continue;
        // That of a choice of m of the samples this one is the greatest, but for a factor that all have.
        const double weight = std::exp(boost::math::lgamma(rank) - boost::math::lgamma(rank - m + 1) - boost::math::lgamma(n) +
                                       boost::math::lgamma(n - m + 1));
        sum += weight * sorted[i];
        weights += weight;
    }
    return sum / weights;
}

double independent_of(const std::vector<double>& in_order, double p) {
    const size_t n = in_order.size();
    if (n < 10 || mutated(Mutation::ignore_correlation)) return static_cast<double>(n);
    std::vector<double> sorted = in_order;
    std::sort(sorted.begin(), sorted.end());
    const double threshold = samples::quantile(sorted, p);
    std::vector<double> above;
    double mean = 0;
    for (const double value : in_order) {
        above.push_back(value > threshold ? 1 : 0);
        mean += above.back() / static_cast<double>(n);
    }
    const double variance = mean * (1 - mean);
    if (!(variance > 0)) return static_cast<double>(n);
    const auto correlation = [&](size_t lag) {
        double sum = 0;
        for (size_t i = lag; i < n; ++i) sum += (above[i] - mean) * (above[i - lag] - mean);
        return sum / (static_cast<double>(n) * variance);
    };
    if (correlation(1) < 1.645 / std::sqrt(static_cast<double>(n))) return static_cast<double>(n);
    double sum = 0;
    for (size_t lag = 1; lag <= n / 4; ++lag) {
        const double here = correlation(lag);
        if (here <= 0) break;  // from there on it is chance
        sum += here;
    }
    return std::max(1.0, static_cast<double>(n) / (1 + 2 * sum));
}

Parametric project_parametric(Method method, const std::vector<double>& sorted, double factor, uint64_t seed, size_t resamples) {
    Parametric result;
    result.method = method;
    result.of_sample = fit(method, sorted);
    if (!result.of_sample.accepted) return result;
    const double q = level_of(mutated(Mutation::emma_median) ? 0.5 : typical, mutated(Mutation::emma_unscaled) ? 1 : factor);
    result.value = result.of_sample.gev.quantile(q);
    std::mt19937_64 random(seed);
    std::vector<double> values, shapes, drawn(sorted.size());
    for (size_t k = 0; k < resamples; ++k) {
        for (double& value : drawn) value = result.of_sample.gev.draw(random);
        std::sort(drawn.begin(), drawn.end());
        const Fit of_drawn = fit(method, drawn);
        ++result.resamples;
        if (!of_drawn.accepted) {
            ++result.rejected;
            continue;
        }
        values.push_back(of_drawn.gev.quantile(q));
        shapes.push_back(of_drawn.gev.shape);
    }
    if (values.size() < resamples / 2 || values.empty()) return result;  // what is left says nothing of the rest
    const auto [low, high] = samples::central(std::move(values));
    result.interval = samples::Interval{low, high};
    const auto [least, most] = samples::central(std::move(shapes));
    result.shape_interval = samples::Interval{least, most};
    return result;
}

samples::Interval resampled_maxima(const std::vector<double>& sorted, double factor, uint64_t seed, size_t resamples, double level) {
    samples::check(sorted, "maxima of intervals");
    const auto each = static_cast<size_t>(std::max(1.0, std::round(factor)));
    std::mt19937_64 random(seed);
    std::vector<double> maxima;
    for (size_t k = 0; k < resamples; ++k) {
        size_t most = 0;
        for (size_t i = 0; i < each; ++i) most = std::max<size_t>(most, random() % sorted.size());
        maxima.push_back(sorted[most]);
    }
    const auto [low, high] = samples::central(std::move(maxima), level);
    return {low, high};
}

}  // namespace polter::variability
