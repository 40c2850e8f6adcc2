// SPDX-License-Identifier: BSD-3-Clause
// Segments that should last equally long: by how much they compute, and by what they communicate.
//
// Source: Shah, Mueller, Wolf, Euro-Par 2018, section 2: "Clustering with Relative Distance", "Grouping Segments".
#pragma once

#include <cstdint>
#include <vector>

#include "segments.hpp"

namespace polter::interference {

inline constexpr double relative_distance = 0.1;
inline constexpr size_t least_members = 5;  // smaller groups are not used

// One-dimensional clusters of values >= 0, in one pass over them in ascending order: the next value joins the cluster of the one below
// unless it is larger by `distance` of that one or more. Neighbours are compared, so a cluster may span more. 0 is a cluster of its own.
// Clusters are numbered in the order of values. Throws samples::Error for a value that is no number, or below 0.
std::vector<uint32_t> cluster(const std::vector<double>& values, double distance = relative_distance);

struct Group {
    std::vector<size_t> members;  // segments, in order
    double least_computing = 0, most_computing = 0;
    uint32_t kind = 0;  // index of Run::kinds
    bool used() const { return members.size() >= least_members; }
};

// In the order of their first members.
std::vector<Group> group(const Run&);

// The groups of two runs, each pair of what is the same in both.
struct Pairing {
    std::vector<size_t> a, b;  // members
};
std::vector<Pairing> group_together(const Run& a, const Run& b);

}  // namespace polter::interference
