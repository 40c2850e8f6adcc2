// SPDX-License-Identifier: BSD-3-Clause
// Attribution: who caused the accumulated noise and where it was paid, as one table with exact margins.
//
// Each row has a source, the place where it was paid, a window of measured time, and nanoseconds. The sum over places and windows is
// exactly the source's Shapley share; the sum of all rows is the accumulated noise. Shapley values are linear, so each cell of the rank
// that ends last (graph/end_delay.hpp) is shared out by its own lanes. In lanes in which another rank ends last, the difference is paid in
// a place of its own, `another_rank_ends_last`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace polter::replay {

inline constexpr const char* another_rank_ends_last = "(another rank ends last)";

struct AttributionRow {
    std::string source;
    std::string culprit;  // with `rank`, where its noise hit; only in a table by origin (attribution/origins.hpp)
    int64_t rank = -1;
    std::string where;      // the MPI operation, or the region outside MPI
    std::string caller;     // of an operation: the calling region; else empty
    std::string call_site;  // of an operation, where the trace has it: "exchange (halo.c:123)"
    int64_t window = 0;     // 0-based; the window in which it was paid
    int64_t ns = 0;         // never 0
    size_t account = 0;     // of the definitions
};

struct Attribution {
    int64_t paid_on = -1;  // the rank that ends last; of several, the lowest
    int64_t windows = 0;   // number of equal parts of the measured time
    bool by_origin = false;
    std::vector<AttributionRow> rows;
};

struct Definitions;
class Payment;
class Scenarios;

// `accumulated`: of the program; `end`: delay at the end of the rank that paid it; both by lane. `cells_alone`: a mutation, for the test of
// the margins.
Attribution attribute(const Definitions&, const Scenarios&, const Payment&, const std::vector<int64_t>& accumulated,
                      const std::vector<int64_t>& end, bool cells_alone = false);

}  // namespace polter::replay
