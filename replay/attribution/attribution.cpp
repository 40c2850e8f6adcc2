// SPDX-License-Identifier: BSD-3-Clause
#include "attribution.hpp"

#include <map>
#include <tuple>

#include "replay/graph/end_delay.hpp"
#include "replay/scenario/scenario.hpp"
#include "replay/trace/definitions.hpp"

namespace polter::replay {

Attribution attribute(const Definitions& definitions, const Scenarios& scenarios, const Payment& payment,
                      const std::vector<int64_t>& accumulated, const std::vector<int64_t>& end, bool cells_alone) {
    // Keys are names, as several regions may have the same: window, where, caller, call site.
    using Key = std::tuple<int64_t, std::string, std::string, std::string>;
    std::map<Key, std::vector<int64_t>> cells;
    const auto add = [&](const Key& key, const std::vector<int64_t>& lanes) {
        std::vector<int64_t>& cell = cells[key];
        cell.resize(lanes.size(), 0);
        for (size_t i = 0; i < lanes.size(); ++i) cell[i] += lanes[i];
    };
    for (const auto& [cell, lanes] : payment.cells()) {
        const auto [where, caller] = definitions.place_names(cell.place);
        add({cell.window, where, caller, definitions.call_site_name(cell.place)}, lanes);
    }
    std::vector<int64_t> others(accumulated.size());
    for (size_t i = 0; i < others.size(); ++i) others[i] = accumulated[i] - end[i];
    add({payment.windows() - 1, another_rank_ends_last, "", ""}, others);

    // Shares cumulative sums of cells and assigns each cell the difference: so both margins are exact in spite of rounding.
    Attribution attribution;
    attribution.windows = payment.windows();
    std::vector<int64_t> upto(accumulated.size(), 0), before(scenarios.players().size(), 0);
    for (const auto& [key, lanes] : cells) {
        for (size_t i = 0; i < lanes.size(); ++i) upto[i] = lanes[i] + (cells_alone ? 0 : upto[i]);
        const std::vector<int64_t> shares = scenarios.shares(upto);
        for (size_t player = 0; player < shares.size(); ++player) {
            const int64_t ns = shares[player] - before[player];
            if (ns == 0) continue;
            const auto& [window, where, caller, call_site] = key;
            const size_t account = scenarios.players()[player];
            attribution.rows.push_back(
                {display_name(definitions.accounts[account]), "", -1, where, caller, call_site, window, ns, account});
        }
        if (!cells_alone) before = shares;
    }
    return attribution;
}

}  // namespace polter::replay
