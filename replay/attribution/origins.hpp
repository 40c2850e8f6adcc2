// SPDX-License-Identifier: BSD-3-Clause
// Within a source: whose noise it was, and which rank it hit.
//
// Rule: of a source's share each (culprit, rank of origin) has its part of that source's noise on the critical path of the measured run
// that propagated to the path's end. A source that has none on that path counts by the path that is critical when all noise but its own is
// gone; if it has none there either, by its local noise. So the number of windows does not matter.
// Where an origin's part was paid follows the order of time: what hit in an earlier window is paid first, what hit in one window in
// proportion, and what a window of payment gives back was paid last. The cells of one window are each paid in the same proportion. Integers
// by largest remainder.
#pragma once

#include <vector>

#include "attribution.hpp"
#include "replay/engine/engine.hpp"
#include "replay/graph/slack_pass.hpp"

namespace polter::replay {

// Splits each row. `players`: the accounts in the order of `backward.all_but`; `ranks`: by thread; `local`: of each account the noise by
// rank and culprit. `windows_apart`: a mutation, for the test of the margin.
void split_by_origin(Attribution& attribution, const Definitions& definitions, const Backward& backward, const std::vector<size_t>& players,
                     const std::vector<int64_t>& ranks, const std::map<Engine::CulpritKey, std::pair<int64_t, int64_t>>& local,
                     bool windows_apart = false);

}  // namespace polter::replay
