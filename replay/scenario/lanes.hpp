// SPDX-License-Identifier: BSD-3-Clause
// Lanes: the scenarios that one pass evaluates side by side. A lane is a set of removed accounts; the state of a thread is its
// delay in each lane, `D = measured − approximated time`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace polter::replay {

struct Lanes {
    size_t count = 0;  // estimates, followed by the two bounds if asked for
    size_t estimates = 0;
    // Lanes of the scenario "all" whose costs and placement of noise make its end earliest (low) and latest (high); `count` if there are
    // none.
    size_t low = 0, high = 0;
    size_t all = 0;                           // the estimate of "all"
    std::vector<std::vector<int64_t>> masks;  // by account: −1 in the lanes that remove it, 0 in the others

    bool bounded() const { return low < count; }
};

// A constraint: the call would have ended `residual` earlier than measured if this delay were its only dependency.
struct LaneBound {
    const int64_t* delay = nullptr;
    int64_t residual = 0;
};

// The inner loops over lanes, for one kind of processor. An output vector may be the same as an input vector; otherwise they do not
// overlap.
struct LaneLoops {
    const char* name;
    // `d += n` in the lanes that remove the account.
    void (*remove)(int64_t* d, const int64_t* mask, int64_t n, size_t lanes);
    // `t += n` in the lanes that keep it.
    void (*keep)(int64_t* t, const int64_t* mask, int64_t n, size_t lanes);
    void (*raise)(int64_t* d, const int64_t* other, size_t lanes);
    // `t = max(t, other) + n`.
    void (*raise_and_add)(int64_t* t, const int64_t* other, int64_t n, size_t lanes);
    // `t = max(t, time − delay)`.
    void (*raise_to_time)(int64_t* t, int64_t time, const int64_t* delay, size_t lanes);
    // `d = min over bounds (delay + residual)`, of one bound or more; `d` may be the delay of the first.
    void (*least)(int64_t* d, const LaneBound* bounds, size_t count, size_t lanes);
};

// All implementations that run on this processor; the plain one first, the one in use last.
const std::vector<LaneLoops>& lane_loops();
extern const LaneLoops best_lane_loops;

inline void remove_noise(int64_t* d, const int64_t* mask, int64_t n, size_t lanes) {
    best_lane_loops.remove(d, mask, n, lanes);
}

inline void keep_noise(int64_t* t, const int64_t* mask, int64_t n, size_t lanes) {
    best_lane_loops.keep(t, mask, n, lanes);
}

inline void raise_to(int64_t* d, const int64_t* other, size_t lanes) {
    best_lane_loops.raise(d, other, lanes);
}

inline void raise_and_add(int64_t* t, const int64_t* other, int64_t n, size_t lanes) {
    best_lane_loops.raise_and_add(t, other, n, lanes);
}

inline void raise_to_time(int64_t* t, int64_t time, const int64_t* delay, size_t lanes) {
    best_lane_loops.raise_to_time(t, time, delay, lanes);
}

inline void least_of(int64_t* d, std::span<const LaneBound> bounds, size_t lanes) {
    best_lane_loops.least(d, bounds.data(), bounds.size(), lanes);
}

}  // namespace polter::replay
