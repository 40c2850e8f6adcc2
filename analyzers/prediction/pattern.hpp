// SPDX-License-Identifier: BSD-3-Clause
// Which regular neighbourhood the ranks of a trace form: found from who sends to whom.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "replay/model/program.hpp"

namespace polter::prediction {

inline constexpr size_t most_dimensions = 3;
using Point = std::array<int32_t, most_dimensions>;  // unused dimensions are 0, their size is 1

// Ranks in a grid, the last dimension fastest, as MPI_Cart_create numbers them.
struct Grid {
    size_t dimensions = 1;
    Point size{1, 1, 1};
    std::array<bool, most_dimensions> periodic{};

    int32_t ranks() const { return size[0] * size[1] * size[2]; }
    Point at(int32_t rank) const { return {rank / (size[1] * size[2]), rank / size[2] % size[1], rank % size[2]}; }
    int32_t rank(const Point& p) const { return (p[0] * size[1] + p[1]) * size[2] + p[2]; }
    Point offset(int32_t from, int32_t to) const;            // the shortest way, round periodic dimensions
    int32_t neighbour(int32_t rank, const Point& way) const;  // -1: beyond an open border
};

struct Pattern {
    Grid grid;
    std::set<Point> offsets;  // of the messages; none: no messages
    Point width{};            // of the borders: the farthest offset in each open dimension
    std::string name;         // "ring", "open 2-D grid, 8 x 8", …
    std::string irregular;    // why there is none; empty: there is
};

Pattern find_pattern(const replay::Programs&);

// The grid of so many ranks that extends the measured one: each dimension at least as long, and all in about the same relation. `wanted`:
// its lengths, where the caller knows them. `why`: what is wrong, where there is none.
struct Extended {
    Grid grid;
    std::string why;
};
Extended extend(const Pattern&, int64_t ranks, const std::vector<int64_t>& wanted);

std::string shape_of(const Grid&);  // "16 x 16"

}  // namespace polter::prediction
