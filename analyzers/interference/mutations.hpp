// SPDX-License-Identifier: BSD-3-Clause
// Mutations, one for each rule of the method. The tests switch them on to show that they would detect the error; nothing else uses them.
#pragma once

namespace polter::interference {

enum class Mutation {
    none,
    absolute_distance,   // clusters: the distance itself is compared, not its relation to the smaller value
    from_first,          // clusters: each value is compared with the cluster's first one
    zero_joins,          // clusters: what is near 0 joins 0
    mean_for_median,     // groups: mean and standard deviation
    small_groups_count,  // groups of one to four segments are judged too
    no_resolution,       // equal times have the threshold of their median
    first_rank_alone,    // a segment lasts as long as on rank 0
    over_all_groups,     // one group of all segments
    keep_displacement,   // measured: what all segments took longer counts as interference
    noise_in_waits,      // OS noise in a segment: all that was recorded, absorbed or not
};
inline constexpr int mutations = 11;

inline Mutation mutation = Mutation::none;
inline bool mutated(Mutation which) {
    return mutation == which;
}

}  // namespace polter::interference
