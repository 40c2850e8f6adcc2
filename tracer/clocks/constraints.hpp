// SPDX-License-Identifier: BSD-3-Clause
// What messages say about the offset of one clock from another: each is received after it was sent, so its two stamps bound the offset
// (reference − own) from one side. Kept exactly and in bounded memory: of each part of the run only the points of the convex hull remain,
// because a straight line respects all points if it respects those.
//
// Times and offsets are nanoseconds; `time` is of the own clock. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace polter::clocks {

struct Point {
    int64_t time = 0;
    int64_t offset = 0;  // a bound on reference − own at that time
    bool upper = false;  // which of both
};

class Constraints {
  public:
    // Points are expected between the two times; others count to the first or last part.
    Constraints(int64_t first, int64_t last);

    // A message sent by the own clock at `sent` was received by the reference at `received`.
    void to_reference(int64_t sent, int64_t received) { add({sent, received - sent, true}); }
    // A message sent by the reference at `sent` was received by the own clock at `received`.
    void from_reference(int64_t sent, int64_t received) { add({received, sent - received, false}); }
    void add(const Point&);

    uint64_t count() const { return count_; }  // of all that were added
    bool both_sides() const { return seen_[0] && seen_[1]; }
    // Those that still count, by time.
    std::vector<Point> points() const;

  private:
    static constexpr size_t parts = 256, room = 512;
    static void reduce(std::vector<Point>& of_one_side);

    int64_t first_, width_;
    uint64_t count_ = 0;
    bool seen_[2] = {false, false};
    struct Part {
        std::vector<Point> side[2];
        size_t limit[2] = {room, room};
    };
    std::vector<Part> parts_;
};

}  // namespace polter::clocks
