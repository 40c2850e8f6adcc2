// SPDX-License-Identifier: BSD-3-Clause
#include "statistics.hpp"

#include <algorithm>
#include <random>

#include "analyzers/samples/statistics.hpp"

namespace polter::compare {

namespace {

using samples::median;

std::vector<int64_t> each(const std::vector<Value>& values, int64_t Value::*member) {
    std::vector<int64_t> list;
    for (const Value& value : values) list.push_back(value.*member);
    return list;
}

// The least and the greatest value of a side's median, once for each resample.
struct Medians {
    std::vector<int64_t> low, high;
};

Medians resampled(const std::vector<Value>& side, std::mt19937_64& random, size_t resamples) {
    Medians medians;
    if (side.size() < least_resampled) {
        const auto low = each(side, &Value::low_ns), high = each(side, &Value::high_ns);
        medians.low.assign(resamples, *std::min_element(low.begin(), low.end()));
        medians.high.assign(resamples, *std::max_element(high.begin(), high.end()));
        return medians;
    }
    std::vector<int64_t> low(side.size()), high(side.size());
    for (size_t k = 0; k < resamples; ++k) {
        for (size_t i = 0; i < side.size(); ++i) {
            const Value& drawn = side[random() % side.size()];
            low[i] = drawn.low_ns;
            high[i] = drawn.high_ns;
        }
        medians.low.push_back(median(low));
        medians.high.push_back(median(high));
    }
    return medians;
}

}  // namespace

Estimate difference(const std::vector<Value>& a, const std::vector<Value>& b, uint64_t seed, size_t resamples, int64_t chance_ns) {
    Estimate estimate;
    estimate.a_ns = median(each(a, &Value::ns));
    estimate.b_ns = median(each(b, &Value::ns));
    estimate.difference_ns = estimate.b_ns - estimate.a_ns;
    std::mt19937_64 random(seed);
    const Medians of_a = resampled(a, random, resamples), of_b = resampled(b, random, resamples);
    std::vector<int64_t> low, high;
    for (size_t k = 0; k < resamples; ++k) {
        low.push_back(of_b.low[k] - of_a.high[k]);
        high.push_back(of_b.high[k] - of_a.low[k]);
    }
    estimate.low_ns = std::min(samples::central(std::move(low)).first, estimate.difference_ns) - chance_ns;
    estimate.high_ns = std::max(samples::central(std::move(high)).second, estimate.difference_ns) + chance_ns;
    return estimate;
}

}  // namespace polter::compare
