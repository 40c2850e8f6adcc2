// SPDX-License-Identifier: BSD-3-Clause
#include "origins.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "definitions.hpp"

namespace polter::replay {

namespace {

using Origin = std::pair<std::string, int64_t>;  // culprit, rank
using Weights = std::map<Origin, int64_t>;

std::vector<int64_t> by_largest_remainder(int64_t ns, const Weights& weights) {
    __int128 all = 0;
    for (const auto& [origin, weight] : weights) all += weight;
    const __int128 whole = std::abs(ns);
    std::vector<int64_t> parts;
    std::vector<__int128> rest;
    int64_t given = 0;
    for (const auto& [origin, weight] : weights) {
        parts.push_back(static_cast<int64_t>(whole * weight / all));
        rest.push_back(whole * weight % all);
        given += parts.back();
    }
    std::vector<size_t> order(parts.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rest[a] > rest[b]; });
    for (size_t i = 0; given < std::abs(ns); ++i, ++given) ++parts[order[i]];
    if (ns < 0)
        for (int64_t& part : parts) part = -part;
    return parts;
}

class Rule {
  public:
    Rule(const Definitions& definitions, const Backward& backward, const std::vector<size_t>& players, const std::vector<int64_t>& ranks,
         const std::map<Engine::CulpritKey, std::pair<int64_t, int64_t>>& local)
        : definitions_(definitions), backward_(backward), players_(players), ranks_(ranks), local_(local) {}

    const Weights& weights(size_t account, uint32_t window) {
        const auto [slot, fresh] = cache_.try_emplace({account, window});
        if (!fresh) return slot->second;
        Weights& weights = slot->second;
        const size_t player = static_cast<size_t>(std::find(players_.begin(), players_.end(), account) - players_.begin());
        for (const Origins* path : {&backward_.measured, &backward_.all_but[player]}) {
            const std::optional<uint32_t> nearest = window_of(*path, account, window);
            if (!nearest) continue;
            for (const auto& [key, ns] : *path)
                if (key.account == account && key.window == *nearest) weights[origin(key.culprit, ranks_[key.thread])] += ns;
            return weights;
        }
        for (const auto& [key, sums] : local_)
            if (key.account == account) weights[origin(key.culprit, key.rank)] += sums.first;
        if (weights.empty()) weights[{"unknown", -1}] = 1;  // on threads that carry no rank, and not on the path
        return weights;
    }

  private:
    // The window itself, the last before it or the first after it in which the account has noise on the path.
    static std::optional<uint32_t> window_of(const Origins& path, size_t account, uint32_t window) {
        std::optional<uint32_t> before, after;
        for (const auto& [key, ns] : path) {
            if (key.account != account) continue;
            if (key.window <= window) before = std::max(before.value_or(0), key.window);
            if (key.window > window) after = std::min(after.value_or(UINT32_MAX), key.window);
        }
        return before ? before : after;
    }
    Origin origin(uint32_t culprit, int64_t rank) const { return {definitions_.culprit_name(culprit), rank}; }

    const Definitions& definitions_;
    const Backward& backward_;
    const std::vector<size_t>& players_;
    const std::vector<int64_t>& ranks_;
    const std::map<Engine::CulpritKey, std::pair<int64_t, int64_t>>& local_;
    std::map<std::pair<size_t, uint32_t>, Weights> cache_;
};

}  // namespace

void split_by_origin(Attribution& attribution, const Definitions& definitions, const Backward& backward, const std::vector<size_t>& players,
                     const std::vector<int64_t>& ranks, const std::map<Engine::CulpritKey, std::pair<int64_t, int64_t>>& local) {
    Rule rule(definitions, backward, players, ranks, local);
    std::vector<AttributionRow> rows;
    for (const AttributionRow& row : attribution.rows) {
        const Weights& weights = rule.weights(row.account, static_cast<uint32_t>(row.window));
        const std::vector<int64_t> parts = by_largest_remainder(row.ns, weights);
        size_t i = 0;
        for (const auto& [origin, weight] : weights) {
            const int64_t ns = parts[i++];
            if (ns == 0) continue;
            rows.push_back(row);
            rows.back().culprit = origin.first;
            rows.back().rank = origin.second;
            rows.back().ns = ns;
        }
    }
    attribution.rows = std::move(rows);
    attribution.by_origin = true;
}

}  // namespace polter::replay
