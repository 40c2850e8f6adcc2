// SPDX-License-Identifier: BSD-3-Clause
// A law for the lengths of the longest noise events. Resampling never gives an event longer than the longest that was measured, but more
// ranks, or another run, meet longer ones, and few long events can decide a delay.
//
// Above a threshold: generalised Pareto, Pickands, Annals of Statistics 3 (1975), fitted by L-moments, Hosking and Wallis, Technometrics 29
// (1987); exponential, where Gini's index does not refuse that, Gail and Gastwirth, Journal of the Royal Statistical Society B 40 (1978).
// The threshold is the lowest above which the law is not refused by its Kolmogorov distance, whose distribution under the law is simulated.
// Lengths in nanoseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace polter::prediction {

struct ParetoLaw {
    double scale = 0, shape = 0;  // of what lies above the threshold; shape > 0: a heavy tail, of index 1 / shape

    double quantile(double p) const;  // p within (0, 1)
    double distribution(double above) const;
};
std::optional<ParetoLaw> fit_pareto(const std::vector<double>& above);  // sorted; none: all are alike

class LongestEvents {
  public:
    LongestEvents() = default;  // no law: lengths as measured
    LongestEvents(std::vector<double> lengths, uint64_t seed);

    bool known() const { return law_.has_value(); }
    size_t events() const { return above_.size(); }  // above the threshold
    int64_t threshold() const { return threshold_; }
    const ParetoLaw& law() const { return *law_; }

    // As another sample of as many events would have it; `draw` numbers the samples.
    LongestEvents resampled(uint64_t draw) const;
    // The length of an event that was measured to take `measured`. `random`: any 64 bits.
    int64_t length(int64_t measured, uint64_t random) const;

  private:
    uint64_t seed_ = 0;
    int64_t threshold_ = 0;
    std::vector<double> above_;  // sorted
    std::optional<ParetoLaw> law_;
};

}  // namespace polter::prediction
