// SPDX-License-Identifier: BSD-3-Clause
// Scenarios finer than whole accounts: noise by source, culprit and rank. Each account is split into parts, so that each scenario removes
// whole parts only; to the engine a part is an account like any other.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lanes.hpp"
#include "replay/trace/definitions.hpp"

namespace polter::replay {

// Noise that a scenario removes. The source's name as display_name() gives it: "preempt", "os-service:preempt_job".
struct Removal {
    std::string source;
    std::set<std::string> culprits;  // empty: of any, also where none is known
    std::set<int64_t> ranks;         // empty: on any
};
using Scenario = std::vector<Removal>;

class AccountSplit {
  public:
    // The definitions must outlive it. Names that the trace does not have remove nothing.
    AccountSplit(const Definitions& definitions, const std::vector<Scenario>& scenarios);

    size_t parts() const { return account_.size(); }
    uint16_t account(uint16_t part) const { return account_[part]; }  // of the trace
    bool removed(size_t scenario, uint16_t part) const { return removed_[part][scenario]; }
    // `culprit`: the string's reference, as the record has it.
    uint16_t part(uint16_t account, int32_t rank, uint32_t culprit) const;
    // By part: lane 0 removes nothing, lane i + 1 what scenario i removes.
    std::vector<std::vector<int64_t>> masks() const;

  private:
    using Removed = std::vector<bool>;  // by scenario
    Removed removed_by(size_t account, int64_t rank, const std::string& culprit) const;

    const Definitions& definitions_;
    const std::vector<Scenario> scenarios_;
    std::vector<uint16_t> account_;  // by part
    std::vector<Removed> removed_;   // by part
    std::map<std::pair<uint16_t, Removed>, uint16_t> part_of_;
    struct Key {
        uint16_t account;
        int32_t rank;
        uint32_t culprit;
        auto operator<=>(const Key&) const = default;
    };
    mutable std::map<Key, uint16_t> known_;  // asked for before
};

}  // namespace polter::replay
