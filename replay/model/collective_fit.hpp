// SPDX-License-Identifier: BSD-3-Clause
// The costs with which an algorithm comes nearest to the measured leave times.
#pragma once

#include <vector>

#include "collective_algorithm.hpp"

namespace polter::replay {

struct Fit {
    Structure structure;
    double error = 0;  // ns: mean distance of predicted and measured leave times
};

// Of the algorithm and protocol of `plain`, whatever its costs are.
Fit fit(const Structure& plain, const std::vector<InstanceSample>& samples, bool noise_known);

// From costs that are known elsewhere; L and o stay within `range` times of them.
Fit fit_from(const Structure& start, const std::vector<InstanceSample>& samples, bool noise_known, double range);

// "A constant after the last that one waits for": what an algorithm must beat.
double plain_error(const std::vector<InstanceSample>& samples, Waits waits, bool noise_known);

}  // namespace polter::replay
