// SPDX-License-Identifier: BSD-3-Clause
// Where in time noise lies. A record at time e of n nanoseconds takes the time before e that no earlier record has claimed, at most back to
// the thread's previous MPI event. Records of nested interruptions, net of each other, then fit. For noise that is recorded long after its
// end, RecentRoom finds an interval with enough time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

namespace polter::replay {

struct NoisePiece {
    int64_t begin = 0, end = 0;  // measured time
    uint16_t account = 0;
    // 1-based index of the noise record; it may have several pieces in a row
    uint32_t culprit = UINT32_MAX, number = 0;
};

class ClaimedTime {
  public:
    // Starts an interval: nothing before `floor` can be claimed from now on.
    void start(int64_t floor) {
        floor_ = floor;
        taken_ = 0;
        claimed_.clear();
    }
    int64_t floor() const { return floor_; }
    // Unclaimed ns between the floor and `until`.
    int64_t room(int64_t until) const { return std::max<int64_t>(0, until - floor_ - taken_); }

    // Claims `ns` back from `at`; calls `piece(begin, end)` for each stretch, latest first. Returns what did not fit.
    template <class Piece>
    int64_t claim(int64_t at, int64_t ns, Piece piece) {
        // Stretches are disjoint and ordered; those that reach `at` or lie behind what is filled are merged into one.
        size_t i = claimed_.size();
        while (i > 0 && claimed_[i - 1].begin >= at) --i;  // records of other sources may end later
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

// A thread's latest intervals between MPI events, with their unclaimed time. Noise that is recorded late lies in one of them, where there
// is enough unclaimed time.
class RecentRoom {
  public:
    // No timer tick is longer; steal is recorded at the next tick.
    static constexpr int64_t remembered_ns = 10'000'000;
    static constexpr int64_t least_ns = 5'000;  // shorter intervals are not kept: there may be millions

    void add(int64_t begin, int64_t end, int64_t free) {
        if (end - begin < least_ns) return;
        intervals_.push_back({begin, end, free});
        while (intervals_.front().end < end - remembered_ns) intervals_.pop_front();
    }

    // Places `ns` of noise that ended by `at`: calls `place(end, ns)` for the latest interval with room for all of it, or else for those
    // with the most room. Returns the ns that fit nowhere.
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

    // The end of noise of `ns` that was recorded as ended at `at`. The clocks of the kernel and of the trace differ slightly: if most of it
    // has no room since the last event, it ended before that event.
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
