// SPDX-License-Identifier: BSD-3-Clause
// Within a source: whose noise it was, and on which rank it struck.
//
// The rule: of a source's share each (culprit, rank of origin) has its part of that source's noise on the critical path of the measured run
// that came through to the path's end. Of a source that has none on that path (something else was in front of it) the path counts that is
// critical when all noise but that source's is gone; and if there is none either, its local noise. So windows do not matter to it.
// An origin pays its part in the order of time: what struck in an earlier window is paid first, what struck in one window in proportion,
// and what a window of payment gives back was paid last. The cells of one window are each paid in the same proportion. Integers by largest
// remainder.
#pragma once

#include <vector>

#include "attribution.hpp"
#include "replay/engine/engine.hpp"
#include "replay/graph/slack_pass.hpp"

namespace polter::replay {

// Splits each row. `players`: the accounts in the order of `backward.all_but`; `ranks`: by thread; `local`: of each account the noise by
// rank and culprit. `windows_apart`: a deliberate fault, for the test of the margin.
void split_by_origin(Attribution& attribution, const Definitions& definitions, const Backward& backward, const std::vector<size_t>& players,
                     const std::vector<int64_t>& ranks, const std::map<Engine::CulpritKey, std::pair<int64_t, int64_t>>& local,
                     bool windows_apart = false);

}  // namespace polter::replay
