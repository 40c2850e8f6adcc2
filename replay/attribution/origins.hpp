// SPDX-License-Identifier: BSD-3-Clause
// Splits a source's share by culprit and by the rank that the noise hit.
//
// Rule: each (culprit, rank of origin) gets its part of the source's noise on the critical path of the measured run that propagated to the
// path's end. A source without noise on that path is split by the critical path of the scenario that keeps its noise only; if it has none
// there either, by its local noise. So the number of windows does not matter. Within a share, noise is paid in order of time: noise of
// earlier windows first, noise of one window in proportion; a window with a negative payment takes back what was paid last. All cells of a
// window are split in the same proportion. Integers by largest remainder.
#pragma once

#include <vector>

#include "attribution.hpp"
#include "replay/engine/engine.hpp"
#include "replay/graph/slack_pass.hpp"

namespace polter::replay {

// Splits each row. `players`: accounts in the order of `backward.all_but`; `ranks`: by thread; `local`: by account, noise by rank and
// culprit. `windows_apart`: a mutation, for the test of the margin.
void split_by_origin(Attribution& attribution, const Definitions& definitions, const Backward& backward, const std::vector<size_t>& players,
                     const std::vector<int64_t>& ranks, const std::map<Engine::CulpritKey, std::pair<int64_t, int64_t>>& local,
                     bool windows_apart = false);

}  // namespace polter::replay
