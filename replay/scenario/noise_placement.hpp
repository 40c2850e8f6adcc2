// SPDX-License-Identifier: BSD-3-Clause
// Where in time the noise lies. A record at time e of n nanoseconds fills the time before e that no earlier record has claimed,
// back to the previous MPI event of the thread at most; so durations that are net of what is nested in them fall into place.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace polter::replay {

struct NoisePiece {
    int64_t begin = 0, end = 0;  // measured time
    uint16_t account = 0;
    // Which noise event it is a piece of: several pieces in a row may be.
    uint32_t culprit = UINT32_MAX, number = 0;
};

class ClaimedTime {
  public:
    // Nothing before `floor` can be claimed from now on.
    void start(int64_t floor) {
        floor_ = floor;
        claimed_.clear();
    }

    // Claims `ns` back from `at`; calls `piece(begin, end)` for each stretch, latest first. Returns what did not fit.
    template <class Piece>
    int64_t claim(int64_t at, int64_t ns, Piece piece) {
        // Stretches are disjoint and ordered; those that reach `at` or lie behind what is filled are merged into one.
        size_t i = claimed_.size();
        while (i > 0 && claimed_[i - 1].begin >= at) --i;  // records of other accounts may end later
        const size_t last = i;
        int64_t top = at;
        while (ns > 0 && top > floor_) {
            const int64_t bottom = i > 0 ? std::max(claimed_[i - 1].end, floor_) : floor_;
            if (bottom < top) {
                const int64_t take = std::min(ns, top - bottom);
                piece(top - take, top);
                ns -= take;
                top -= take;
                if (ns == 0 && top > bottom) break;
            }
            if (i == 0) break;
            top = std::min(top, claimed_[i - 1].begin);
            --i;
        }
        if (top < at) {
            const int64_t end = last > i ? std::max(at, claimed_[last - 1].end) : at;
            claimed_.erase(claimed_.begin() + static_cast<std::ptrdiff_t>(i), claimed_.begin() + static_cast<std::ptrdiff_t>(last));
            claimed_.insert(claimed_.begin() + static_cast<std::ptrdiff_t>(i), {top, end});
        }
        return ns;
    }

  private:
    struct Stretch {
        int64_t begin, end;
    };
    int64_t floor_ = 0;
    std::vector<Stretch> claimed_;
};

}  // namespace polter::replay
