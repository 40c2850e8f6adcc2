// SPDX-License-Identifier: BSD-3-Clause
// Lanes: the scenarios that one pass evaluates side by side. A lane is a set of removed accounts; the state of a thread is its
// delay in each lane, `D = measured − approximated time`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace polter::replay {

struct Lanes {
    size_t count = 0;  // estimates and, where asked for, two bounds behind them
    size_t estimates = 0;
    // The scenario "all" with the costs and positions that make its end earliest and latest; count where there are no bounds.
    size_t low = 0, high = 0;
    size_t all = 0;                           // their estimate
    std::vector<std::vector<int64_t>> masks;  // by account: −1 in the lanes that remove it, 0 in the others

    bool bounded() const { return low < count; }
};

// `d += n` in the lanes that remove the account.
inline void remove_noise(int64_t* d, const int64_t* mask, int64_t n, size_t lanes) {
    for (size_t i = 0; i < lanes; ++i) d[i] += n & mask[i];
}

inline void copy_lanes(int64_t* to, const int64_t* from, size_t lanes) {
    for (size_t i = 0; i < lanes; ++i) to[i] = from[i];
}

inline void lower_to(int64_t* d, const int64_t* other, int64_t residual, size_t lanes) {
    for (size_t i = 0; i < lanes; ++i) {
        const int64_t candidate = other[i] + residual;
        d[i] = candidate < d[i] ? candidate : d[i];
    }
}

inline void raise_to(int64_t* d, const int64_t* other, size_t lanes) {
    for (size_t i = 0; i < lanes; ++i) d[i] = other[i] > d[i] ? other[i] : d[i];
}

}  // namespace polter::replay
