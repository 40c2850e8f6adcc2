// SPDX-License-Identifier: BSD-3-Clause
// What a page draws of a replay: the timeline in levels of detail, close-ups with every call, where delays came from, distributions.
//
// Times are nanoseconds since the trace's first event. Memory is bounded by budgets below, not by the trace: a level has at most
// `most_cells` cells, close-ups at most `most_items` calls, noise events and messages each.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "replay/base/histogram.hpp"
#include "replay/trace/call_path.hpp"

namespace polter::replay {

inline constexpr size_t most_drawn_rows = 1024;        // more ranks share rows
inline constexpr size_t most_cells = size_t{1} << 17;  // of the finest level, as long as each row keeps `least_buckets`
inline constexpr size_t least_buckets = 256, most_buckets = 4096;
inline constexpr size_t path_buckets = 512;
inline constexpr size_t most_items = 60'000;         // of all close-ups
inline constexpr int64_t whole_run_events = 30'000;  // up to so many events in the trace, one close-up shows the whole run
inline constexpr size_t most_steps = 30'000;         // of all ways back to origins

// One level of detail: row × bucket, each a sum over the ranks of the row; `delay`: the greatest delay of a rank at the bucket's end.
struct Level {
    int64_t bucket_ns = 0;
    size_t buckets = 0;
    std::vector<int64_t> mpi, waiting, without_mpi, without_waiting;  // waiting is part of mpi; without: in the approximated timeline
    std::vector<int64_t> delay;
    std::map<uint16_t, std::vector<int64_t>> noise;  // by account, those that have any
};

struct CloseUp {
    int64_t begin = 0, end = 0;
    bool cut = false;  // it holds more than the budget allows: some items are missing
    struct Call {
        int32_t rank = 0;
        int64_t enter = 0, leave = 0, waited_until = 0;  // measured; no wait state: waited_until = enter
        int64_t enter_delay = 0, leave_delay = 0, without_waited_until = 0;
        Place place;
    };
    struct Noise {
        int32_t rank = 0;
        int64_t begin = 0, end = 0;
        uint16_t account = 0;
        uint32_t culprit = 0;
    };
    struct Message {
        int32_t from = 0, to = 0;
        int64_t sent = 0, sent_delay = 0, received = 0, received_delay = 0;  // received: end of the call that completed the receive
        uint64_t bytes = 0;
    };
    std::vector<Call> calls;
    std::vector<Noise> noise;
    std::vector<Message> messages;
};

// A call in which a rank's delay grew, and the way back to where that came from: along the critical predecessors of the measured run, to
// the first event at which the rank there was no later than this one had been before the call.
struct Way {
    int32_t rank = 0;
    int64_t enter = 0, leave = 0, growth = 0;
    Place place;
    uint64_t node = 0;            // of the event graph: the end of the call
    int64_t before = 0;           // delay before the call
    size_t first = 0, steps = 0;  // in Ways::steps, along `next`
    bool complete = false;        // false: it goes further back than is followed
    int64_t noise_ns = 0;         // that counted on the way
    size_t origin = SIZE_MAX;     // the noise event on it that counted most, in Ways::noise; SIZE_MAX: none
};

struct WayStep {
    int32_t rank = 0;
    int64_t time = 0, delay = 0;
    size_t next = SIZE_MAX;  // the step before it in time
};

struct WayNoise {
    int32_t rank = 0;
    int64_t at = 0, duration = 0;
    uint16_t account = 0;
    uint32_t culprit = 0;
};

struct Ways {
    std::vector<Way> list;  // the one that grew most first
    std::vector<WayStep> steps;
    std::vector<WayNoise> noise;
    // On which rank the critical path spends most of each bucket of the run, before and after; −1: not on any.
    int64_t bucket_ns = 0;
    std::vector<int32_t> before, after;
};

struct Timeline {
    int64_t span_ns = 0, ranks_per_row = 1;
    size_t rows = 0;
    std::vector<Level> levels;  // finest first
    std::vector<CloseUp> close_ups;
    bool whole = false;  // the close-up shows the whole run
    Ways ways;
    std::map<uint16_t, Histogram> durations;  // of noise records, by account
};

}  // namespace polter::replay
