// SPDX-License-Identifier: BSD-3-Clause
// The specification of the replay, executable: the whole event graph of a small trace, and the longest path through it in each lane.
//
// A vertex is an Enter or a Leave of a rank, an edge "not before that, plus so much" (max-plus). Matching, who belongs to which
// collective, and where noise lies are found here from the trace alone, all at once; the engine, which reads it in windows, blocks,
// wakes and forgets, has to come to the same times. Only what communication costs, as the engine learned it, is taken from there.
//
// Left out: collectives that follow a structure (they count as "a constant after the last"), polling, receives whose posting does not
// tell from whom, traces with counters at MPI events only, noise records that overlap, regions within calls.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "../support/trace_spec.hpp"
#include "replay/model/model.hpp"
#include "replay/scenario/scenario.hpp"

namespace polter::test {

// By rank, each of its Enters and Leaves: measured time, approximated times in the lanes of the scenarios.
using Timelines = std::vector<std::vector<std::pair<int64_t, std::vector<int64_t>>>>;

// Mutations of the reference itself: what the comparison has to find.
struct ReferenceFaults {
    bool no_messages = false;        // receives wait for nobody
    bool last_message = false;       // a receive takes the message that came last
    bool no_posting = false;         // synchronous sends wait for nobody
    bool forget_member = false;      // the first member of a collective holds nobody up
    bool noise_anywhere = false;     // noise while waiting counts
    bool all_members_delay = false;  // in a collective: whatever hit any of them, however many there are
};

// The trace is not one that the reference covers, or its calls wait for each other in a circle.
struct NotCovered : std::runtime_error {
    using std::runtime_error::runtime_error;
};

Timelines reference(const TraceSpec&, const replay::Scenarios&, const replay::Model&, const ReferenceFaults& = {});

// By rank, of each of its Enters and Leaves: how much later it could be in the scenario "all" before the last rank ends later there.
std::vector<std::vector<int64_t>> reference_slacks(const TraceSpec&, const replay::Scenarios&, const replay::Model&,
                                                   const ReferenceFaults& = {});

}  // namespace polter::test
