// SPDX-License-Identifier: BSD-3-Clause
// Follows delays back to their origins, and the critical paths through time, in the event graph.
#pragma once

#include <functional>
#include <vector>

#include "replay/graph/event_graph.hpp"
#include "timeline.hpp"

namespace polter::replay {

struct WaysOptions {
    int64_t first = 0, span = 1;             // of the measured run
    std::vector<int32_t> ranks;              // by thread
    uint64_t before_end = 0, after_end = 0;  // nodes at which the critical paths end: of the measured run, of the one without noise
};

// Completes `ways.list`; visits the nodes of `graph`, last to first. Ways are followed as long as `most_steps` allow.
void follow_back(const std::function<void(const EventGraph::Visit&)>& graph, const WaysOptions&, Ways& ways);

}  // namespace polter::replay
