// SPDX-License-Identifier: BSD-3-Clause
// Mutations, one for each rule of the analysis. The tests switch them on to show that they would detect the error; nothing else uses them.
#pragma once

namespace polter::latency {

enum class Mutation {
    none,
    one_place,           // pairs on a node and between nodes: told apart by nothing
    any_share,           // a pair belongs to each mode in which it has a sample
    any_rank,            // a rank belongs to each mode in which it has a pair
    last_block,          // the least latency of a pair: that of its last block
    one_way,             // the least latency of a pair is known to the first of its ranks only
    peers_by_rank,       // slower peers: in the order of their ranks, not in that of the schedule
    number_of_the_same,  // slower peers: those of the other place have no number
    any_step,            // slower peers: a step of any size
    one_slow_peer,       // slower peers: one of them is enough
    tail_of_all,         // the tail begins at the median
    whole_samples,       // the tail's time: whole samples, not their excess
    tail_by_samples,     // the tail's length: the median of its samples, not of its time
    one_tail_mode,       // a valley in the tail's time parts nothing
    as_they_come,        // ranks are added up in the order of the file
    samples_alone,       // a comparison takes each sample for independent
};
inline constexpr int mutations = 16;

inline Mutation mutation = Mutation::none;
inline bool mutated(Mutation which) {
    return mutation == which;
}

}  // namespace polter::latency
