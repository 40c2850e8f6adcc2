// SPDX-License-Identifier: BSD-3-Clause
// Noise inside a collective whose algorithm is not known.
//
// Rule: a collective is made of messages, so noise that hits one member after the last arrival delays the others. The delay is at most the
// length of the union of the members' noise intervals, and hardly more than what hit one member or two.
#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>
#include <utility>

#include "collective.hpp"

namespace polter::replay::rules {

void union_of(Engine& engine, std::vector<NoisePiece>& pieces, int64_t from, int64_t upto, int64_t* less) {
    const Lanes& lanes = engine.lanes();
    std::sort(pieces.begin(), pieces.end(), [](const NoisePiece& a, const NoisePiece& b) { return a.begin < b.begin; });
    const auto measure = [&](size_t lane) {
        int64_t sum = 0, reached = from;
        for (const NoisePiece& piece : pieces) {
            // Of a counter's noise nobody knows when within the call it hit: it may have been before this member left.
            const int64_t end = engine.facts().counter_only ? std::min(piece.end, upto) : piece.end;
            if (end > upto || end <= std::max(reached, piece.begin)) continue;
            if (lane < lanes.count && lanes.masks[piece.account][lane]) continue;
            sum += end - std::max(piece.begin, reached);
            reached = end;
        }
        return sum;
    };
    const int64_t all = measure(SIZE_MAX);
    for (size_t i = 0; i < lanes.count; ++i) less[i] = all - measure(i);
    if (!engine.facts().counter_only || !lanes.bounded()) return;
    less[lanes.low] = 0;  // when it hit is not known: at worst one after the other
    for (const NoisePiece& piece : pieces) less[lanes.low] += (piece.end - piece.begin) & lanes.masks[piece.account][lanes.low];
}

// The way that decides the end is on one processor at a time. So in all but the lower bound of the time at most twice what hit the one that
// was hit most: twice, as the way changes between them. (Where each of many members has noise, its union covers most of the call.)
static void limit_by_longest(const Engine& engine, const Collective& c, uint32_t member, int64_t from, int64_t upto, int64_t* less) {
    const Lanes& lanes = engine.lanes();
    static thread_local std::vector<int64_t> of_member, longest;
    of_member.assign(lanes.count, 0);
    longest.assign(lanes.count, 0);
    uint32_t of = UINT32_MAX;
    for (const Collective::Noise& noise : c.noise) {
        if (noise.piece.end <= from || !may_delay(c, noise, member)) continue;
        if (std::exchange(of, noise.member) != noise.member) std::fill(of_member.begin(), of_member.end(), 0);
        const int64_t end = engine.facts().counter_only ? std::min(noise.piece.end, upto) : noise.piece.end;
        if (end > upto) continue;
        const int64_t ns = end - std::max(noise.piece.begin, from);
        for (size_t i = 0; i < lanes.count; ++i) {
            of_member[i] += ns & lanes.masks[noise.piece.account][i];
            longest[i] = std::max(longest[i], of_member[i]);
        }
    }
    for (size_t i = 0; i < lanes.count; ++i)
        if (!lanes.bounded() || i != lanes.low) less[i] = std::min(less[i], 2 * longest[i]);
}

const int64_t* delay_by_union(Engine& engine, Collective& c, uint32_t member, int64_t from, int64_t leave, LaneVector& buffer) {
    static thread_local std::vector<NoisePiece> pieces;
    // For each member another noise.
    const bool apart = c.waits == Waits::prefix || c.nonblocking || c.arrived < c.members.size();
    const auto collect = [&] {
        pieces.clear();
        for (const Collective::Noise& noise : c.noise)
            if (noise.piece.end > from && may_delay(c, noise, member)) pieces.push_back(noise.piece);
    };
    const auto measure = [&](int64_t upto, int64_t* less) {
        union_of(engine, pieces, from, upto, less);
        limit_by_longest(engine, c, member, from, upto, less);
    };
    if (!c.held_known && !apart) {  // for those who left after all of it: mostly everybody
        collect();
        c.held_known = true;
        c.held_until = from;
        for (const NoisePiece& piece : pieces) c.held_until = std::max(c.held_until, piece.end);
        c.held = engine.lane_pool().take();
        measure(c.held_until, c.held);
    }
    if (!apart && leave >= c.held_until) return c.held;
    collect();
    buffer = engine.lane_pool().take();
    measure(leave, buffer);
    return buffer;
}

bool only_removed(const Collective& c, uint32_t member, int64_t from, const Lanes& lanes) {
    return std::all_of(c.noise.begin(), c.noise.end(), [&](const Collective::Noise& noise) {
        return noise.piece.end <= from || !may_delay(c, noise, member) || lanes.masks[noise.piece.account][lanes.high];
    });
}

namespace {

// The length of the union of the noise that counts, between two times; what ended later does not count. `pieces` by their beginning.
template <class Counts>
int64_t hit_for(const std::vector<Collective::Noise>& pieces, int64_t from, int64_t upto, Counts counts) {
    int64_t sum = 0, reached = from;
    for (const Collective::Noise& noise : pieces) {
        if (noise.piece.end > upto || noise.piece.end <= reached || !counts(noise)) continue;
        sum += noise.piece.end - std::max(noise.piece.begin, reached);
        reached = noise.piece.end;
    }
    return sum;
}

}  // namespace

// Noise that ends while its member waits for a message delays nothing; a message under way for `hop` meets noise of length n at the end of
// its way with probability n / hop and then waits for half of it; longer noise lets pass half a way in the mean. How many ways follow one
// another is not known: twice the levels of a binary tree is what most algorithms take. In all it is no more than what hit one member.
// Where only counters tell of noise, it is not known when in its call a piece hit: at most all of as many members, of those with most, one
// after the other.
Delays delays_inside(const Engine& engine, const Collective& c, uint32_t member, int64_t from, int64_t leave) {
    const int64_t levels = std::bit_width(c.members.size());
    static thread_local std::vector<NoisePiece> pieces;  // kept for their memory, as the next ones
    static thread_local std::vector<int64_t> lengths;    // by member
    pieces.clear();
    lengths.clear();
    int64_t within = 0, longest = 0;  // what hit one member meanwhile; the most
    uint32_t of = UINT32_MAX;
    for (const Collective::Noise& noise : c.noise) {
        if (noise.piece.end <= from || !may_delay(c, noise, member)) continue;
        if (std::exchange(of, noise.member) != noise.member) {
            lengths.push_back(0);
            within = 0;
        }
        lengths.back() += noise.piece.end - noise.piece.begin;
        if (noise.piece.end > leave) continue;
        pieces.push_back(noise.piece);
        within += noise.piece.end - std::max(noise.piece.begin, from);
        longest = std::max(longest, within);
    }
    // Noise of several members may begin at one time (one CPU takes turns with them): the longest is the hit, whatever order they came in.
    std::sort(pieces.begin(), pieces.end(), [&](const NoisePiece& a, const NoisePiece& b) {
        return a.begin != b.begin ? a.begin < b.begin : a.end > b.end && !engine.faults().order_of_coming;
    });
    static thread_local std::vector<int64_t> hits;  // the union, by what each adds
    hits.clear();
    Delays delays;
    int64_t reached = from;
    for (const NoisePiece& piece : pieces) {
        if (piece.end <= reached) continue;
        hits.push_back(piece.end - std::max(piece.begin, reached));
        delays.most += hits.back();
        reached = piece.end;
    }
    const int64_t hop = std::max<int64_t>(0, leave - from - delays.most) / (2 * levels);
    for (const int64_t hit : hits) {
        const double n = static_cast<double>(hit), way = static_cast<double>(hop);
        delays.likely += static_cast<int64_t>(n > way ? n - way / 2 : n * n / (2 * way));
    }
    delays.likely = std::min(delays.likely, longest);
    delays.apart = delays.most;
    if (engine.faults().counters_at_one_time) return delays;
    const auto met = static_cast<std::ptrdiff_t>(std::min<size_t>(lengths.size(), 2 * static_cast<size_t>(levels)));
    std::partial_sort(lengths.begin(), lengths.begin() + met, lengths.end(), std::greater<>());
    delays.apart = std::clamp(std::accumulate(lengths.begin(), lengths.begin() + met, int64_t{0}), delays.most, leave - from);
    return delays;
}

void record_gain(Recorder& recorder, const Thread& thread, const Collective& c, uint32_t member, const Gain& gain) {
    std::vector<Collective::Noise> pieces;
    for (Collective::Noise noise : c.noise) {
        if (thread.engine->facts().counter_only) noise.piece.end = std::min(noise.piece.end, thread.leave);  // as in union_of
        const bool within = noise.piece.end > std::max(gain.from, noise.piece.begin) && noise.piece.end <= thread.leave;
        if (within && may_delay(c, noise, member)) pieces.push_back(noise);
    }
    std::sort(pieces.begin(), pieces.end(), [](const Collective::Noise& a, const Collective::Noise& b) {
        return std::tie(a.piece.begin, a.member, a.piece.end, a.piece.account) <
               std::tie(b.piece.begin, b.member, b.piece.end, b.piece.account);
    });
    const auto mine = [&](const Collective::Noise& noise) { return c.members[noise.member].thread == &thread; };
    const auto own_length = [&](const Collective::Noise& noise) {
        const bool counts = mine(noise) && recorder.removes(noise.piece.account);
        return counts ? std::max<int64_t>(0, noise.piece.end - std::max(noise.piece.begin, gain.m)) : 0;
    };
    const int64_t all = hit_for(pieces, gain.from, thread.leave, [](const Collective::Noise&) { return true; });
    const auto total = [&](int64_t own, const auto& put_back) {  // the gain where some of it is not removed
        const int64_t held = all - hit_for(pieces, gain.from, thread.leave, [&](const Collective::Noise& noise) {
                                 return put_back(noise) || !recorder.removes(noise.piece.account);
                             });
        return std::max(std::min(own, gain.own_counts), gain.together ? std::min(gain.excess, held) : 0);
    };
    const int64_t whole = total(gain.own, [](const Collective::Noise&) { return false; });
    const bool by_own = whole <= std::min(gain.own, gain.own_counts);
    int64_t left = whole, reached = gain.from;
    for (size_t i = 0; i < pieces.size(); ++i) {
        const Collective::Noise& noise = pieces[i];
        if (!recorder.removes(noise.piece.account)) continue;
        const int64_t length = by_own ? own_length(noise) : noise.piece.end - std::max(noise.piece.begin, reached);
        const int64_t counted = std::clamp<int64_t>(length, 0, left);
        reached = std::max(reached, noise.piece.end);
        left -= counted;
        const auto same = [&](const Collective::Noise& other) {
            return other.member == noise.member && other.piece.number == noise.piece.number;
        };
        const auto first = std::find_if(pieces.begin(), pieces.end(), same);
        int64_t effect = 0;  // of the event, at its first piece
        if (first == pieces.begin() + static_cast<std::ptrdiff_t>(i)) {
            int64_t own = gain.own;
            for (const Collective::Noise& other : pieces)
                if (same(other)) own -= own_length(other);
            effect = whole - total(own, same);
        }
        recorder.noise(c.members[noise.member].thread->index, noise.piece, thread.place(), counted, effect);
    }
}

}  // namespace polter::replay::rules
