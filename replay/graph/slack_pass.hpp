// SPDX-License-Identifier: BSD-3-Clause
// The backward pass over the event graph: the slack of each event, the noise events that cost most by it, and the critical path before and
// after.
//
// Slack is how much later an event could be in the noise-free timeline without delaying the program's end. At the end of the rank that ends
// last it is 0; elsewhere it is the least sum, over the nodes that depend on it, of that node's slack and the edge's. A noise event alone,
// added to the noise-free run, costs max(0, its delay − slack) at the node where it hit. Memory is bounded by the threads and by the edges
// between what has been read and what has not.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "recorder.hpp"

namespace polter::replay {

struct CostlyEvent {
    uint32_t thread = 0, culprit = 0;
    uint16_t account = 0;
    Place place;
    int64_t begin = 0, duration = 0, cost = 0;
};

// Noise on a critical path that propagated to the path's end.
struct OriginKey {
    uint16_t account = 0;
    uint32_t culprit = 0, thread = 0, window = 0;
    auto operator<=>(const OriginKey&) const = default;
};
using Origins = std::map<OriginKey, int64_t>;

struct CriticalPath {
    int64_t hops = 0;                       // number of changes from one thread to another
    std::map<uint32_t, int64_t> by_thread;  // ns
    std::map<Place, int64_t> by_place;      // ns
    std::map<uint16_t, int64_t> noise;      // by account, ns of the noise on it
};

struct BackwardOptions {
    size_t costliest = 10;
    std::function<uint32_t(int64_t)> window;
    std::vector<uint16_t> players;                             // the accounts that watched[2…] keep
    std::function<void(uint64_t number, int64_t slack)> seen;  // for the tests: called with each node's slack; may be empty
    // Mutations, for the tests.
    bool dropped_edge = false, keep_losses = false;
};

struct Backward {
    std::vector<CostlyEvent> costliest;  // most expensive first
    CriticalPath before, after;
    // Noise on the measured path; and, by player, the own noise on the path of "all but it". The sum is the delay at the path's end: where
    // the path loses delay, because another dependency is critical without the noise, the noise gathered last before that is lost.
    Origins measured;
    std::vector<Origins> all_but;
    int64_t unexplained = 0;  // part of that delay that no noise on the path explains, as messages have another order; mostly 0
    size_t most_open = 0;     // most nodes at a time that were known only as predecessors
    int64_t least_slack = 0;  // over all nodes; never negative
};

// `thread_last`: by watched scenario, the thread that ends last. `carries`: by thread, whether it carries a rank. Visits the nodes of
// `graph`, last to first.
Backward backward_pass(const std::function<void(const EventGraph::Visit&)>& graph, const Recorder&,
                       const std::vector<uint32_t>& thread_last, const std::vector<bool>& carries, const BackwardOptions&);

}  // namespace polter::replay
