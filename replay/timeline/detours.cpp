// SPDX-License-Identifier: BSD-3-Clause
#include "detours.hpp"

#include <algorithm>

namespace polter::replay {

namespace {

constexpr int64_t buckets = 1 << 18;

}  // namespace

Detours::Detours(const std::vector<std::vector<int64_t>>& masks, size_t threads, int64_t first, int64_t last)
    : masks_(masks),
      first_(first),
      last_(std::max(last, first + 1)),
      width_((last_ - first_) / buckets + 1),
      anywhere_(buckets, 0),
      in_calls_(buckets, 0),
      computes_(threads, 0),
      carries_rank_(threads, false),
      intervals_(threads) {}

Observers Detours::following() {
    Observers observers;
    observers.at_noise = [this](const Thread& thread, const PendingNoise& record, int64_t begin, int64_t end) {
        if (!thread.carries_rank || masks_[record.account][1] == 0) return;
        add(anywhere_, begin, end);
        if (thread.in_call || thread.polling.active)
            add(in_calls_, begin, end);
        else
            computes_[thread.index] -= end - begin;
    };
    observers.at_event = [this](const Thread& thread, int64_t, const int64_t* delay) {
        if (!thread.carries_rank) return;
        carries_rank_[thread.index] = true;
        FollowedInterval interval;
        if (!intervals_.note(thread, delay[1], interval) || interval.in_call || thread.polling.active) return;
        computes_[thread.index] += interval.end - interval.begin;
    };
    return observers;
}

void Detours::add(Cells& cells, int64_t begin, int64_t end) const {
    begin = std::clamp(begin, first_, last_) - first_;
    end = std::clamp(end, first_, last_) - first_;
    while (begin < end) {
        const int64_t bucket = begin / width_, upto = std::min(end, (bucket + 1) * width_);
        cells[static_cast<size_t>(bucket)] += upto - begin;
        begin = upto;
    }
}

int64_t Detours::hit(const Cells& cells) const {
    int64_t sum = 0;
    for (const int64_t cell : cells) sum += std::min(cell, width_);
    return sum;
}

int64_t Detours::most(int64_t replayed) const {
    if (std::count(carries_rank_.begin(), carries_rank_.end(), true) < 2) return replayed;
    const int64_t computes = *std::max_element(computes_.begin(), computes_.end());
    return std::max(replayed, std::min({replayed + hit(in_calls_), hit(anywhere_), last_ - first_ - computes}));
}

}  // namespace polter::replay
