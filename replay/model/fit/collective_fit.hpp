// SPDX-License-Identifier: BSD-3-Clause
// The costs with which an algorithm comes nearest to the measured leave times.
#pragma once

#include <vector>

#include "replay/model/collective_algorithm.hpp"

namespace polter::replay {

// What explains so much of what a constant leaves (one part in so many) needs no rival.
constexpr double enough_said = 50;

// Times the error of a rival: what is so far off after a first descent is not worth more of them.
constexpr double hopeless = 2;

struct Fit {
    Structure structure;
    double error = 0;  // ns: mean distance of predicted and measured leave times
};

// Of the algorithm and protocol of `plain`, whatever its costs are. `constant_error`: of "a constant after the last"; `rival`: of another
// algorithm, or infinity. `by_flights`: also from flights that the few calls tell which waited.
Fit fit(const Structure& plain, const std::vector<InstanceSample>& samples, bool noise_known, double constant_error, double rival,
        bool by_flights);

// As if the busiest member's link took all the time that the calls did.
Structure limited_by_link(Structure structure, const std::vector<InstanceSample>& samples);

// From costs that are known elsewhere: from those of `starts`, which differ in nothing but costs, that come nearest. L and o stay within
// `range` times of them. `worth`: from a larger error on it is not looked for the last of it.
Fit fit_from(const std::vector<Structure>& starts, const std::vector<InstanceSample>& samples, bool noise_known, double range,
             double worth);

// Distances of roots and of the others: in most operations with a root only one of both kinds waits.
struct Distances {
    std::vector<int64_t> roots, others;
    void add(const InstanceSample& sample, size_t member, int64_t distance) {
        (member == sample.root ? roots : others).push_back(distance);
    }
    void clear() {
        roots.clear();
        others.clear();
    }
};

// The mean; where the noise is not known, without the greatest of either kind, which may be noise. (Not the median, nor of both kinds
// together: where most members wait for nobody that says nothing of the others.)
double typical(Distances& distances, bool noise_known);

// The most noise that one member had in the meantime.
int64_t longest_noise(const InstanceSample& sample, int64_t from, int64_t upto);

// "A constant after the last that one waits for": what an algorithm must beat.
double plain_error(const std::vector<InstanceSample>& samples, Waits waits, bool noise_known);

}  // namespace polter::replay
