// SPDX-License-Identifier: BSD-3-Clause
// Mutations, one for each statistic of the method and each promise of the store. The tests switch them on to show that they would detect
// the error; nothing else uses them.
#pragma once

namespace polter::quality {

enum class Mutation {
    none,
    errors_of_the_fit,     // components chosen, and the error printed, by the fit's own residuals
    not_standardised,      // features in their own units: the one with the largest numbers is the first component
    interval_of_the_mean,  // the prediction interval without a further job's own variation
    far_is_near,           // a job unlike all before it is judged too
    usual_noise_counts,    // "because": noise that all jobs have counts too
    small_noise_counts,    // "because": any noise, however little of the delay it is
    own_noise_counts,      // what polter's own processes took is a reason, and makes a job slower
    always_normal,         // the limit of the verdict is that of normal errors, whatever the history's are like
    verdict_at_95,         // one ordinary job in twenty is flagged
    unscaled_differences,  // what differs most is what has the largest numbers
    straight,              // run times are powers of the size, whatever they look like
    sizes_smooth,          // jobs of one size say no more of each other than the curve does
    time_is_progress,      // online: a job has come as far as its time has
    one_look,              // online: the limit is that of one look at normal errors, however often a job is looked at
    fast_at_first,         // online: a job is compared with when others began to be as far, not with when they went on
    rates_of_the_future,   // online: rates of the whole run
    written_in_place,      // store: a job's file has its name before it is whole
    replaces,              // store: of two jobs of one name the later one is kept
    index_decides,         // store: what is not in the index is no job
    versions_unchecked,    // store: files of any schema are read as this one's
};
inline constexpr int mutations = 21;

inline Mutation mutation = Mutation::none;
inline bool mutated(Mutation which) {
    return mutation == which;
}

}  // namespace polter::quality
