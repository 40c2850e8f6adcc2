// SPDX-License-Identifier: BSD-3-Clause
// Which accounts each lane removes, and how the lanes' ends give each account's cost.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lanes.hpp"
#include "replay/base/mutations.hpp"
#include "replay/trace/definitions.hpp"

namespace polter::replay {

class Scenarios {
  public:
    // `remove`: names as the user gives them; unset: all sources. Throws InputError for a name that the trace does not have.
    // `has_noise`: by account; only accounts with noise take part in the shares.
    Scenarios(const std::vector<Account>& accounts, const std::optional<std::vector<std::string>>& remove,
              const std::vector<bool>& has_noise, Faults faults = {});

    const Lanes& lanes() const { return lanes_; }
    size_t all() const { return lane_of_.at(all_); }
    std::vector<uint64_t> lane_sets() const;  // by lane: the set of removed accounts
    size_t alone_lane(size_t account) const { return lane_of_.at(Set{1} << account); }
    size_t all_but_lane(size_t player) const { return lane_of_.at(effective_ & ~(Set{1} << player)); }
    // Scenarios whose locks are simulated in a pass of their own: all, or if there are too many, "all", each source alone and all but each.
    std::vector<size_t> lanes_to_order() const;
    bool removed(size_t account) const { return all_ >> account & 1; }
    const std::vector<size_t>& players() const { return players_; }  // the accounts among which the accumulated noise of "all" is shared
    bool sampled() const { return sampled_; }

    // `value[lane]`: accumulated noise of the program or of a rank.
    int64_t alone(const std::vector<int64_t>& value, size_t account) const;
    int64_t without(const std::vector<int64_t>& value, size_t account) const;  // what the account adds when it is removed last
    // Shapley values of the players in integers that add up to value[all]; `error`: standard error of each where sampled.
    std::vector<int64_t> shares(const std::vector<int64_t>& value, std::vector<double>* error = nullptr) const;

    static constexpr size_t most_exact = 8, most_ordered = 64;

  private:
    using Set = uint64_t;  // of accounts
    int64_t at(const std::vector<int64_t>& value, Set set) const { return value[lane_of_.at(set)]; }
    void add(Set set);

    Lanes lanes_;
    std::map<Set, size_t> lane_of_;
    std::vector<size_t> players_;
    std::vector<std::vector<size_t>> orders_;  // of players, where sampled
    Set all_ = 0, effective_ = 0;              // effective: those that have noise
    bool sampled_ = false;
    Faults faults_;
};

// Lane 0 removes nothing, lane 1 what `masks` says: those of each account, or part, in these lanes. With `bounds` these in two more.
Lanes one_scenario(std::vector<std::vector<int64_t>> masks, bool bounds);

}  // namespace polter::replay
