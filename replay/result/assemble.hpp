// SPDX-License-Identifier: BSD-3-Clause
// Assembles the result from what the passes over the trace have found: figures, bounds and warnings.
#pragma once

#include <string>
#include <vector>

#include "replay/base/error.hpp"
#include "replay/base/options.hpp"
#include "replay/engine/engine.hpp"
#include "replay/scenario/scenario.hpp"
#include "result.hpp"

namespace polter::replay {

// As part of the run time: less is nothing.
inline constexpr double resolution = 0.0005;

// By rank, its MPI thread; null for ranks without events.
std::vector<const Thread*> rank_threads(const Engine&, int32_t ranks);

// The program's end, from the ranks' ends: the latest of them.
struct Ends {
    int64_t first = 0, last = 0;
    std::vector<int64_t> accumulated;  // by lane
};

Ends program_ends(const std::vector<const Thread*>& ranks, size_t lanes);
// The rank that ends last in the measured run; of several, the lowest. Null if no rank has events.
const Thread* last_rank(const Engine& engine, int32_t ranks);

// Of the run time in the scenario `lanes.all`, widened by what the trace cannot show, as message costs vary even without noise.
struct Bounds {
    int64_t low_ns = 0, high_ns = 0;
    bool contention = false;  // that variation could matter: messages contend for the network, and without noise they may do otherwise
};
// `removes`: there is noise that the scenario removes.
Bounds bounds_of(const Ends&, const Lanes&, const std::vector<const Thread*>& ranks, bool removes);

// What the passes leave behind.
struct Replayed {
    const Definitions& definitions;
    const Scenarios& scenarios;
    const Engine& learner;             // of the learning pass
    const Engine& engine;              // of the pass over all scenarios
    std::vector<const Thread*> ranks;  // of the last pass; null: no events of that rank
    Ends ends;
    int64_t clock_disorder_ns = 0;  // as learned

    // Throws InputError if no rank has events.
    Replayed(const std::string& anchor, const Definitions&, const Scenarios&, const Engine& learner, const Engine&,
             int64_t clock_disorder_ns);
};

// Figures and bounds.
Result assemble(const Replayed&, const Options&, const Model&);
// Warnings, in the order in which they are shown; `unknown`: of a model read from a file.
void tell_what_was_read(Result&, const Replayed&, const std::vector<Warning>& unknown);
void tell_what_is_open(Result&, const Replayed&);

}  // namespace polter::replay
