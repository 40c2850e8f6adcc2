// SPDX-License-Identifier: BSD-3-Clause
#include "origins.hpp"

#include <algorithm>
#include <cstdlib>

#include "replay/trace/definitions.hpp"

namespace polter::replay {

namespace {

using Origin = std::pair<std::string, int64_t>;  // culprit, rank
using Amounts = std::map<Origin, int64_t>;
using NoiseOfWindow = std::map<uint32_t, Amounts>;  // by window of its begin

template <class Key>
std::map<Key, int64_t> by_largest_remainder(int64_t ns, const std::map<Key, int64_t>& weights) {
    __int128 all = 0;
    for (const auto& [key, weight] : weights) all += weight;
    const __int128 whole = std::abs(ns);
    const int64_t sign = ns < 0 ? -1 : 1;
    std::map<Key, int64_t> parts;
    std::vector<std::pair<__int128, Key>> rest;
    int64_t given = 0;
    for (const auto& [key, weight] : weights) {
        const auto part = static_cast<int64_t>(whole * weight / all);
        given += part;
        parts[key] = sign * part;
        rest.emplace_back(whole * weight % all, key);
    }
    std::stable_sort(rest.begin(), rest.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (size_t i = 0; given < std::abs(ns); ++i, ++given) parts[rest[i].second] += sign;
    return parts;
}

void add(Amounts& to, const Amounts& amounts, int64_t sign) {
    for (const auto& [origin, ns] : amounts) to[origin] += sign * ns;
}

// Pays a source's share from its origins, in order of time of their noise.
class Payer {
  public:
    Payer(const NoiseOfWindow& noise, int64_t share) {
        Amounts all;
        std::map<Origin, std::map<uint32_t, int64_t>> windows;
        for (const auto& [window, amounts] : noise)
            for (const auto& [origin, ns] : amounts) {
                all[origin] += ns;
                windows[origin][window] += ns;
            }
        sign_ = share < 0 ? -1 : 1;
        NoiseOfWindow due;
        for (const auto& [origin, ns] : by_largest_remainder(std::abs(share), all))
            for (const auto& [window, part] : by_largest_remainder(ns, windows[origin]))
                if (part != 0) due[window][origin] = part;
        for (const auto& [window, amounts] : due) {
            int64_t ns = 0;
            for (const auto& [origin, part] : amounts) ns += part;
            stretches_.push_back({amounts, ns});
        }
        if (stretches_.empty()) stretches_.push_back({all, 0});  // the share is 0: whatever a window pays, another takes back
    }

    // Amounts that each origin pays of the next `ns`; negative: takes back.
    Amounts pay(int64_t ns) {
        Amounts paid;
        add(paid, inside(), -sign_);
        inside_ += sign_ * ns;
        for (; inside_ > stretches_[at_].ns && at_ + 1 < stretches_.size(); ++at_) {
            add(paid, stretches_[at_].due, sign_);
            inside_ -= stretches_[at_].ns;
        }
        while (inside_ < 0 && at_ > 0) {
            --at_;
            add(paid, stretches_[at_].due, -sign_);
            inside_ += stretches_[at_].ns;
        }
        add(paid, inside(), sign_);
        std::erase_if(paid, [](const auto& entry) { return entry.second == 0; });
        return paid;
    }
    // The weights of the origins whose noise is paid now.
    const Amounts& now() const { return stretches_[at_].due; }

  private:
    Amounts inside() const { return by_largest_remainder(inside_, stretches_[at_].due); }

    struct Stretch {  // of one window
        Amounts due;
        int64_t ns;
    };
    std::vector<Stretch> stretches_;
    int64_t sign_ = 1, inside_ = 0;  // inside: paid of the current stretch; below 0 before the first, above its ns behind the last
    size_t at_ = 0;
};

class Rule {
  public:
    Rule(const Definitions& definitions, const Backward& backward, const std::vector<size_t>& players, const std::vector<int64_t>& ranks,
         const std::map<Engine::CulpritKey, std::pair<int64_t, int64_t>>& local)
        : definitions_(definitions), backward_(backward), players_(players), ranks_(ranks), local_(local) {}

    NoiseOfWindow noise_of(size_t account) const {
        NoiseOfWindow found;
        const size_t player = static_cast<size_t>(std::find(players_.begin(), players_.end(), account) - players_.begin());
        for (const Origins* path : {&backward_.measured, &backward_.all_but[player]}) {
            for (const auto& [key, ns] : *path)
                if (key.account == account) found[key.window][origin(key.culprit, ranks_[key.thread])] += ns;
            if (!found.empty()) return found;
        }
        for (const auto& [key, sums] : local_)
            if (key.account == account && sums.first > 0) found[0][origin(key.culprit, key.rank)] += sums.first;
        if (found.empty()) found[0][{"unknown", -1}] = 1;  // all its noise was on threads that carry no rank, and off the path
        return found;
    }

  private:
    Origin origin(uint32_t culprit, int64_t rank) const { return {definitions_.culprit_name(culprit), rank}; }

    const Definitions& definitions_;
    const Backward& backward_;
    const std::vector<size_t>& players_;
    const std::vector<int64_t>& ranks_;
    const std::map<Engine::CulpritKey, std::pair<int64_t, int64_t>>& local_;
};

// Splits the cells of one source and window in proportion to what each origin pays of that window.
void split_window(Payer& payer, const std::vector<AttributionRow>& rows, const std::vector<size_t>& cells, std::vector<Amounts>& parts) {
    int64_t all = 0;
    for (const size_t cell : cells) all += rows[cell].ns;
    const Amounts paid = payer.pay(all);
    Amounts weights;
    for (const auto& [origin, ns] : paid) weights[origin] = std::abs(ns);
    if (weights.empty()) weights = payer.now();
    // Splits cumulative sums, so that both margins are exact.
    Amounts before;
    int64_t upto = 0;
    for (const size_t cell : cells) {
        upto += rows[cell].ns;
        const Amounts after = cell == cells.back() ? paid : by_largest_remainder(upto, weights);
        add(parts[cell], after, 1);
        add(parts[cell], before, -1);
        before = after;
    }
}

}  // namespace

void split_by_origin(Attribution& attribution, const Definitions& definitions, const Backward& backward, const std::vector<size_t>& players,
                     const std::vector<int64_t>& ranks, const std::map<Engine::CulpritKey, std::pair<int64_t, int64_t>>& local,
                     bool windows_apart) {
    const Rule rule(definitions, backward, players, ranks, local);
    std::vector<Amounts> parts(attribution.rows.size());
    for (const size_t account : players) {
        std::map<int64_t, std::vector<size_t>> by_window;  // the source's rows
        int64_t share = 0;
        for (size_t row = 0; row < attribution.rows.size(); ++row) {
            if (attribution.rows[row].account != account) continue;
            by_window[attribution.rows[row].window].push_back(row);
            share += attribution.rows[row].ns;
        }
        const Payer all(rule.noise_of(account), share);
        Payer payer = all;
        for (const auto& [window, cells] : by_window) {
            if (windows_apart) payer = all;
            split_window(payer, attribution.rows, cells, parts);
        }
    }
    std::vector<AttributionRow> rows;
    for (size_t row = 0; row < attribution.rows.size(); ++row)
        for (const auto& [origin, ns] : parts[row]) {
            if (ns == 0) continue;
            rows.push_back(attribution.rows[row]);
            rows.back().culprit = origin.first;
            rows.back().rank = origin.second;
            rows.back().ns = ns;
        }
    attribution.rows = std::move(rows);
    attribution.by_origin = true;
}

}  // namespace polter::replay
