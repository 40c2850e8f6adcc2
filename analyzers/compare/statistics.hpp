// SPDX-License-Identifier: BSD-3-Clause
// By how much two sides differ, from one run or several of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace polter::compare {

// One run's value and the bounds that the replay gives it; an exact value has bounds equal to it.
struct Value {
    int64_t ns = 0, low_ns = 0, high_ns = 0;
};

struct Estimate {
    int64_t a_ns = 0, b_ns = 0;                                         // medians
    int64_t difference_ns = 0;                                          // b − a
    int64_t low_ns = 0, high_ns = 0;                                    // of the difference
    bool more_than_noise() const { return low_ns > 0 || high_ns < 0; }  // the interval does not include 0
};

// Below so many runs a side enters with its extremes: resampling so few would give an interval too narrow.
inline constexpr size_t least_resampled = 5;

// Interval: 95 % of `resamples` differences of medians of resampled runs, each end with the replay's bounds on its side. The same seed
// gives the same answer.
// `chance_ns`: what both ends are widened by.
Estimate difference(const std::vector<Value>& a, const std::vector<Value>& b, uint64_t seed, size_t resamples, int64_t chance_ns = 0);

}  // namespace polter::compare
