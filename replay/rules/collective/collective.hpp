// SPDX-License-Identifier: BSD-3-Clause
// Between the rules of collectives: what a member waits for (rules/collective/collective.cpp), noise that delays others inside
// (rules/collective/noise_union.cpp), and leaving by the messages that the operation is made of (rules/collective/by_messages.cpp).
#pragma once

#include <bit>

#include "replay/rules/internal.hpp"

namespace polter::replay::rules {

// What the member waits for: the last of those that count, measured and in lanes (approximated times).
struct Last {
    bool any = false;
    int64_t enter = 0;
    const int64_t* arrival = nullptr;
    LaneVector partial;  // `arrival`, where only some of the members were waited for
    uint64_t node = 0;   // of the event graph: their coming
};

// By the member's own size: what others have, who may not have come yet, must not matter.
inline CostClass cost_class(const Collective& c, CostKind kind, uint32_t member) {
    const auto operation = static_cast<uint16_t>(c.operation | std::bit_width(c.members.size() - 1) << 8);
    return {kind, true, c.nonblocking, operation, c.members[member].size};
}

// In a scan those above do not matter, and may not have come yet; of a non-blocking one who else has completed it is not known.
inline bool may_delay(const Collective& c, const Collective::Noise& noise, uint32_t member) {
    if (c.nonblocking) return noise.member == member;
    return c.waits != Waits::prefix || noise.member <= member;
}

// The measure of the union of the noise from `from` to `upto`, less, for each lane, that of what it does not remove. Sorts the pieces.
void union_of(Engine&, std::vector<NoisePiece>& pieces, int64_t from, int64_t upto, int64_t* less);

// How long any noise held the member up between the last arrival and its leave: at most, the measure of the union of all of it; likely, by
// where it may have hit the messages that the collective is made of; at most where only counters tell of it: apart.
struct Delays {
    int64_t likely = 0, most = 0, apart = 0;
};
Delays delays_inside(const Engine&, const Collective&, uint32_t member, int64_t from, int64_t leave);

// How long noise that is removed held anybody up after `from` and before `leave`, in lanes: the measure of the union of all of it less that
// of what is not removed. The collective's own, or `buffer`.
const int64_t* delay_by_union(Engine&, Collective&, uint32_t member, int64_t from, int64_t leave, LaneVector& buffer);

// Whether all noise after `from` that may have held the member up is removed in the scenario of the bounds.
bool only_removed(const Collective&, uint32_t member, int64_t from, const Lanes&);

// What the tail of a call was shortened by, in the scenario "all": `own` removed noise of its own, of which at most `own_counts` counts; if
// `together`, at least that of all members since the last came, up to `excess`, which the tail is longer than it is without noise.
struct Gain {
    int64_t m = 0, from = 0;  // where the tail begins; when the last came
    int64_t own = 0, own_counts = 0, excess = 0;
    bool together = false;
};
// The noise behind that, for the event graph. In the order in which it hit each event counts by what it adds.
void record_gain(Recorder&, const Thread&, const Collective&, uint32_t member, const Gain&);

// The delay at the end of a call that follows its structure.
LaneVector leave_by_structure(Engine&, Thread&, const Collective&, uint32_t member, const Last&);

}  // namespace polter::replay::rules
