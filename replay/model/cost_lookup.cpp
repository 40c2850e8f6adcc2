// SPDX-License-Identifier: BSD-3-Clause
// What a frozen model answers: costs of classes that were seen, or of those beside them; which protocol a size has.
#include <algorithm>
#include <cmath>

#include "model.hpp"

namespace polter::replay {

namespace {

int64_t interpolated(int64_t a, int64_t b, double part) {
    return std::max<int64_t>(0, a + static_cast<int64_t>(std::llround(static_cast<double>(b - a) * part)));
}

// L + G · bytes, from the two sizes beside it.
Cost between(const LearnedCost& a, const LearnedCost& b, uint64_t size) {
    const double part =
        static_cast<double>(size - std::min(size, a.of.size)) / static_cast<double>(std::max<uint64_t>(1, b.of.size - a.of.size));
    const double inside = std::min(part, 1.0);
    return {std::min(a.cost.low, b.cost.low),
            interpolated(a.cost.mid, b.cost.mid, inside),
            std::max(a.cost.high, b.cost.high),
            true,
            std::max(a.cost.spread, b.cost.spread),
            false,
            std::max(a.cost.noise_ppm, b.cost.noise_ppm)};
}

// The nearest size, and as much more or less as two sizes show that bytes cost.
Cost beyond(const LearnedCost& nearest, const LearnedCost* further, uint64_t size) {
    Cost cost = nearest.cost;
    cost.extrapolated = true;
    if (!further || further->of.size == nearest.of.size) return cost;
    const double per_byte = static_cast<double>(nearest.cost.mid - further->cost.mid) /
                            (static_cast<double>(nearest.of.size) - static_cast<double>(further->of.size));
    if (per_byte <= 0) return cost;
    const double bytes = static_cast<double>(size) - static_cast<double>(nearest.of.size);
    cost.mid = std::max<int64_t>(0, cost.mid + static_cast<int64_t>(std::llround(per_byte * bytes)));
    cost.low = std::min(cost.low, cost.mid);
    cost.high = std::max(cost.high, cost.mid);
    return cost;
}

}  // namespace

bool Model::same_protocol(const CostClass& a, const CostClass& b) const {
    if (a.synchronous || a.kind > CostKind::send_own || a.kind == CostKind::wait_own) return true;
    const bool partitioned = a.operation == partitioned_messages;
    return rendezvous(a.same_host, partitioned, a.size) == rendezvous(b.same_host, partitioned, b.size);
}

// None: neither has its protocol.
Cost Model::between_or_beyond(const CostClass& of, const LearnedCost* below, const LearnedCost* above) const {
    if (below && !same_protocol(of, below->of)) below = nullptr;
    if (above && !same_protocol(of, above->of)) above = nullptr;
    if (below && above) return between(*below, *above, of.size);
    if (below || above) return beyond(below ? *below : *above, nullptr, of.size);
    return {};
}

const Cost& Model::cost(const CostClass& of) const {
    const uint64_t key = of.key();
    if (const Cost* known = asked_.get(key)) return *known;
    const LearnedCost *below = nullptr, *above = nullptr, *further = nullptr;  // further: on the side where the size lies outside
    const uint64_t first = key >> CostClass::size_bits << CostClass::size_bits;
    for (auto entry = costs_.lower_bound(first);
         entry != costs_.end() && entry->first >> CostClass::size_bits == key >> CostClass::size_bits; ++entry) {
        if (!same_protocol(of, entry->second.of)) continue;
        if (entry->first <= key) {
            further = below;
            below = &entry->second;
            if (entry->first == key) break;
        } else if (!above) {
            above = &entry->second;
            if (below) break;
        } else {
            further = &entry->second;
            break;
        }
    }
    Cost cost;
    if (below && below->of.key() == key)
        cost = below->cost;
    else if (below && above)
        cost = between(*below, *above, of.size);
    else if (below || above)
        cost = beyond(below ? *below : *above, further, of.size);
    if (const auto limit = limits_.find(key); limit != limits_.end()) {
        if (!cost.known) cost.high = limit->second;
        if (cost.extrapolated)  // what calls of this very class took is nearer
            for (int64_t Cost::*part : {&Cost::low, &Cost::mid, &Cost::high}) cost.*part = std::min(cost.*part, limit->second);
    }
    return asked_[key] = cost;
}

// Protocols change at one size: the largest for which the fewest samples are wrong. That a send ended before its receive was posted proves
// more than that it ended soon after.
bool Model::rendezvous(bool same_host, bool partitioned, uint64_t size) const {
    constexpr int64_t proof = 50;
    const uint64_t key = protocol_key(same_host, partitioned, size);
    if (const bool* known = rendezvous_asked_.get(key)) return *known;
    const auto begin = protocols_.lower_bound(key >> CostClass::size_bits << CostClass::size_bits);
    const auto end = protocols_.lower_bound(((key >> CostClass::size_bits) + 1) << CostClass::size_bits);
    int64_t wrong = 0;  // where the limit is below all
    for (auto protocol = begin; protocol != end; ++protocol) wrong += proof * protocol->second.eager;
    int64_t least = INT64_MAX;
    uint64_t limit = 0;
    for (auto protocol = begin; protocol != end; ++protocol) {
        if (protocol->second.late > 0 && wrong <= least) {
            least = wrong;
            limit = protocol->first;
        }
        wrong += protocol->second.late - proof * protocol->second.eager;
    }
    const bool waits = wrong > least && key >= limit;  // wrong: where all are eager
    return rendezvous_asked_[key] = waits;
}

}  // namespace polter::replay
