// SPDX-License-Identifier: BSD-3-Clause
// Mutations, one for each statistic of the method. The tests switch them on to show that they would detect the error; nothing else uses
// them. Those marked "printed" are what the paper's text says.
#pragma once

namespace polter::variability {

enum class Mutation {
    none,
    shape_sign,          // printed: equation (1) with the shape's sign of the fits
    moments_for_pwm,     // printed: mean, variance and skewness in the place of the weighted moments
    scale_exponent,      // printed: 3/2 in the scale of the method of moments
    wide_shapes,         // fits with a shape of 0.5 or more count
    emma_unscaled,       // the projection's probability without its root
    emma_median,         // the median in the place of EMMA's 0.570
    level_unscaled,      // the typical interval's interval, as if no ranks were added
    plain_bootstrap,     // the typical interval's interval from parametric resampling, as in the paper
    coverage_for_one,    // the interval for the next interval, as if no ranks were added
    ignore_correlation,  // consecutive intervals count as independent
    basis_always,        // the extreme where there are too few intervals
    barrier_is_work,     // the last arrival is taken for the end of the barrier
    one_kind,            // segments of all groups together
    mean_unscaled,       // the mean length, as if no ranks were added
    any_rank_last,       // a rank that arrives last again and again is no warning
    always_the_same,     // a run that changes on its way is no warning
};
inline constexpr int mutations = 17;

inline Mutation mutation = Mutation::none;
inline bool mutated(Mutation which) {
    return mutation == which;
}

}  // namespace polter::variability
