// SPDX-License-Identifier: BSD-3-Clause
// The clocks of a job's hosts, and what is to be added to the times of each to get that of the first rank's host (../clocks/).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../clocks/fit.hpp"
#include "definitions.hpp"
#include "seal.hpp"
#include "sidecar.hpp"

namespace polter::seal {

// Numbered by their lowest ranks, so the first rank's is 0.
class HostClocks {
  public:
    // With what the leaders exchanged. `first_ns`, `last_ns`: of each rank's events, by its own clock.
    HostClocks(const std::vector<Sidecar>& ranks, const Definitions&);

    size_t count() const { return hosts_.size(); }
    uint32_t of(uint32_t rank) const { return by_rank_.at(rank); }
    bool knows(uint32_t rank) const { return by_rank_.contains(rank); }
    const std::string& host(uint32_t clock) const { return hosts_[clock]; }

    // A message between two clocks, by the stamps of each.
    void message(uint32_t from, int64_t sent, uint32_t to, int64_t received);
    void drop_messages() { messages_.clear(); }
    uint64_t messages() const;
    using Pairs = std::map<std::pair<uint32_t, uint32_t>, clocks::Constraints>;  // own clock (the higher number), reference
    const Pairs& message_pairs() const { return messages_; }
    void add_points(uint32_t own, uint32_t reference, const std::vector<clocks::Point>&);

    // By clock; none: nothing connects it with the first one.
    const std::vector<std::optional<clocks::Correction>>& corrections() const { return corrections_; }
    void correct();

  private:
    clocks::Constraints& pair(Pairs&, uint32_t own, uint32_t reference);

    std::map<uint32_t, uint32_t> by_rank_;
    std::vector<std::string> hosts_;  // by clock: their names
    std::vector<std::pair<int64_t, int64_t>> span_;
    Pairs exchanges_, messages_;
    std::vector<std::optional<clocks::Correction>> corrections_;
};

// Into the definitions: corrections of the processes, first and last time, the property. Into the report: what could not be corrected,
// and clocks that were stepped.
void add_corrections(HostClocks&, std::vector<Sidecar>& ranks, Definitions&, Report&);

}  // namespace polter::seal
