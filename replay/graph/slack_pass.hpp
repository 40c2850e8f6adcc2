// SPDX-License-Identifier: BSD-3-Clause
// The backward pass over the event graph: how much later each event could be in the approximated timeline before the program ends later,
// which noise events cost most by that, and which events decide the end, before and after.
//
// Slack of a node: 0 at the end of the rank that ends last without the noise; of others the least, over what depends on them, of that
// node's slack and the edge's. The cost of a noise event is what it alone adds to the run without noise: max(0, what it delays − slack),
// at the place where it hit. Memory is bounded by the threads and by the edges that cross what is being read.
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

// Noise on a critical path, as far as it propagated to the path's end.
struct OriginKey {
    uint16_t account = 0;
    uint32_t culprit = 0, thread = 0, window = 0;
    auto operator<=>(const OriginKey&) const = default;
};
using Origins = std::map<OriginKey, int64_t>;

struct CriticalPath {
    int64_t hops = 0;                       // from one thread to another
    std::map<uint32_t, int64_t> by_thread;  // ns
    std::map<Place, int64_t> by_place;      // ns
    std::map<uint16_t, int64_t> noise;      // by account, ns of the noise on it
};

struct BackwardOptions {
    size_t costliest = 10;
    std::function<uint32_t(int64_t)> window;
    std::vector<uint16_t> players;                             // the accounts that watched[2…] keep
    std::function<void(uint64_t number, int64_t slack)> seen;  // each node's slack, for the tests; may be empty
    // Mutations, for the tests.
    bool dropped_edge = false, keep_losses = false;
};

struct Backward {
    std::vector<CostlyEvent> costliest;  // most first
    CriticalPath before, after;
    // Of the measured path, and by player of the path of "all but it" (its own noise only). They add up to what the path's end was
    // delayed: where a path loses delay because something else was later without the noise, the noise gathered last before that
    // is what was lost.
    Origins measured;
    std::vector<Origins> all_but;
    int64_t unexplained = 0;  // of the measured path, so that they do: gained because messages came in another order; mostly 0
    size_t most_open = 0;     // nodes that were known only by what depends on them, at once
    int64_t least_slack = 0;  // of all nodes; never negative
};

// `thread_last`: by watched scenario, the thread that ends last in it. `carries`: by thread, whether its end is one of the program's.
// `graph`: visits its nodes from the last to the first.
Backward backward_pass(const std::function<void(const EventGraph::Visit&)>& graph, const Recorder&,
                       const std::vector<uint32_t>& thread_last, const std::vector<bool>& carries, const BackwardOptions&);

}  // namespace polter::replay
