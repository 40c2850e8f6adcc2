// SPDX-License-Identifier: BSD-3-Clause
// The straight lines that respect a set of points, seen from one time: a linear programme in two variables, the offset at that time and
// the rate. A point far from that time is relaxed by as much as the clock may have bent until there.
#pragma once

#include <span>

#include "constraints.hpp"

namespace polter::clocks {

class Lines {
  public:
    struct Line {
        double offset = 0, rate = 0;  // offset at the time in question
    };
    struct Range {
        double low = 0, high = 0;
    };

    // The points must outlive it. `wander`: change of the rate per second.
    Lines(std::span<const Point> points, int64_t time, double wander);

    bool feasible() const { return best_gap_ >= 0; }
    // Farthest from the points of both sides; where several are, the middle one. If none is feasible, the one that misses least.
    Line middle() const;
    // Of the offset over all feasible lines; infinite where no point bounds it. If none is feasible, from where the line that misses
    // least misses the points.
    Range range() const;

  private:
    // The tightest bounds on the offset for one rate, and the distances in time of the points that give them.
    struct Bounds {
        double low, high;
        double low_at, high_at;
        double gap() const { return high - low; }
        double gap_slope() const { return low_at - high_at; }
    };
    Bounds at(double rate) const;
    // Where the gap, which is concave in the rate, falls to `least` between its maximum and `limit`.
    double rate_of_gap(double least, double limit) const;

    std::span<const Point> points_;
    int64_t time_;
    double wander_;
    double best_rate_ = 0, best_gap_ = 0;
};

}  // namespace polter::clocks
