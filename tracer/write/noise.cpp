// SPDX-License-Identifier: BSD-3-Clause
#include "noise.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "location.hpp"
#include "own_part.hpp"

namespace polter::write {
namespace {

constexpr size_t batch = 64;
constexpr size_t most_aside = 1u << 16;  // 3 MiB of addresses, of memory what is used; then the ring loses its oldest again

class Busy {
  public:
    explicit Busy(volatile bool& busy) : busy_(busy) { busy_ = true; }
    ~Busy() { busy_ = false; }
    Busy(const Busy&) = delete;

  private:
    volatile bool& busy_;
};

}  // namespace

// Pages of its own and no malloc: an allocator may yield with its locks held.
void NoiseFeed::empty_ring() {
    if (busy_) return;
    const Busy busy(busy_);
    if (!aside_.entries) {
        const int error = errno;
        void* memory =
            mmap(nullptr, most_aside * sizeof *aside_.entries, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        errno = error;
        if (memory == MAP_FAILED) return;
        aside_.entries = static_cast<polter_ring_entry*>(memory);
    }
    aside_.end += polter_noise_drain(page_, UINT64_MAX, aside_.entries + aside_.end, most_aside - aside_.end, &aside_.lost);
}

// As polter_noise_drain, of what was put aside and then of the ring.
size_t NoiseFeed::drain(uint64_t until, polter_ring_entry* out, size_t capacity, uint64_t* lost) {
    const Busy busy(busy_);
    size_t n = 0;
    *lost += std::exchange(aside_.lost, 0);
    while (n < capacity && aside_.first < aside_.end && aside_.entries[aside_.first].end_ns <= until)
        out[n++] = aside_.entries[aside_.first++];
    if (aside_.first < aside_.end) return n;
    aside_.first = aside_.end = 0;
    return n + polter_noise_drain(page_, until, out + n, capacity - n, lost);
}

void NoiseFeed::begin() {
    polter_ring_entry entries[batch];
    polter_counters counters{};
    // A state in which counters and ring agree: all that was recorded has been taken. New noise in between: again.
    for (int i = 0; i < 100; i++) {
        uint64_t lost = 0;
        while (size_t n = drain(UINT64_MAX, entries, batch, &lost)) taken_ += n;
        taken_ += lost;
        if (polter_noise_snapshot(page_, &counters) == 0 && counters.recorded <= taken_) break;
    }
    taken_ = std::max(taken_, counters.recorded);
    for (unsigned a = 0; a < POLTER_ACCOUNTS; a++) written_[a] = counters.ns[a];
    unrecorded_ = counters.dropped;
}

void NoiseFeed::write_baseline(uint64_t time, Location& location) {
    first_ns_ = time;
    for (unsigned a = 0; a < POLTER_ACCOUNTS; a++)
        if (header().accounts_seen >> a & 1) location.metric(time, a, written_[a], nullptr);
}

void NoiseFeed::write(const polter_ring_entry& e, uint64_t time, const polter_counters* bound, Location& location) {
    if (e.account >= POLTER_ACCOUNTS) return;  // the counters will tell what it was
    uint64_t& sum = written_[e.account];
    sum += e.duration_ns;
    if (bound) sum = std::min(sum, std::max(bound->ns[e.account], sum - e.duration_ns));
    if (e.end_ns > first_ns_) location.metric(std::min(e.end_ns, time), e.account, sum, e.culprit);
}

// What the counters say beyond `held`, of which records are still to come.
void NoiseFeed::write_rest(uint64_t time, const polter_counters& counters, const uint64_t (&held)[POLTER_ACCOUNT_SLOTS],
                           Location& location) {
    const bool has_ring = header().backend != POLTER_BACKEND_PROC;
    for (unsigned a = 0; a < POLTER_ACCOUNTS; a++) {
        if (counters.ns[a] <= written_[a] + held[a]) continue;
        const uint64_t sum = counters.ns[a] - held[a];
        if (has_ring && !(POLTER_WITHOUT_RECORDS >> a & 1)) dropped_ns_ += sum - written_[a];
        written_[a] = sum;
        location.metric(time, a, sum, nullptr);
    }
    dropped_ += counters.dropped - unrecorded_;
    unrecorded_ = counters.dropped;
}

bool NoiseFeed::moved_in_file(uint64_t time) const {
    const NoCancel no_cancel;
    return polter_noise_moved_at(page_, time);
}

void NoiseFeed::take(uint64_t time, Location& location) {
    const NoCancel no_cancel;
    polter_ring_entry entries[batch];
    polter_counters counters;
    uint64_t lost = 0;
    size_t n;
    do {
        n = drain(time, entries, batch, &lost);
        if (lost) [[unlikely]]
            return take_overwritten(time, location, {entries, entries + n}, lost);
        // After the drain, so that these counters contain all that was taken.
        const bool consistent = polter_noise_snapshot(page_, &counters) == 0;
        taken_ += n;
        for (size_t i = 0; i < n; i++) write(entries[i], time, consistent ? &counters : nullptr, location);
        if (!consistent) {
            pending_ = true;
            return;
        }
    } while (n == batch);
    pending_ = counters.recorded > taken_;
    if (pending_) return;  // which part of the counters is still to come cannot be told before it is taken
    write_rest(time, counters, {}, location);
}

void NoiseFeed::take_overwritten(uint64_t time, Location& location, std::vector<polter_ring_entry> kept, uint64_t lost) {
    polter_ring_entry entries[batch];
    polter_counters counters;
    while (size_t n = drain(time, entries, batch, &lost)) kept.insert(kept.end(), entries, entries + n);
    const bool consistent = polter_noise_snapshot(page_, &counters) == 0;
    taken_ += kept.size() + lost;
    dropped_ += lost;
    pending_ = !consistent || counters.recorded > taken_;
    if (!pending_) {
        uint64_t held[POLTER_ACCOUNT_SLOTS] = {};
        for (const auto& e : kept)
            if (e.account < POLTER_ACCOUNTS) held[e.account] += e.duration_ns;
        const uint64_t begins = kept.empty() ? time : kept.front().end_ns - std::min(kept.front().end_ns, kept.front().duration_ns);
        write_rest(std::clamp(begins, std::min(location.last(), time), time), counters, held, location);
    }
    for (const auto& e : kept) write(e, time, consistent ? &counters : nullptr, location);
}

void NoiseFeed::close() {
    if (!page_) return;
    exporter_ended_ns_ = polter_noise_ended_ns(page_);
    polter_noise_close(page_);
    page_ = nullptr;
    if (aside_.entries) munmap(aside_.entries, most_aside * sizeof *aside_.entries);
    aside_ = {};
    pending_ = false;
}

}  // namespace polter::write
