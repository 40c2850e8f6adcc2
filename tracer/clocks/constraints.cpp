// SPDX-License-Identifier: BSD-3-Clause
#include "constraints.hpp"

#include <algorithm>

namespace polter::clocks {

Constraints::Constraints(int64_t first, int64_t last)
    : first_(first), width_(std::max<int64_t>(1, (last - first) / static_cast<int64_t>(parts) + 1)), parts_(parts) {}

void Constraints::add(const Point& point) {
    const int64_t number = std::clamp<int64_t>((point.time - first_) / width_, 0, static_cast<int64_t>(parts) - 1);
    Part& part = parts_[static_cast<size_t>(number)];
    auto& points = part.side[point.upper];
    points.push_back(point);
    ++count_;
    seen_[point.upper] = true;
    if (points.size() < part.limit[point.upper]) return;
    reduce(points);
    // Half of the room is free again, or the hull itself is that large.
    part.limit[point.upper] = std::max(room, 2 * points.size());
}

// Andrew's monotone chain: of upper bounds the lower hull, of lower bounds the upper one.
void Constraints::reduce(std::vector<Point>& points) {
    if (points.size() < 3) return;
    const bool upper = points.front().upper;
    std::sort(points.begin(), points.end(),
              [](const Point& a, const Point& b) { return a.time != b.time ? a.time < b.time : a.offset < b.offset; });
    size_t kept = 0;
    for (const Point& point : points) {
        // Of one time the tightest.
        if (kept && points[kept - 1].time == point.time) {
            if (upper || points[kept - 1].offset >= point.offset) continue;
            --kept;
        }
        while (kept >= 2) {
            const Point &a = points[kept - 2], &b = points[kept - 1];
            const __int128 turn = static_cast<__int128>(b.time - a.time) * (point.offset - a.offset) -
                                  static_cast<__int128>(b.offset - a.offset) * (point.time - a.time);
            if (upper ? turn > 0 : turn < 0) break;
            --kept;
        }
        points[kept++] = point;
    }
    points.resize(kept);
}

std::vector<Point> Constraints::points() const {
    std::vector<Point> all;
    for (const Part& part : parts_) {
        for (const auto& side : part.side) {
            auto points = side;
            reduce(points);
            all.insert(all.end(), points.begin(), points.end());
        }
    }
    std::sort(all.begin(), all.end(), [](const Point& a, const Point& b) { return a.time < b.time; });
    return all;
}

}  // namespace polter::clocks
