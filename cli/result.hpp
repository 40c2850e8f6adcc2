// SPDX-License-Identifier: BSD-3-Clause
// The result that `polter run` and `polter exec` end with: each MPI job's in turn, replayed as far as that takes no long time.
#pragma once

#include "../tracer/launch/launch.hpp"

namespace polter::cli {

// Waits for replays max(2 s, 2 % of the run) in all, or POLTER_REPLAY_LIMIT seconds; of a job that is not replayed within that it says what
// the ranks know by themselves, and the command that replays it. Prints one JSON document, or text.
void print_results(const launch::Outcome&, bool json);
// Of a run without a trace.
void print_no_trace(const launch::Outcome&);

}  // namespace polter::cli
