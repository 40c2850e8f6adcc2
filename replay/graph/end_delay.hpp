// SPDX-License-Identifier: BSD-3-Clause
// Where the accumulated noise was paid: between which events the delay of the rank that ends last changed, and by how much.
//
// A cell is an operation or region and a window of measured time. By lane it holds the sum of the changes of the delay D = measured −
// approximated time over the intervals of that place that end in that window. The cells of a lane add up to the delay at the rank's end. A
// cell is negative where a wait is longer without the noise.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "replay/trace/call_path.hpp"

namespace polter::replay {

class Payment {
  public:
    struct Cell {
        uint32_t window = 0;
        Place place;
        auto operator<=>(const Cell&) const = default;
    };

    // Divides the measured time from `first` to `last` into `windows` equal parts.
    Payment(int64_t first, int64_t last, uint32_t windows, size_t lanes);

    // `delay`: at the end of an interval, by lane.
    void come_to(int64_t time, const int64_t* delay, const Place& place);

    uint32_t windows() const { return windows_; }
    uint32_t window(int64_t time) const;
    const std::map<Cell, std::vector<int64_t>>& cells() const { return cells_; }
    void add(const Cell& cell, const std::vector<int64_t>& changes);  // adds the cell of another analysis process

  private:
    int64_t first_, span_;
    uint32_t windows_;
    std::vector<int64_t> before_;
    std::map<Cell, std::vector<int64_t>> cells_;
};

}  // namespace polter::replay
