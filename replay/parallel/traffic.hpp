// SPDX-License-Identifier: BSD-3-Clause
// Whether several analysis processes are faster than one, from a sample of the trace.
#pragma once

#include "group.hpp"
#include "replay/trace/archive.hpp"

namespace polter::replay {

// What processes that share a trace would have to tell each other, as parts of all records: messages to ranks that another one reads, and
// arrivals at collectives with members elsewhere.
struct Traffic {
    double messages = 0, collectives = 0;
    double ranks = 1;  // of a process, on average: while one waits for another process, the others go on
    double crossing() const { return messages + collectives; }
};

// Of the first records of some locations. Opens their event files, and closes them. Throws InputError.
Traffic crossing_traffic(Archive& archive, int processes);

// The time that several processes take, as a part of that of one, where so many of them run at once.
double expected_part(const Traffic& traffic, int processes, double at_once);

// Beyond it one process replays alone: the estimate is no better than that.
inline constexpr double most_expected_part = 0.85;

// How many of `cores` of this host other work leaves free now, at least 1. `ours`: how many threads of our own run.
double free_cores(double cores, double ours);

// How many of the processes can run at once: those on this host (the first process') take turns where it has fewer cores, or other work on
// them now. Collective; what the first process gets is right.
double processes_at_once(Group& group);

}  // namespace polter::replay
