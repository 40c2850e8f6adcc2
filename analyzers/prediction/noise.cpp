// SPDX-License-Identifier: BSD-3-Clause
#include "noise.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "mutations.hpp"
#include "random.hpp"

namespace polter::prediction {

namespace {

// As many blocks as their number's square: each long against most events, and enough of them to draw from.
constexpr size_t least_blocks = 8, most_blocks = 64;

}  // namespace

NoiseBlocks::NoiseBlocks(const replay::Programs& programs, uint64_t seed) : seed_(seed) {
    const int64_t length = std::max<int64_t>(1, programs.last - programs.first);
    std::vector<double> lengths;
    noise_.resize(programs.ranks.size());
    std::map<int32_t, size_t> numbers;
    places_.resize(programs.ranks.size());
    for (size_t rank = 0; rank < programs.ranks.size(); ++rank) {
        const replay::Program& program = programs.ranks[rank];
        const auto [found, fresh] = numbers.try_emplace(program.host, hosts_.size());
        if (fresh) hosts_.emplace_back();
        places_[rank] = {found->second, found->second, hosts_[found->second].size()};
        hosts_[found->second].push_back(static_cast<int32_t>(rank));
        for (const Stolen& one : program.noise) {
            auto& events = noise_[rank];
            // Pieces of one event follow each other without a gap.
            if (!events.empty() && events.back().end == one.begin - programs.first)
                events.back().end = one.end - programs.first;
            else
                events.push_back({one.begin - programs.first, one.end - programs.first});
        }
        for (const Stolen& one : noise_[rank]) lengths.push_back(static_cast<double>(one.end - one.begin));
        events_ += noise_[rank].size();
    }
    longest_ = LongestEvents(std::move(lengths), seed);
    const auto even = static_cast<size_t>(std::sqrt(static_cast<double>(events_) / static_cast<double>(std::max<size_t>(1, noise_.size()))));
    blocks_ = std::clamp(even, least_blocks, most_blocks);
    blocks_ = static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(blocks_), length));
    block_ns_ = (length + static_cast<int64_t>(blocks_) - 1) / static_cast<int64_t>(blocks_);
    starts_.resize(noise_.size());
    for (size_t rank = 0; rank < noise_.size(); ++rank) {
        uint32_t at = 0;
        for (size_t block = 0; block <= blocks_; ++block) {
            while (at < noise_[rank].size() && noise_[rank][at].begin < static_cast<int64_t>(block) * block_ns_) ++at;
            starts_[rank].push_back(block == blocks_ ? static_cast<uint32_t>(noise_[rank].size()) : at);
        }
    }
    alike_.resize(hosts_.size());
    for (size_t host = 0; host < hosts_.size(); ++host)
        for (size_t other = 0; other < hosts_.size(); ++other)
            if (slots(other) == slots(host)) alike_[host].push_back(other);
    hosts_differ_ = differ();
}

// A permutation test: whether hosts differ by more than they would, were their blocks dealt to them at random. It asks for no distribution;
// an F test takes sums of few, skewed events for a difference.
bool NoiseBlocks::differ() const {
    if (hosts_.size() < 2 || blocks_ < 2 || mutated(Mutation::hosts_alike)) return false;
    std::vector<double> sums;  // by host and block: of a rank, on average
    for (size_t host = 0; host < hosts_.size(); ++host)
        for (size_t block = 0; block < blocks_; ++block) {
            double& sum = sums.emplace_back(0);
            for (size_t slot = 0; slot < slots(host); ++slot) {
                const Range range = this->block(host, slot, block);
                for (const Stolen* event = range.begin; event != range.end; ++event) sum += static_cast<double>(event->end - event->begin);
            }
            sum /= static_cast<double>(slots(host));
        }
    const auto between = [&] {
        double squares = 0;
        for (size_t host = 0; host < hosts_.size(); ++host) {
            double own = 0;
            for (size_t block = 0; block < blocks_; ++block) own += sums[host * blocks_ + block];
            squares += own * own;
        }
        return squares;
    };
    // The measured one must be the largest of 1000: where there is little evidence, pooling costs little.
    constexpr uint64_t permutations = 999;
    const double measured = between();
    for (uint64_t i = 0; i < permutations; ++i) {
        for (size_t left = sums.size(); left > 1; --left) std::swap(sums[left - 1], sums[mixed(seed_, i, Drawn::permutation, 0, left) % left]);
        if (between() >= measured * (1 - 1e-12) && !mutated(Mutation::hosts_unlike)) return false;
    }
    return true;
}

NoiseBlocks::Range NoiseBlocks::block(size_t host, size_t slot, size_t block) const {
    const auto rank = static_cast<size_t>(hosts_[host][slot]);
    const Stolen* events = noise_[rank].data();
    return {events + starts_[rank][block], events + starts_[rank][block + 1], static_cast<int64_t>(block) * block_ns_};
}

NoiseBlocks::Place NoiseBlocks::place(int32_t rank) const {
    const auto measured = places_.size();
    Place place = places_[static_cast<size_t>(rank) % measured];
    place.host += static_cast<uint64_t>(rank) / measured * hosts_.size();
    return place;
}

NoiseDraw::NoiseDraw(const NoiseBlocks& of, uint64_t number, int64_t until)
    : blocks(&of),
      number(mutated(Mutation::one_draw) ? 0 : number),
      until(mutated(Mutation::endless_noise) ? INT64_MAX : until),
      longest(of.longest().resampled(this->number)) {}

DrawnClock::DrawnClock(const NoiseDraw& draw, int32_t rank) : draw_(&draw), rank_(static_cast<uint64_t>(rank)) {
    const NoiseBlocks& blocks = *draw.blocks;
    const NoiseBlocks::Place place = blocks.place(rank);
    virtual_host_ = place.host;
    slot_ = place.slot;
    alike_ = &blocks.alike(place.measured);
    if (blocks.hosts_differ()) host_ = (*alike_)[mixed(blocks.seed(), draw.number, Drawn::host, virtual_host_, 0) % alike_->size()];
    if (blocks.events() == 0) draw_ = nullptr;
    if (mutated(Mutation::noise_by_rank)) virtual_host_ = rank_ * 1000003;
}

bool DrawnClock::have_upcoming() {
    if (known_) return true;
    if (!draw_) return false;
    const NoiseBlocks& from = *draw_->blocks;
    while (range_.begin == range_.end) {
        // A draw's own sample of the blocks; then one of these.
        const bool own = from.hosts_differ();
        const uint64_t blocks = from.blocks(), all = own ? blocks : blocks * alike_->size();
        const uint64_t pick = mixed(from.seed(), draw_->number, Drawn::block, virtual_host_, next_block_) % all;
        const uint64_t drawn = mixed(from.seed(), draw_->number, Drawn::sample, own ? host_ + 1 : 0, pick) % all;
        range_ = from.block(own ? host_ : (*alike_)[drawn / blocks], slot_, drawn % blocks);
        shift_ = static_cast<int64_t>(next_block_) * from.block_ns() - range_.from;
        // No block of this draw's sample has an event.
        if (++next_block_ >= last_event_block_ + 64 * from.blocks() && range_.begin == range_.end) {
            draw_ = nullptr;
            return false;
        }
    }
    last_event_block_ = next_block_;
    begin_ = std::max(range_.begin->begin + shift_, last_end_);
    if (mutated(Mutation::noise_shuffled)) begin_ = std::max(static_cast<int64_t>(next_block_) * from.block_ns(), last_end_);
    const uint64_t random = mixed(from.seed(), draw_->number, Drawn::length, rank_, ++events_);
    if (begin_ >= draw_->until) {
        draw_ = nullptr;
        return false;
    }
    end_ = begin_ + std::min(draw_->longest.length(range_.begin->end - range_.begin->begin, random), draw_->until - begin_);
    ++range_.begin;
    return known_ = true;
}

int64_t DrawnClock::finish(int64_t now, int64_t work) {
    while (have_upcoming()) {
        if (begin_ <= now) {  // earlier events hit while the rank waited and cost nothing
            now = mutated(Mutation::noise_costs_waits) ? now + (end_ - begin_) : std::max(now, end_);
        } else if (begin_ < now + work) {
            work -= begin_ - now;
            now = end_;
        } else {
            break;
        }
        last_end_ = end_;
        noise_ns_ += end_ - begin_;
        known_ = false;
    }
    return now + work;
}

}  // namespace polter::prediction
