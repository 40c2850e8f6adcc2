// SPDX-License-Identifier: BSD-3-Clause
// Mutations, one for each rule of the method. The tests switch them on to show that they would detect the error; nothing else uses them.
#pragma once

namespace polter::prediction {

enum class Mutation {
    none,
    borders_wrap,         // pattern: open borders count as periodic
    any_offsets,          // pattern: no rank has to have all partners of the pattern
    borders_inside,       // layout: copies of border ranks stand inside of the grid
    wrong_partner,        // layout: messages go one rank further
    noise_by_rank,        // noise: each rank of a host draws its own blocks
    noise_shuffled,       // noise: blocks keep their number of events, not their places
    noise_costs_waits,    // simulation: noise in a wait state costs
    no_algorithm,         // simulation: a collective takes as long after its last arrival, however many take part
    no_residual,          // simulation: what the algorithm does not explain is left out
    one_draw,             // interval: all draws are the first one
    agree_always,         // verdict: the three methods agree, whatever they say
    tsafrir_unscaled,     // Tsafrir: the measured number of ranks
    emma_unscaled,        // EMMA: the measured number of ranks
    no_heavy_tail,        // warnings: no tail is heavy
    hosts_alike,          // noise: hosts that differ are pooled
    longest_as_measured,  // longest events: none is longer than those that were measured
    any_law,              // longest events: the law is never refused
    always_exponential,   // longest events: no other shape
    hosts_unlike,         // noise: hosts that differ by chance are not
    endless_noise,        // noise: it does not end with the draw
};
inline constexpr int mutations = 21;

inline Mutation mutation = Mutation::none;
inline bool mutated(Mutation which) {
    return mutation == which;
}

}  // namespace polter::prediction
