// SPDX-License-Identifier: BSD-3-Clause
// The replay's first stage: the learning pass.
#pragma once

#include <memory>

#include "replay/engine/engine.hpp"
#include "replay/rules/mpi_rules.hpp"
#include "testing.hpp"

namespace polter::replay {

// The first pass: what communication costs here, which accounts have noise at all, and what else is known only behind where it counts.
struct Learning {
    Archive archive;
    Model model;
    Lanes lanes{0, 0, 0, 0, {}};
    std::unique_ptr<Engine> engine;
    MpiRules* rules = nullptr;  // the engine's
    std::shared_ptr<const LockPlan> locks;
    std::shared_ptr<const AccessPlan> accesses;

    Learning(const Options& options, const Hooks& hooks, double parts, EngineFacts facts, LearnedRules learned);
};

// `parts`: the passes of the whole replay, for the progress. `links`: how messages shared their hosts' links, where that is known.
std::unique_ptr<Learning> learn(const Options& options, const Hooks& hooks, double parts, std::shared_ptr<const LinkPlan> links = nullptr);

}  // namespace polter::replay
