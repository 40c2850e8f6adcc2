// SPDX-License-Identifier: BSD-3-Clause
#include "longest_events.hpp"

#include <algorithm>
#include <cmath>

#include "mutations.hpp"
#include "random.hpp"

namespace polter::prediction {

namespace {

constexpr size_t least = 32, most = 128;  // events above the threshold; more would reach into those of other, shorter sources
constexpr size_t part = 8;                // and at most one in so many of all
constexpr double refused_beyond = 2.576;  // standard errors: the exponential law is refused of one exponential sample in 100
constexpr uint64_t simulated = 99, refused_at = 10;  // the law is refused if fewer than 10 of 99 samples of it lie further from their fit

// Kolmogorov's: the largest difference between the sample's distribution and the law's.
double distance(const std::vector<double>& above, const ParetoLaw& law) {
    const auto count = static_cast<double>(above.size());
    double largest = 0;
    for (size_t i = 0; i < above.size(); ++i) {
        const double p = law.distribution(above[i]);
        largest = std::max({largest, p - static_cast<double>(i) / count, static_cast<double>(i + 1) / count - p});
    }
    return largest;
}

bool refused(const std::vector<double>& above, const ParetoLaw& law, uint64_t seed) {
    const double measured = distance(above, law);
    std::vector<double> sample(above.size());
    uint64_t further = 0;
    for (uint64_t i = 0; i < simulated && further < refused_at; ++i) {
        for (size_t k = 0; k < sample.size(); ++k) sample[k] = law.quantile(within_0_1(mixed(seed, i, Drawn::distance, sample.size(), k)));
        std::sort(sample.begin(), sample.end());
        const std::optional<ParetoLaw> fitted = fit_pareto(sample);
        further += !fitted || distance(sample, *fitted) >= measured;
    }
    return further < refused_at && !mutated(Mutation::any_law);
}

}  // namespace

double ParetoLaw::quantile(double p) const {
    return std::abs(shape) < 1e-9 ? -scale * std::log1p(-p) : scale * std::expm1(-shape * std::log1p(-p)) / shape;
}

double ParetoLaw::distribution(double above) const {
    if (std::abs(shape) < 1e-9) return -std::expm1(-above / scale);
    const double base = 1 + shape * above / scale;
    return base <= 0 ? 1 : -std::expm1(-std::log(base) / shape);
}

std::optional<ParetoLaw> fit_pareto(const std::vector<double>& above) {
    const auto count = static_cast<double>(above.size());
    double mean = 0, weighted = 0;
    for (size_t i = 0; i < above.size(); ++i) {
        mean += above[i] / count;
        weighted += above[i] / count * static_cast<double>(i) / (count - 1);
    }
    const double half_difference = 2 * weighted - mean;  // the second L-moment
    if (above.size() < 2 || !(half_difference > 1e-6 * mean)) return std::nullopt;
    const double off = std::sqrt(12 * (count - 1)) * std::abs(half_difference / mean - 0.5);
    if (off < refused_beyond || mutated(Mutation::always_exponential)) return ParetoLaw{mean, 0};
    const double shape = 2 - mean / half_difference;
    return ParetoLaw{mean * (1 - shape), shape};
}

LongestEvents::LongestEvents(std::vector<double> lengths, uint64_t seed) : seed_(seed) {
    std::sort(lengths.begin(), lengths.end());
    for (size_t count = std::min(most, lengths.size() / part); count >= least; count /= 2) {
        const double threshold = lengths[lengths.size() - count - 1];
        std::vector<double> above;
        for (size_t i = lengths.size() - count; i < lengths.size(); ++i) above.push_back(lengths[i] - threshold);
        const std::optional<ParetoLaw> law = fit_pareto(above);
        if (!law || refused(above, *law, seed)) continue;
        threshold_ = static_cast<int64_t>(threshold);
        above_ = std::move(above);
        law_ = law;
        return;
    }
}

LongestEvents LongestEvents::resampled(uint64_t draw) const {
    LongestEvents other;
    if (!law_) return other;
    other.seed_ = seed_;
    other.threshold_ = threshold_;
    for (size_t i = 0; i < above_.size(); ++i) other.above_.push_back(above_[mixed(seed_, draw, Drawn::law, 0, i) % above_.size()]);
    std::sort(other.above_.begin(), other.above_.end());
    other.law_ = fit_pareto(other.above_);
    return other;
}

int64_t LongestEvents::length(int64_t measured, uint64_t random) const {
    if (!law_ || measured <= threshold_ || mutated(Mutation::longest_as_measured)) return measured;
    return threshold_ + std::max<int64_t>(1, std::llround(law_->quantile(within_0_1(random))));
}

}  // namespace polter::prediction
