// SPDX-License-Identifier: BSD-3-Clause
// The measured noise as blocks of time by host, and the noise that a virtual rank draws from them.
//
// A virtual host draws for each block of time one of the measured blocks of the hosts with as many ranks: what the ranks of a host suffered
// at the same time stays together. Where hosts differ by more than chance, it is a copy of one of them and draws that one's blocks. For each
// draw the blocks themselves are resampled first (a bootstrap), so that draws differ by what the sample leaves open, too. Block bootstrap:
// Kuensch, Annals of Statistics 17 (1989). The longest events' lengths are drawn from a law. Times: nanoseconds since the run's beginning.
#pragma once

#include <cstdint>
#include <vector>

#include "longest_events.hpp"
#include "replay/model/program.hpp"

namespace polter::prediction {

class NoiseBlocks {
  public:
    NoiseBlocks(const replay::Programs&, uint64_t seed);

    size_t hosts() const { return hosts_.size(); }
    size_t slots(size_t host) const { return hosts_[host].size(); }  // ranks of a host
    size_t blocks() const { return blocks_; }
    int64_t block_ns() const { return block_ns_; }
    uint64_t events() const { return events_; }
    const LongestEvents& longest() const { return longest_; }

    using Stolen = replay::Program::Stolen;
    struct Range {
        const Stolen *begin, *end;
        int64_t from;  // when the block begins
    };
    Range block(size_t host, size_t slot, size_t block) const;

    // The place of a virtual rank among hosts: as in the measured run, repeated.
    struct Place {
        uint64_t host = 0;   // virtual
        size_t measured = 0;  // the host in its place in the measured run
        size_t slot = 0;
    };
    Place place(int32_t rank) const;
    uint64_t seed() const { return seed_; }
    const std::vector<size_t>& alike(size_t host) const { return alike_[host]; }  // hosts with as many ranks
    bool hosts_differ() const { return hosts_differ_; }

  private:
    bool differ() const;

    uint64_t seed_;
    bool hosts_differ_ = false;
    std::vector<std::vector<size_t>> alike_;
    size_t blocks_ = 1;
    int64_t block_ns_ = 1;
    uint64_t events_ = 0;
    LongestEvents longest_;
    std::vector<std::vector<int32_t>> hosts_;  // ranks
    std::vector<Place> places_;                // of the measured ranks
    std::vector<std::vector<Stolen>> noise_;   // by measured rank
    std::vector<std::vector<uint32_t>> starts_;  // by rank and block: its first event
};

// One draw: which sample of the measured noise, and the law of its longest events. What it is of outlives it.
struct NoiseDraw {
    // `until`: no noise is drawn from then on. Where noise comes faster than time passes, a run under it has no end.
    NoiseDraw(const NoiseBlocks&, uint64_t number, int64_t until);

    const NoiseBlocks* blocks;
    uint64_t number;
    int64_t until;
    LongestEvents longest;
};

// One virtual rank's processor under drawn noise. Its time only moves forward; what it answers does not depend on who asks what.
class DrawnClock {
  public:
    DrawnClock() = default;  // without noise
    DrawnClock(const NoiseDraw&, int32_t rank);  // which outlives it

    // The end of `work` ns of work that begins at `now`. With work 0: the end of the event during which `now` is, if any.
    int64_t finish(int64_t now, int64_t work);
    int64_t noise_ns() const { return noise_ns_; }  // that has hit so far

  private:
    bool have_upcoming();

    const NoiseDraw* draw_ = nullptr;  // none: no noise
    uint64_t rank_ = 0, next_block_ = 0, last_event_block_ = 0, events_ = 0;
    size_t slot_ = 0, host_ = 0;  // host_: where hosts differ
    const std::vector<size_t>* alike_ = nullptr;
    uint64_t virtual_host_ = 0;
    NoiseBlocks::Range range_{nullptr, nullptr, 0};
    int64_t shift_ = 0, begin_ = 0, end_ = 0, last_end_ = INT64_MIN / 4, noise_ns_ = 0;
    bool known_ = false;
};

}  // namespace polter::prediction
