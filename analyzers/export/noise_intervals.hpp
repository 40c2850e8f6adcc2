// SPDX-License-Identifier: BSD-3-Clause
// From noise records to intervals of time that do not overlap: a record takes the time before its end that no earlier record has taken.
//
// The replay's ClaimedTime forgets an interval when the next MPI event comes. Here intervals are kept a while longer, as noise that was
// found late is drawn too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>

namespace polter::exports {

class NoiseIntervals {
  public:
    // How far back late noise is placed: more than a timer tick, the longest delay with which steal is found.
    static constexpr int64_t remembered_ns = 20'000'000;
    static constexpr size_t most = 1 << 16;

    // Places `ns` back from `at`, at most to `floor`; calls `piece(begin, end)` for each stretch, latest first. Returns what has no room.
    // `late`: it lies before noise that was told already, and leaves 1 ns to that.
    template <class Piece>
    int64_t place(int64_t at, int64_t ns, int64_t floor, bool late, Piece piece) {
        floor = std::max(floor, forgotten_);
        size_t i = taken_.size();
        while (i > 0 && taken_[i - 1].begin >= at) --i;
        int64_t top = late && i < taken_.size() ? std::min(at, taken_[i].begin - 1) : at;
        while (ns > 0 && top > floor) {
            const int64_t bottom = i > 0 ? std::max(taken_[i - 1].end, floor) : floor;
            if (bottom < top) {
                const int64_t take = std::min(ns, top - bottom);
                piece(top - take, top);
                taken_.insert(taken_.begin() + static_cast<std::ptrdiff_t>(i), {top - take, top});
                ns -= take;
                top -= take;
                if (ns == 0 || top > bottom) break;
            }
            if (i == 0) break;
            top = std::min(top, taken_[--i].begin - late);
        }
        while (taken_.size() > most || (!taken_.empty() && taken_.front().end < taken_.back().end - remembered_ns)) {
            forgotten_ = taken_.front().end;
            taken_.pop_front();
        }
        return ns;
    }

  private:
    struct Stretch {
        int64_t begin, end;
    };
    std::deque<Stretch> taken_;                                // by time
    int64_t forgotten_ = std::numeric_limits<int64_t>::min();  // what lies before is not known any more
};

}  // namespace polter::exports
