// SPDX-License-Identifier: BSD-3-Clause
// The result, from what the passes over the trace have left behind: its figures, what was read, and what the trace leaves open.
#pragma once

#include <string>
#include <vector>

#include "replay/base/error.hpp"
#include "replay/base/options.hpp"
#include "replay/engine/engine.hpp"
#include "replay/scenario/scenario.hpp"
#include "result.hpp"

namespace polter::replay {

// Of the runtime: nothing is known better than so.
inline constexpr double resolution = 0.0005;

// Of each rank its MPI thread; ranks of which nothing is left are null.
std::vector<const Thread*> rank_threads(const Engine&, int32_t ranks);

// What the ranks' ends say of the program's: its end is the latest of theirs.
struct Ends {
    int64_t first = 0, last = 0;
    std::vector<int64_t> accumulated;  // in lanes
};

Ends program_ends(const std::vector<const Thread*>& ranks, size_t lanes);
// The rank that ends last in the measured run, of several the lowest; null where no rank has events.
const Thread* last_rank(const Engine& engine, int32_t ranks);

// Behind the last pass.
struct Replayed {
    const Definitions& definitions;
    const Scenarios& scenarios;
    const Engine& learner;             // of the learning pass
    const Engine& engine;              // of the pass over all scenarios
    std::vector<const Thread*> ranks;  // of the latter; null: nothing is left of it
    Ends ends;
    int64_t clock_disorder_ns = 0;  // as learned

    // Throws InputError where no rank has events.
    Replayed(const std::string& anchor, const Definitions&, const Scenarios&, const Engine& learner, const Engine&,
             int64_t clock_disorder_ns);
};

// Figures and bounds.
Result assemble(const Replayed&, const Options&, const Model&);
// Warnings, in the order in which a reader needs them; `unknown`: of a given model.
void tell_what_was_read(Result&, const Replayed&, const std::vector<Warning>& unknown);
void tell_what_is_open(Result&, const Replayed&);

}  // namespace polter::replay
