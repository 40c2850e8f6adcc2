// SPDX-License-Identifier: BSD-3-Clause
#include "wait_samples.hpp"

#include <algorithm>
#include <cstdlib>

namespace polter::replay {

namespace {

constexpr int part_bits = 3;

// Eight bins an octave.
int bin_of(int64_t ns) {
    const auto value = static_cast<uint64_t>(std::max<int64_t>(ns, 0));
    if (value < (1u << part_bits)) return static_cast<int>(value);
    const int octave = std::bit_width(value) - 1 - part_bits;
    return (octave << part_bits) + static_cast<int>(value >> octave);
}

// The bin's least value.
int64_t begin_of(int bin) {
    if (bin < (2 << part_bits)) return bin;
    const int octave = (bin >> part_bits) - 1;
    return static_cast<int64_t>((bin & ((1 << part_bits) - 1)) | 1 << part_bits) << octave;
}

int64_t clearly_longer(int64_t shortest) {
    constexpr int64_t little_ns = 1000;
    return 2 * shortest + little_ns;
}

// How many intervals have nothing within a part of it of the value that most agree on.
int64_t outliers(const CostLimits& limits, int64_t part) {
    const CostLimits::Agreed agreed = limits.agreed();
    int64_t count = 0;
    const Histogram least = limits.least(), most = limits.most();  // they live as long as their bins are looked at
    for (const auto& [bin, content] : least.bins())
        if (content.sum / content.count > agreed.to + agreed.to / part) count += content.count;
    for (const auto& [bin, content] : most.bins())
        if (content.sum / content.count < agreed.from - agreed.from / part) count += content.count;
    return count;
}

// How far the intervals are from having a value in common.
int64_t disagreement(const CostLimits& limits) {
    return std::max<int64_t>(0, limits.least().quantile(95) - limits.most().quantile(5));
}

}  // namespace

void WaitSamples::add(const Sample& sample, bool single) {
    by_slack_[bin_of(sample.slack)].add(sample.took.least, sample.took.most);
    least_taken_ = unknown;
    if (!single) return;
    UnderWay& way = by_taken_[bin_of(sample.took.least)];
    way.since_send.add(sample.since_send.least, sample.since_send.most);
    way.since_both.add(sample.since_both.least, sample.since_both.most);
}

void WaitSamples::merge(const WaitSamples& other) {
    for (const auto& [bin, limits] : other.by_slack_) by_slack_[bin].merge(limits);
    least_taken_ = unknown;
    for (const auto& [bin, way] : other.by_taken_) {
        by_taken_[bin].since_send.merge(way.since_send);
        by_taken_[bin].since_both.merge(way.since_both);
    }
}

int64_t WaitSamples::count() const {
    int64_t all = 0;
    for (const auto& [bin, limits] : by_slack_) all += limits.count();
    return all;
}

CostLimits WaitSamples::own(int64_t transfer) const {
    CostLimits chosen;
    for (auto row = by_slack_.lower_bound(bin_of(transfer)); row != by_slack_.end(); ++row)
        if (begin_of(row->first) >= transfer) chosen.merge(row->second);
    return chosen;
}

CostLimits WaitSamples::with_most_slack() const {
    CostLimits chosen;
    const int64_t all = count();
    for (auto row = by_slack_.rbegin(); row != by_slack_.rend() && chosen.count() * 4 < all; ++row) chosen.merge(row->second);
    return chosen;
}

int64_t WaitSamples::least_taken() const {
    if (least_taken_ != unknown) return least_taken_;
    int64_t least = INT64_MAX;
    for (const auto& [bin, limits] : by_slack_) least = std::min(least, limits.shortest());
    return least_taken_ = least;
}

// Of calls that took longer than that, so that their messages were still under way.
WaitSamples::UnderWay WaitSamples::waited(int64_t longer_than) const {
    UnderWay chosen;
    for (auto row = by_taken_.lower_bound(bin_of(longer_than)); row != by_taken_.end(); ++row) {
        if (begin_of(row->first) < longer_than) continue;
        chosen.since_send.merge(row->second.since_send);
        chosen.since_both.merge(row->second.since_both);
    }
    return chosen;
}

CostLimits WaitSamples::transfers(bool rendezvous, int64_t shortest) const {
    constexpr int64_t enough = 3, agreeing = 8;
    const UnderWay way = waited(clearly_longer(shortest));
    const CostLimits& chosen = rendezvous ? way.since_both : way.since_send;
    return chosen.count() < enough || disagreement(chosen) > chosen.agreed().from / agreeing ? CostLimits() : chosen;
}

WaitSamples::Evidence WaitSamples::evidence(int64_t transfer, int64_t shortest, bool few_tell) const {
    constexpr int64_t enough = 5, few = 3, clearly = 4, part = 20, agreeing = 8;
    const UnderWay way = waited(transfer > 0 ? std::min(transfer / 4, clearly_longer(shortest)) : clearly_longer(shortest));
    if (way.since_send.count() < enough) return {};
    const int64_t eager = disagreement(way.since_send), late = disagreement(way.since_both);
    const int64_t from_send = way.since_send.agreed().from, from_both = way.since_both.agreed().from;
    const auto as_others = [&](int64_t agreed) { return transfer == 0 || std::abs(agreed - transfer) <= transfer / agreeing; };
    const int64_t not_eager = outliers(way.since_send, part), not_late = outliers(way.since_both, part);
    // Noise makes most intervals wide enough for both: then the few calls tell that only one of both explains.
    const auto contradicted = [&](int64_t one, int64_t other) { return few_tell && one >= few && one > clearly * other; };
    const bool by_spread = eager > clearly * late && eager > from_both / part, by_few = contradicted(not_eager, not_late);
    if ((by_spread || by_few) && as_others(from_both)) return {0, way.since_send.count()};
    if (((late > clearly * eager && late > from_send / part) || contradicted(not_late, not_eager)) && as_others(from_send))
        return {way.since_send.count(), 0};
    return {};
}

CostLimits WaitSamples::since_both() const {
    CostLimits all;
    for (const auto& [bin, way] : by_taken_) all.merge(way.since_both);
    return all;
}

}  // namespace polter::replay
