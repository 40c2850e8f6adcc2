// SPDX-License-Identifier: BSD-3-Clause
#include "lines.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fit.hpp"

namespace polter::clocks {
namespace {

constexpr int halvings = 64;  // of the range of rates: below 1e-21

}  // namespace

Lines::Lines(std::span<const Point> points, int64_t time, double wander) : points_(points), time_(time), wander_(wander * 1e-9 / 2) {
    double low = -most_rate, high = most_rate;
    best_gap_ = -std::numeric_limits<double>::infinity();
    for (int i = 0; i < halvings; ++i) {
        const double rate = (low + high) / 2;
        const Bounds bounds = at(rate);
        if (bounds.gap() > best_gap_) {
            best_gap_ = bounds.gap();
            best_rate_ = rate;
        }
        if (bounds.gap() == std::numeric_limits<double>::infinity() || bounds.gap_slope() == 0) break;
        (bounds.gap_slope() > 0 ? low : high) = rate;
    }
}

Lines::Bounds Lines::at(double rate) const {
    Bounds out{-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(), 0, 0};
    for (const Point& point : points_) {
        const double distance = static_cast<double>(point.time - time_);
        const double value = static_cast<double>(point.offset) - rate * distance, bend = wander_ * distance * distance;
        if (point.upper) {
            if (value + bend < out.high) out.high = value + bend, out.high_at = distance;
        } else {
            if (value - bend > out.low) out.low = value - bend, out.low_at = distance;
        }
    }
    // d(high)/d(rate) is −high_at, so the gap changes by low_at − high_at.
    return out;
}

double Lines::rate_of_gap(double least, double limit) const {
    double inside = best_rate_, outside = limit;
    if (at(limit).gap() >= least) return limit;
    for (int i = 0; i < halvings; ++i) {
        const double rate = (inside + outside) / 2;
        (at(rate).gap() >= least ? inside : outside) = rate;
    }
    return inside;
}

Lines::Line Lines::middle() const {
    // The gap is flat at its top where one end of the run has the narrowest bounds.
    const double least = best_gap_ - std::max(1.0, std::abs(best_gap_) * 1e-3);
    const double rate = (rate_of_gap(least, -most_rate) + rate_of_gap(least, most_rate)) / 2;
    const Bounds bounds = at(rate);
    if (bounds.gap() == std::numeric_limits<double>::infinity()) return {bounds.low > -1e300 ? bounds.low : bounds.high, rate};
    return {(bounds.low + bounds.high) / 2, rate};
}

Lines::Range Lines::range() const {
    if (!feasible()) {
        const Bounds bounds = at(best_rate_);
        return {bounds.high, bounds.low};
    }
    double least = rate_of_gap(0, -most_rate), most = rate_of_gap(0, most_rate);
    Range out{at(best_rate_).low, at(best_rate_).high};
    const auto extreme = [&](auto value, auto slope_positive) {
        double low = least, high = most;
        for (int i = 0; i < halvings; ++i) {
            const double rate = (low + high) / 2;
            const Bounds bounds = at(rate);
            value(bounds);
            (slope_positive(bounds) ? low : high) = rate;
        }
        value(at(low));
        value(at(high));
    };
    // The highest offset: high(rate) is concave with slope −high_at. The lowest: low(rate) is convex with slope −low_at.
    extreme([&](const Bounds& b) { out.high = std::max(out.high, b.high); }, [](const Bounds& b) { return b.high_at < 0; });
    extreme([&](const Bounds& b) { out.low = std::min(out.low, b.low); }, [](const Bounds& b) { return b.low_at > 0; });
    return out;
}

}  // namespace polter::clocks
