// SPDX-License-Identifier: BSD-3-Clause
// The result of the backward pass in names and numbers: costliest noise events, critical path before and after, fate of the local noise.
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
    int64_t waiting = 0;   // hit in wait states
    int64_t dropped = 0;   // did not fit its interval, or lies before the rank's first or after its last event
    int64_t counted = 0;   // prolonged computation or completion overhead
    int64_t imported = 0;  // gained in calls that waited for delayed ranks
    int64_t lost = 0;      // lost in calls where another dependency was critical
    int64_t accumulated = 0;
};

// Sums over the ranks; local = waiting + dropped + absorbed_downstream + reached, to the nanosecond.
struct Propagation {
    int64_t local = 0, waiting = 0, dropped = 0;
    int64_t absorbed_downstream = 0;  // counted where it hit; absorbed later on the way to the end
    int64_t reached = 0;              // reached the end of the program: the accumulated noise
    int64_t accumulated = 0, imported = 0;
    std::optional<double> multiplication;  // accumulated on all ranks / local
    std::vector<RankBalance> ranks;
};

struct CostReport {
    std::vector<CostlyNoise> costliest;  // most first
    PathResult before, after;
    Propagation propagation;
    int64_t spilled_bytes = 0;  // of the temporary file
    size_t most_open = 0;       // most events that the backward pass held at once
};

struct Backward;
struct Definitions;
class Engine;
class Recorder;

// `accumulated`: of the program; `first`: time of the trace's first event.
CostReport report_costs(const Definitions&, const Engine& replayed, const Recorder&, const Backward&, int64_t accumulated, int64_t first);

}  // namespace polter::replay
