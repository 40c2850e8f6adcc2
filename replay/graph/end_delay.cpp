// SPDX-License-Identifier: BSD-3-Clause
#include "end_delay.hpp"

#include <algorithm>

namespace polter::replay {

Payment::Payment(int64_t first, int64_t last, uint32_t windows, size_t lanes)
    : first_(first), span_(std::max<int64_t>(1, last - first)), windows_(std::max(windows, 1u)), before_(lanes, 0) {}

uint32_t Payment::window(int64_t time) const {
    const auto at = static_cast<uint32_t>(static_cast<__int128>(std::max<int64_t>(0, time - first_)) * windows_ / span_);
    return std::min(at, windows_ - 1);
}

void Payment::add(const Cell& cell, const std::vector<int64_t>& changes) {
    std::vector<int64_t>& mine = cells_[cell];
    mine.resize(before_.size(), 0);
    for (size_t i = 0; i < mine.size(); ++i) mine[i] += changes[i];
}

void Payment::come_to(int64_t time, const int64_t* delay, const Place& place) {
    if (std::equal(before_.begin(), before_.end(), delay)) return;
    std::vector<int64_t>& cell = cells_[{window(time), place}];
    cell.resize(before_.size(), 0);
    for (size_t i = 0; i < before_.size(); ++i) {
        cell[i] += delay[i] - before_[i];
        before_[i] = delay[i];
    }
}

}  // namespace polter::replay
