// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>

#include "observation.hpp"

namespace polter::node {

void Stats::add(std::uint64_t ns) {
    count++;
    total_ns += ns;
    max_ns = std::max(max_ns, ns);
    bin[polter_bin_of(ns)]++;
}

void Stats::operator+=(const Stats& other) {
    count += other.count;
    total_ns += other.total_ns;
    max_ns = std::max(max_ns, other.max_ns);
    for (std::size_t i = 0; i < bin.size(); i++) bin[i] += other.bin[i];
}

Stats Stats::since(const Stats& earlier) const {
    Stats part;
    part.count = count - earlier.count;
    part.total_ns = total_ns - earlier.total_ns;
    for (std::size_t i = 0; i < bin.size(); i++) {
        part.bin[i] = bin[i] - earlier.bin[i];
        if (part.bin[i]) part.max_ns = polter_bin_lower(static_cast<polter_u32>(i) + 1) - 1;
    }
    if (max_ns > earlier.max_ns || part.max_ns > max_ns) part.max_ns = max_ns;
    return part;
}

std::uint64_t Stats::percentile_ns(double part) const {
    std::uint64_t all = 0, below = 0;
    for (const auto n : bin) all += n;
    if (all == 0) return 0;
    // Nearest rank.
    const auto rank = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(part * static_cast<double>(all))));
    for (polter_u32 i = 0; i < POLTER_BINS; i++) {
        below += bin[i];
        if (below < rank) continue;
        if (i == POLTER_BINS - 1) return max_ns;
        const std::uint64_t lower = polter_bin_lower(i), width = polter_bin_lower(i + 1) - lower;
        return std::min(lower + width / 2, max_ns);
    }
    return max_ns;
}

}  // namespace polter::node
