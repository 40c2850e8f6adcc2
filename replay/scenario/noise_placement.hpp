// SPDX-License-Identifier: BSD-3-Clause
// Where in time the noise lies. A record at time e of n nanoseconds fills the time before e that no earlier record has claimed,
// back to the previous MPI event of the thread at most; so durations that are net of what is nested in them fall into place.
// Where a record is made later than the noise ended, RecentRoom finds the time in which it can have been.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
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
        taken_ = 0;
        claimed_.clear();
    }
    int64_t floor() const { return floor_; }
    // So much between the floor and `until` is not claimed.
    int64_t room(int64_t until) const { return std::max<int64_t>(0, until - floor_ - taken_); }

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
                taken_ += take;
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
    int64_t floor_ = 0, taken_ = 0;
    std::vector<Stretch> claimed_;
};

// A thread's latest intervals between MPI events, with the time in them that no noise has claimed. Noise that is made known late is in one
// of them: somewhere between two events there is as much time as it took.
class RecentRoom {
  public:
    // A timer tick is no longer than this, and what the hypervisor took is found at the next one.
    static constexpr int64_t remembered_ns = 10'000'000;
    static constexpr int64_t least_ns = 5'000;  // shorter intervals are not remembered: there may be millions

    void add(int64_t begin, int64_t end, int64_t free) {
        if (end - begin < least_ns) return;
        intervals_.push_back({begin, end, free});
        while (intervals_.front().end < end - remembered_ns) intervals_.pop_front();
    }

    // Where `ns` that ended by `at` have room: calls `place(end, ns)` for the latest interval with room for all of it; where there is none,
    // for those with the most room. Returns what has no room anywhere.
    template <class Place>
    int64_t find(int64_t at, int64_t ns, Place place) {
        while (ns > 0) {
            Interval* best = nullptr;
            for (size_t i = intervals_.size(); i > 0; --i) {
                Interval& interval = intervals_[i - 1];
                if (interval.end < at - remembered_ns) break;
                if (interval.room(at) <= (best ? best->room(at) : 0)) continue;
                best = &interval;
                if (best->room(at) >= ns) break;
            }
            if (!best) break;
            const int64_t part = std::min(ns, best->room(at));
            best->free -= part;
            ns -= part;
            place(std::min(at, best->end), part);
        }
        return ns;
    }

    // The end of noise of `ns` that is said to have ended at `at`: the clocks of who says so and of the events differ a little, and where
    // most of it would lie before the last event, it ended before that one.
    int64_t ended(int64_t at, int64_t ns) {
        for (size_t i = intervals_.size(); i > 0; --i) {
            Interval& interval = intervals_[i - 1];
            if (interval.begin >= at) continue;
            const int64_t room = interval.room(at);
            if (interval.end >= at ? room >= ns / 2 : room >= ns) {
                interval.free -= std::min(ns, room);
                return std::min(at, interval.end);
            }
            if (interval.end < at - remembered_ns) break;
        }
        return at;
    }

  private:
    struct Interval {
        int64_t begin, end, free;
        int64_t room(int64_t at) const { return std::min(free, at - begin); }
    };
    std::deque<Interval> intervals_;
};

}  // namespace polter::replay
