// SPDX-License-Identifier: BSD-3-Clause
// When one CPU or rank is hit, and for how long. The same specification and stream give the same events everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "spec.hpp"

namespace polter::inject {

struct Event {
    int64_t begin_ns = 0, duration_ns = 0;  // begin: since the start of the injection
};

class Schedule {
  public:
    // `stream`: each CPU or rank has its own; all have the same where the specification says "together".
    // `listed`: the events of replay, in the order of time. `longest_ns`: longer draws are cut.
    Schedule(const Spec& spec, uint64_t stream, std::vector<Event> listed, int64_t longest_ns);
    std::optional<Event> next();  // begins never decrease; empty: no more

  private:
    std::optional<Event> drawn();
    double draw();  // in (0, 1]

    Kind kind_;
    int64_t period_, duration_, longest_, on_, off_, after_;
    double probability_, shape_, least_ = 0;  // least_: of pareto
    uint64_t state_;
    int64_t at_ = 0;
    std::vector<Event> listed_;
    size_t used_ = 0;
};

}  // namespace polter::inject
