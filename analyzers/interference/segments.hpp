// SPDX-License-Identifier: BSD-3-Clause
// A run cut at its blocking collectives of all ranks that all members wait for, and what each segment asked of the machine.
//
// Source: Shah, Mueller, Wolf, "Estimating the Impact of External Interference on Application Performance", Euro-Par 2018, section 2.
// Units: integer nanoseconds since the trace's first Enter or Leave.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace polter::interference {

// What one rank did in one segment. Counts and bytes; files: of MPI_File calls, as the trace has no others.
enum Feature : uint32_t {
    sends,        // that block
    sends_begun,  // Isend and its kin
    receives,     // that block
    receives_begun,
    collectives_all,  // N-to-N
    collectives_from_one,
    collectives_to_one,
    collectives_other,
    bytes_sent,
    bytes_received,
    files_opened,  // and closed
    file_reads,
    file_writes,
    functions,  // a number for the set of functions that were called, polls excepted
    features
};
inline constexpr std::array<const char*, features> feature_names = {
    "blocking sends",      "non-blocking sends",  "blocking receives",       "non-blocking receives",
    "collectives, N-to-N", "collectives, 1-to-N", "collectives, N-to-1",     "other collectives",
    "bytes sent",          "bytes received",      "files opened and closed", "file reads",
    "file writes",         "functions called"};
using Features = std::array<uint64_t, features>;

struct Segment {
    int64_t end = 0, duration = 0;  // of the last rank; the first segment begins where the last rank left the first collective
    double computing = 0;           // median over the ranks
    uint32_t kind = 0;              // index of Run::kinds
    int64_t entered = 0;            // when the last rank entered the collective that ends it; a profile does not know
    int32_t slowest = -1;           // that rank; -1: not known
};

struct Run {
    std::string trace;
    int64_t ranks = 0;
    std::vector<Segment> segments;
    // What communication and file I/O of the ranks are: by rank an index of `calls`, one entry where all ranks agree.
    std::vector<std::vector<uint32_t>> kinds;
    std::vector<Features> calls;
    std::string counter;            // that measured the computing; empty: no counter of the trace does
    int64_t before = 0, after = 0;  // outside the segments: up to the end of the first collective, and behind the last one
    int64_t resolution_ns = 1;      // of the trace's clock
    std::vector<std::string> warnings;
    std::map<std::string, std::string> provenance;
    int64_t total() const { return segments.empty() ? 0 : segments.back().end - segments.front().end + segments.front().duration; }
};

// `origin`: exports::first_event() of the measured trace. `anchor`: its name in messages. Throws replay::InputError where the trace has
// fewer than two segments, and where a counter is no number.
Run read_segments(const std::string& trace, int64_t origin);

// Noise by account and culprit in chosen segments, on the rank that was the last to enter the collective that ends the segment (where that
// rank had none: on all).
struct SegmentNoise {
    std::map<std::pair<std::string, std::string>, int64_t> by_cause;  // source without "os:", culprit
};
std::map<size_t, SegmentNoise> read_noise(const std::string& trace, int64_t origin, const Run&, const std::vector<size_t>& wanted);

}  // namespace polter::interference
