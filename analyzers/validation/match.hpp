// SPDX-License-Identifier: BSD-3-Clause
// The injector's log against a trace: for each event, what the trace has at that time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzers/inject/log.hpp"

namespace polter::validation {

// Counts and sums over events; times in nanoseconds.
struct Found {
    uint64_t logged = 0, found = 0;          // events while the rank ran, and those that the trace has
    uint64_t recorded = 0, invented = 0;     // interruptions by the injector in the trace, and those that no event explains
    uint64_t blocked = 0;                    // events while the rank did not want the CPU: no noise
    uint64_t others = 0;                     // events while another task had the CPU: they preempted that
    int64_t logged_ns = 0, recorded_ns = 0;  // of the events that were found
    int64_t covered_ns = 0;                  // of the log's events, by their records: without what these have before and after them
    int64_t rest_ns = 0;                     // recorded less logged less the switches: the median of each run and rank
    int64_t preempt_ns = 0, named_ns = 0;    // of what the trace has at those times: the right source; the right source and culprit
    int64_t any_ns = 0;                      // … of any source
    int64_t outside_ns = 0;                  // the injector's threads starting and ending, which are no events
    // Of each event found: recorded less injected; how much earlier the record begins, and how much later it ends; the timer interrupt
    // before it, which the record does not contain.
    std::vector<int64_t> longer_ns, before_ns, after_ns, woken_ns;
    void add(const Found&);
};

// Noise of one rank; times since the trace's first event.
struct Slice {
    int64_t begin, end;
    bool preempt, ours, service, timer;  // ours: of the injector
};

// `events`: of the rank, by begin; `origin`: the trace's first event by the log's clock; `rank_end`: the rank's last event.
Found match_rank(const std::vector<inject::Injected>& events, std::vector<Slice> slices, int64_t origin, int64_t rank_end);

// Throws inject::Error, replay::InputError.
Found match_log(const std::string& log, const std::string& trace);

}  // namespace polter::validation
