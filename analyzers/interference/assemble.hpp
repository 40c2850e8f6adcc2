// SPDX-License-Identifier: BSD-3-Clause
// From what each rank did in its segments to the segments of the run.
#pragma once

#include "segments.hpp"

namespace polter::interference {

struct RankSegments {
    int64_t first = 0, last = 0;  // end of the first collective; last event
    std::vector<int64_t> ends;
    std::vector<int64_t> entered;  // the collectives that end them; empty: not known
    std::vector<double> computing;
    std::vector<uint32_t> calls;  // index of what it communicated
};

// Fills segments, kinds, calls, before, after and warnings of `run`. `name`: in messages. Throws replay::InputError for fewer than two
// segments.
void assemble(Run& run, const std::string& name, const std::vector<RankSegments>& ranks, std::vector<Features> calls);

}  // namespace polter::interference
