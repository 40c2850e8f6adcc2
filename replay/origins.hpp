// SPDX-License-Identifier: BSD-3-Clause
// Within a source: whose noise it was, and on which rank it struck.
//
// The rule: what a source has in a cell of the table is distributed over (culprit, rank of origin) in proportion to that source's noise on
// the critical path of the measured run that came through to the path's end, of that cell's window of time; where the path has none
// of it in that window, of the last window before that has some; else of the first after. Of a source that has none on that path (something
// else was in front of it) the path counts that is critical when all noise but that source's is gone; and if there is none either, its
// local noise. Integers by largest remainder.
#pragma once

#include <vector>

#include "attribution.hpp"
#include "backward.hpp"
#include "engine.hpp"

namespace polter::replay {

// Splits each row. `players`: the accounts in the order of `backward.all_but`; `ranks`: by thread; `local`: of each account the noise by
// rank and culprit.
void split_by_origin(Attribution& attribution, const Definitions& definitions, const Backward& backward, const std::vector<size_t>& players,
                     const std::vector<int64_t>& ranks, const std::map<Engine::CulpritKey, std::pair<int64_t, int64_t>>& local);

}  // namespace polter::replay
