// SPDX-License-Identifier: BSD-3-Clause
// Reads one location's events with OTF2's own reader, bounded, and may write them anew.
//
// The reader may loop for ever or crash on what a killed process left, so it runs in a child process with a time limit; after a
// crash the child is started again and stops before the event at which the first one died.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "folder.hpp"

namespace polter::seal {

// What the definitions of the rank allow; an event that names anything else ends the reading (it is torn).
struct EventLimits {
    uint32_t regions = 0, strings = 0, call_sites = 0, counters = 0;
    std::vector<bool> comms, windows;  // by local id
};

struct EventSummary {
    uint64_t events = 0;                 // in the new file, or read
    uint64_t first_ns = 0, last_ns = 0;  // 0 where there are no events
    uint64_t closed = 0;                 // regions that were open at the end and were given a Leave at the last time
    std::string problem;                 // why reading ended early, if it did by anything else than the end of the file
};

// Times of a location whose file is whole. `work` is a folder that nobody else can write to.
EventSummary scan_events(const File& event_file, uint64_t location, const EventLimits&, const std::filesystem::path& work);

// Writes what can be read of `event_file` into a clean file `out`. Throws std::runtime_error if it cannot be written.
EventSummary rewrite_events(const File& event_file, uint64_t location, const EventLimits&, const std::filesystem::path& work,
                            const std::filesystem::path& out);

}  // namespace polter::seal
