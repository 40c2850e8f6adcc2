// SPDX-License-Identifier: BSD-3-Clause
// From the constraints of messages to a piecewise linear offset with a lower and an upper bound.
//
// Assumption: between two breaks the rate of a clock changes by at most `wander` per second (README.md). Under it, and as long as each
// message was received after it was sent, the true offset is within the bounds. What contradicts it is a break: the clock was stepped, or
// its rate was changed.
#pragma once

#include <cstdint>
#include <vector>

#include "constraints.hpp"

namespace polter::clocks {

inline constexpr double wander_per_second = 1e-9;  // of the rate
inline constexpr double most_rate = 2e-3;          // by which two clocks may differ; NTP slews by 5e-4 at most

// Between knots the offset is linear.
struct Knot {
    int64_t time = 0;    // of the own clock
    int64_t offset = 0;  // to be added
    int64_t error = 0;   // the true offset is at most so far from it, up to the next knot
};

// Somewhere between two times of the own clock its offset jumped by `step_ns`, or its rate changed.
struct Break {
    int64_t from = 0, to = 0;
    int64_t step_ns = 0;        // 0: its rate changed only
    int64_t step_error_ns = 0;  // how far the true step may be from it
    double rate_change = 0;
};

struct Correction {
    std::vector<Knot> knots;  // by time, at least one
    std::vector<Break> breaks;
    int64_t error_ns = 0;         // the largest of the knots
    uint64_t contradictions = 0;  // points that no offset can respect: they were left out

    int64_t at(int64_t time) const;        // extended beyond the ends with the rate there
    int64_t error_at(int64_t time) const;  // beyond the ends that of the end
};

// The whole time from `first` to `last` gets a correction. Needs constraints of both sides.
Correction fit(const Constraints&, int64_t first, int64_t last);

}  // namespace polter::clocks
