// SPDX-License-Identifier: BSD-3-Clause
// Mutations, one for each statistic of the method. The tests switch them on to show that they would detect the error; nothing else uses
// them.
#pragma once

namespace polter::quality {

enum class Mutation {
    none,
    errors_of_the_fit,     // components chosen, and the error printed, by the fit's own residuals
    not_standardised,      // features in their own units: the one with the largest numbers is the first component
    interval_of_the_mean,  // the prediction interval without a further job's own variation
    far_is_near,           // a job unlike all before it is judged too
    usual_noise_counts,    // "because": noise that all jobs have counts too
};
inline constexpr int mutations = 6;

inline Mutation mutation = Mutation::none;
inline bool mutated(Mutation which) {
    return mutation == which;
}

}  // namespace polter::quality
