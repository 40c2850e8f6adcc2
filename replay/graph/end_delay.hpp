// SPDX-License-Identifier: BSD-3-Clause
// Where the accumulated noise was paid: on the rank that ends last, by how much its delay changed, between which events.
//
// A cell is an operation or region and a window of measured time; it holds in each lane the sum of the changes of the delay
// D = measured − approximated time over the intervals of that place which end in that window. So the cells of a lane add up to the delay
// at the rank's end. A cell may be negative: a wait that is longer without the noise.
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

    // `windows` equal parts of the measured time from `first` to `last`.
    Payment(int64_t first, int64_t last, uint32_t windows, size_t lanes);

    // The delay at the end of an interval, in lanes.
    void come_to(int64_t time, const int64_t* delay, const Place& place);

    uint32_t windows() const { return windows_; }
    uint32_t window(int64_t time) const;
    const std::map<Cell, std::vector<int64_t>>& cells() const { return cells_; }
    void add(const Cell& cell, const std::vector<int64_t>& changes);  // of another account

  private:
    int64_t first_, span_;
    uint32_t windows_;
    std::vector<int64_t> before_;
    std::map<Cell, std::vector<int64_t>> cells_;
};

}  // namespace polter::replay
