// SPDX-License-Identifier: BSD-3-Clause
#include "fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lines.hpp"

namespace polter::clocks {
namespace {

constexpr size_t most_breaks = 16;
constexpr int64_t grid_steps = 32;
constexpr int64_t unknown_error = std::numeric_limits<int64_t>::max() / 4;

using Iterator = std::vector<Point>::const_iterator;

// A stretch without a break: its points, and the time that it stands for.
struct Stretch {
    size_t begin = 0, end = 0;
    int64_t from = 0, to = 0;
};

int64_t rounded(double value) {
    if (!(std::abs(value) < static_cast<double>(unknown_error))) return unknown_error;
    return static_cast<int64_t>(std::llround(value));
}

class Fit {
  public:
    Fit(std::vector<Point> points, int64_t first, int64_t last) : points_(std::move(points)), first_(first), last_(last) {
        // Offsets may be years; doubles are for what differs from the first.
        base_ = points_.front().offset;
        for (Point& point : points_) point.offset -= base_;
    }

    Correction run() {
        find_stretches();
        for (size_t i = 0; i < stretches_.size(); ++i) write(stretches_[i]);
        widen_around_breaks();
        finish();
        return std::move(out_);
    }

  private:
    std::span<const Point> points(size_t begin, size_t end) const { return {points_.data() + begin, end - begin}; }

    // Whether a clock that wanders as assumed can respect these points: asked at times so near to each other that a step shows.
    bool smooth(size_t begin, size_t end) const {
        const auto some = points(begin, end);
        if (some.size() < 2) return true;
        const int64_t from = some.front().time, length = some.back().time - from;
        for (int64_t i = 0; i <= grid_steps; ++i)
            if (!Lines(some, from + length / grid_steps * i, wander_per_second).feasible()) return false;
        return true;
    }
    bool straight(size_t begin, size_t end) const { return Lines(points(begin, end), points_[begin].time, 0).feasible(); }

    // The largest end of what begins at `begin` for which `holds`. It holds for one point.
    template <typename Holds>
    size_t longest(size_t begin, size_t most, Holds holds) const {
        if (holds(begin, most)) return most;
        size_t good = begin + 1, bad = most;
        while (bad - good > 1) {
            const size_t middle = good + (bad - good) / 2;
            (holds(begin, middle) ? good : bad) = middle;
        }
        return good;
    }

    void find_stretches() {
        const auto is_smooth = [&](size_t begin, size_t end) { return smooth(begin, end); };
        size_t begin = 0;
        std::vector<size_t> starts{0};
        while (begin < points_.size()) {
            const size_t end = longest(begin, points_.size(), is_smooth);
            if (end == points_.size()) break;
            if (out_.breaks.size() == most_breaks) {
                out_.contradictions = points_.size() - end;
                points_.resize(end);
                break;
            }
            // The break may lie before the point that shows it: as far back as the later points alone reach.
            const size_t next_end = longest(end, points_.size(), is_smooth);
            size_t good = end, bad = begin;  // the later stretch may begin at `good`
            while (good - bad > 1) {
                const size_t middle = bad + (good - bad) / 2;
                (smooth(middle, next_end) ? good : bad) = middle;
            }
            const size_t split = std::max(begin + 1, good + (end - good) / 2);
            out_.breaks.push_back({points_[good ? good - 1 : 0].time, points_[end].time, 0, 0});
            starts.push_back(split);
            begin = split;
        }
        starts.push_back(points_.size());
        for (size_t i = 0; i + 1 < starts.size(); ++i)
            stretches_.push_back({starts[i], starts[i + 1], i ? points_[starts[i]].time : first_,
                                  i + 2 < starts.size() ? points_[starts[i + 1] - 1].time : last_});
    }

    struct Line {
        int64_t from = 0;
        double offset = 0, rate = 0;
        double at(int64_t time) const { return offset + rate * static_cast<double>(time - from); }
    };

    // Few straight lines that respect every point, the later beginning where the one before ends.
    void write(const Stretch& stretch) {
        const auto is_straight = [&](size_t begin, size_t end) { return straight(begin, end); };
        for (size_t begin = stretch.begin; begin < stretch.end;) {
            const size_t end = longest(begin, stretch.end, is_straight);
            const int64_t from = begin == stretch.begin ? stretch.from : points_[begin].time;
            const int64_t to = end == stretch.end ? stretch.to : points_[end - 1].time;
            const Lines lines(points(begin, end), from, 0);
            const auto [offset, rate] = lines.middle();
            const Line line{from, offset, rate};
            write(stretch, line, from, std::max(from, to));
            begin = end;
        }
    }

    void write(const Stretch& stretch, const Line& line, int64_t from, int64_t to) {
        int64_t start = from;
        if (!out_.knots.empty()) {  // times must not go back where the offset falls
            const Knot& before = out_.knots.back();
            start = std::max(start, before.time + 1);
            const double fall = static_cast<double>(before.offset) - line.at(start);
            if (fall > 0) start = std::max(start, before.time + rounded(fall) + 2);
        }
        const int64_t step = std::max<int64_t>(1, (last_ - first_) / grid_steps);
        knot(stretch, line, start);
        for (int64_t time = start + step; time < to; time += step) knot(stretch, line, time);
        if (to > start) knot(stretch, line, to);
    }

    void knot(const Stretch& stretch, const Line& line, int64_t time) {
        const double estimate = line.at(time);
        const auto [low, high] = Lines(points(stretch.begin, stretch.end), time, wander_per_second).range();
        out_.knots.push_back({time, rounded(estimate), std::min(unknown_error, rounded(std::max(high - estimate, estimate - low)) + 1)});
    }

    // In the time in which a break may lie the offset is that of either side.
    void widen_around_breaks() {
        for (size_t i = 0; i < out_.breaks.size(); ++i) {
            Break& one = out_.breaks[i];
            const Stretch &before = stretches_[i], &after = stretches_[i + 1];
            const auto low_high = [&](const Stretch& of, int64_t time) {
                return Lines(points(of.begin, of.end), time, wander_per_second).range();
            };
            const auto a = low_high(before, one.to), b = low_high(after, one.to);
            const auto c = low_high(before, one.from), d = low_high(after, one.from);
            // A step is what neither bound explains at both ends of that time.
            const double up = std::min(b.low - a.high, d.low - c.high), down = std::max(b.high - a.low, d.high - c.low);
            if (up > 0 || down < 0) {
                one.step_ns = rounded(((b.low + b.high) - (a.low + a.high)) / 2);
                one.step_error_ns = rounded(((b.high - b.low) + (a.high - a.low)) / 2) + 1;
            }
            one.rate_change = Lines(points(after.begin, after.end), after.from, 0).middle().rate -
                              Lines(points(before.begin, before.end), before.from, 0).middle().rate;
            for (Knot& knot : out_.knots) {
                if (knot.time < one.from || knot.time > one.to) continue;
                for (const Stretch* of : {&before, &after}) {
                    const auto range = low_high(*of, knot.time);
                    const double estimate = static_cast<double>(knot.offset);
                    knot.error =
                        std::max(knot.error, std::min(unknown_error, rounded(std::max(range.high - estimate, estimate - range.low)) + 1));
                }
            }
        }
    }

    // The error of a knot is valid up to the next one: the true offset may bend between them.
    void finish() {
        auto& knots = out_.knots;
        for (size_t i = 0; i + 1 < knots.size(); ++i) {
            const double length = static_cast<double>(knots[i + 1].time - knots[i].time);
            const double bend = wander_per_second * 1e-9 * length * length / 8;
            knots[i].error = std::min(unknown_error, std::max(knots[i].error, knots[i + 1].error) + rounded(bend) + 1);
        }
        for (Knot& knot : knots) {
            knot.offset += base_;
            out_.error_ns = std::max(out_.error_ns, knot.error);
        }
    }

    std::vector<Point> points_;
    int64_t first_, last_, base_ = 0;
    std::vector<Stretch> stretches_;
    Correction out_;
};

}  // namespace

Correction fit(const Constraints& constraints, int64_t first, int64_t last) {
    if (!constraints.both_sides()) return {{{first, 0, unknown_error}}, {}, unknown_error, 0};
    return Fit(constraints.points(), first, last).run();
}

int64_t Correction::at(int64_t time) const {
    if (knots.size() == 1) return knots.front().offset;
    auto after = std::upper_bound(knots.begin(), knots.end(), time, [](int64_t t, const Knot& knot) { return t < knot.time; });
    after = std::clamp(after, knots.begin() + 1, knots.end() - 1);
    const Knot &a = *(after - 1), &b = *after;
    const double rate = static_cast<double>(b.offset - a.offset) / static_cast<double>(b.time - a.time);
    return a.offset + static_cast<int64_t>(std::llround(rate * static_cast<double>(time - a.time)));
}

int64_t Correction::error_at(int64_t time) const {
    auto after = std::upper_bound(knots.begin(), knots.end(), time, [](int64_t t, const Knot& knot) { return t < knot.time; });
    return after == knots.begin() ? after->error : (after - 1)->error;
}

}  // namespace polter::clocks
