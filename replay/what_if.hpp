// SPDX-License-Identifier: BSD-3-Clause
// What if exactly this noise were gone? Scenarios by source, culprit and rank, replayed after the trace itself has been.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "replay/base/options.hpp"
#include "replay/model/program.hpp"
#include "replay/result/result.hpp"
#include "replay/scenario/account_split.hpp"

namespace polter::replay {

struct Saving {
    int64_t ns = 0;  // by how much the run would be shorter
    int64_t low_ns = 0, high_ns = 0;
    // At most, if ranks also needed each other's CPUs for transfers inside of MPI calls (timeline/detours.hpp); at least high_ns.
    int64_t most_ns = 0;
    // Message times vary so much that without this noise they may be others; what makes the whole result conditional is in that.
    bool conditional = false;
};

// At each Enter and Leave of a rank's MPI thread, in order: its time in nanoseconds since the trace's first event, and by how much
// earlier it would be, by scenario; negative: later.
using AtEvent = std::function<void(int32_t rank, int64_t time, const int64_t* earlier)>;

// Further passes over the trace; each reads all of it.
class WhatIfs {
  public:
    static constexpr size_t scenarios_a_pass = 64;

    virtual ~WhatIfs() = default;
    // One pass for `scenarios_a_pass` scenarios: what each would save, without bounds. Locks are granted as in the measured run.
    // `at_event`: of the scenarios of one pass; of more, pass after pass.
    virtual std::vector<int64_t> savings(const std::vector<Scenario>&, const AtEvent& at_event = {}) = 0;
    // By how much the run would be longer with the noise of this file (schema polter.inject/1); nothing is removed. `at_event`: for each
    // of its sources as if it were alone. Throws InputError.
    virtual int64_t added_by(const std::string& file, const AtEvent& at_event = {}) = 0;
    // One scenario in a pass of its own, with bounds of its own, by the mechanism of those of all noise.
    virtual Saving bounded(const Scenario&) = 0;
    // What each rank does, as equations, from a pass that removes what the scenario "all" removes.
    virtual Programs programs(uint64_t most_calls) = 0;
};

// Replays as replay() does, and gives the result to `ask`. Not with a group of processes.
Result replay(const Options&, const std::function<void(const Result&, WhatIfs&)>& ask);

}  // namespace polter::replay
