// SPDX-License-Identifier: BSD-3-Clause
#include "account_split.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "replay/base/error.hpp"

namespace polter::replay {

AccountSplit::AccountSplit(const Definitions& definitions, const std::vector<Scenario>& scenarios)
    : definitions_(definitions), scenarios_(scenarios) {
    // Every set of scenarios that can remove a record: names that no scenario mentions are alike.
    std::set<std::string> names{""};
    for (const Scenario& scenario : scenarios_)
        for (const Removal& removal : scenario) names.insert(removal.culprits.begin(), removal.culprits.end());
    for (size_t account = 0; account < definitions.accounts.size(); ++account)
        for (int64_t rank = no_rank; rank < definitions.ranks; ++rank)
            for (const std::string& name : names) {
                const Removed removed = removed_by(account, rank, name);
                if (!part_of_.try_emplace({static_cast<uint16_t>(account), removed}, static_cast<uint16_t>(parts())).second) continue;
                if (parts() == UINT16_MAX)
                    throw InputError(fmt::format("{} scenarios split the noise into more than {} parts; replay fewer at once",
                                                 scenarios_.size(), UINT16_MAX));
                account_.push_back(static_cast<uint16_t>(account));
                removed_.push_back(removed);
            }
}

AccountSplit::Removed AccountSplit::removed_by(size_t account, int64_t rank, const std::string& culprit) const {
    const std::string name = display_name(definitions_.accounts[account]);
    Removed removed;
    for (const Scenario& scenario : scenarios_)
        removed.push_back(std::any_of(scenario.begin(), scenario.end(), [&](const Removal& removal) {
            return removal.source == name && (removal.ranks.empty() || removal.ranks.contains(rank)) &&
                   (removal.culprits.empty() || removal.culprits.contains(culprit));
        }));
    return removed;
}

uint16_t AccountSplit::part(uint16_t account, int32_t rank, uint32_t culprit) const {
    const auto [known, is_new] = known_.try_emplace({account, rank, culprit}, uint16_t{0});
    if (is_new) known->second = part_of_.at({account, removed_by(account, rank, definitions_.culprit_name(culprit))});
    return known->second;
}

std::vector<std::vector<int64_t>> AccountSplit::masks() const {
    std::vector<std::vector<int64_t>> masks(parts(), std::vector<int64_t>(scenarios_.size() + 1, 0));
    for (size_t part = 0; part < parts(); ++part)
        for (size_t scenario = 0; scenario < scenarios_.size(); ++scenario)
            if (removed_[part][scenario]) masks[part][scenario + 1] = -1;
    return masks;
}

}  // namespace polter::replay
