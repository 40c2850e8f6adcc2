// SPDX-License-Identifier: BSD-3-Clause
// What the backward pass found, in names and numbers: the noise events that cost most, the critical path before and after, what became of
// the local noise.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace polter::replay {

// The cost is what this event alone adds to the run without noise; the costs of several do not add up.
struct CostlyNoise {
    int64_t rank = 0, at_ns = 0, duration_ns = 0, cost_ns = 0;  // at: since the trace's first event
    std::string source, culprit;
    std::string where, caller, call_site;  // as in the attribution
};

struct PathPlace {
    std::string where, caller, call_site;
    int64_t ns = 0;
};

// The chain of events that decides when the program ends.
struct PathResult {
    int64_t length_ns = 0, hops = 0;                   // hops: from one rank to another
    std::vector<std::pair<int64_t, int64_t>> by_rank;  // rank, ns: most first
    std::vector<PathPlace> by_place;                   // most first
    std::map<std::string, int64_t> noise;              // by source: the noise that lies on it; of the path before only
};

// local = waiting + dropped + counted; accumulated = counted + imported − lost.
struct RankBalance {
    int64_t rank = 0;
    int64_t local = 0;     // removed sources only
    int64_t waiting = 0;   // hit while the rank waited anyway
    int64_t dropped = 0;   // has no room in its interval, or lies outside the rank's first and last event
    int64_t counted = 0;   // prolonged its computation or the completion overhead of its calls
    int64_t imported = 0;  // in its calls, because others were late
    int64_t lost = 0;      // in its calls, because something else was later still
    int64_t accumulated = 0;
};

// Sums over the ranks; local = waiting + dropped + absorbed_downstream + reached, to the nanosecond.
struct Propagation {
    int64_t local = 0, waiting = 0, dropped = 0;
    int64_t absorbed_downstream = 0;  // counted where it hit, and something else was later on its way to the end
    int64_t reached = 0;              // what the program ends later by: the accumulated noise
    int64_t accumulated = 0, imported = 0;
    std::optional<double> multiplication;  // accumulated on all ranks / local
    std::vector<RankBalance> ranks;
};

struct CostReport {
    std::vector<CostlyNoise> costliest;  // most first
    PathResult before, after;
    Propagation propagation;
    int64_t spilled_bytes = 0;  // of the temporary file
    size_t most_open = 0;       // what the backward pass held at once: events that are known only by what depends on them
};

struct Backward;
struct Definitions;
class Engine;
class Recorder;

// `accumulated`: of the program; `first`: the trace's first event.
CostReport report_costs(const Definitions&, const Engine& replayed, const Recorder&, const Backward&, int64_t accumulated, int64_t first);

}  // namespace polter::replay
