// SPDX-License-Identifier: BSD-3-Clause
#include "noise.hpp"

#include <algorithm>

#include "location.hpp"

namespace polter::write {
namespace {

constexpr size_t batch = 64;

}  // namespace

void NoiseFeed::begin() {
    polter_ring_entry entries[batch];
    polter_counters counters{};
    // A state in which counters and ring agree: all that was recorded has been taken. New noise in between: again.
    for (int i = 0; i < 100; i++) {
        uint64_t lost = 0;
        while (size_t n = polter_noise_drain(page_, UINT64_MAX, entries, batch, &lost)) taken_ += n;
        taken_ += lost;
        if (polter_noise_snapshot(page_, &counters) == 0 && counters.recorded <= taken_) break;
    }
    taken_ = std::max(taken_, counters.recorded);
    for (unsigned a = 0; a < POLTER_ACCOUNTS; a++) {
        written_[a] = counters.ns[a];
        events_[a] = counters.count[a];
    }
}

void NoiseFeed::write_baseline(uint64_t time, Location& location) {
    first_ns_ = time;
    for (unsigned a = 0; a < POLTER_ACCOUNTS; a++)
        if (header().accounts_seen >> a & 1) location.metric(time, a, written_[a], nullptr);
}

void NoiseFeed::take(uint64_t time, Location& location) {
    polter_ring_entry entries[batch];
    polter_counters counters;
    uint64_t lost = 0;
    size_t n;
    do {
        n = polter_noise_drain(page_, time, entries, batch, &lost);
        // After the drain, so that these counters contain all that was taken.
        const bool consistent = polter_noise_snapshot(page_, &counters) == 0;
        taken_ += n;
        for (size_t i = 0; i < n; i++) {
            const polter_ring_entry& e = entries[i];
            if (e.account >= POLTER_ACCOUNTS) continue;  // the counters will tell what it was
            uint64_t& sum = written_[e.account];
            sum += e.duration_ns;
            if (consistent) sum = std::min(sum, std::max(counters.ns[e.account], sum - e.duration_ns));
            events_[e.account]++;
            if (e.end_ns > first_ns_) location.metric(std::min(e.end_ns, time), e.account, sum, e.culprit);
        }
        if (!consistent) {
            taken_ += lost;
            pending_ = true;
            return;
        }
    } while (n == batch);
    taken_ += lost;
    pending_ = counters.recorded > taken_;
    if (pending_) return;  // which part of the counters is still to come cannot be told before it is taken
    const bool has_ring = header().backend == POLTER_BACKEND_BPF || header().backend == POLTER_BACKEND_MODULE;
    for (unsigned a = 0; a < POLTER_ACCOUNTS; a++) {
        if (counters.ns[a] <= written_[a]) continue;
        if (has_ring) {
            dropped_ns_ += counters.ns[a] - written_[a];
            dropped_ += counters.count[a] - std::min(counters.count[a], events_[a]);
        }
        written_[a] = counters.ns[a];
        events_[a] = counters.count[a];
        location.metric(time, a, written_[a], nullptr);
    }
}

uint64_t NoiseFeed::frozen_ns() const {
    if (!page_) return frozen_ns_;
    return header().state == POLTER_PAGE_FROZEN ? header().end_ns : 0;
}

void NoiseFeed::close() {
    if (!page_) return;
    frozen_ns_ = frozen_ns();
    polter_noise_close(page_);
    page_ = nullptr;
    pending_ = false;
}

}  // namespace polter::write
