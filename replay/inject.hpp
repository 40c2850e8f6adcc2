// SPDX-License-Identifier: BSD-3-Clause
// `polter replay --inject`: how much longer the program would take under injected noise. One more pass over the trace, in which nothing
// is removed and each set of the injected sources hits in a lane of its own.
#pragma once

#include "replay.hpp"
#include "replay/engine/engine.hpp"
#include "replay/rules/mpi_rules.hpp"
#include "replay/scenario/injection.hpp"
#include "what_if.hpp"

namespace polter::replay {

struct InjectPass {
    const Options& options;
    const std::vector<InjectedSource>& sources;  // read and checked
    Model& model;                                // learned
    EngineFacts facts;
    LearnedRules rules;
    bool task_farms = false;  // the trace has some
    Faults faults;
    int64_t first = 0, last = 0;  // of the measured timeline
    const AtEvent& at_event;      // may be empty
};

Injected inject(const InjectPass&);

}  // namespace polter::replay
