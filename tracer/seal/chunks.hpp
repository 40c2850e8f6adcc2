// SPDX-License-Identifier: BSD-3-Clause
// OTF2 event files seen as chunks: enough of the format to tell whether a file is whole and to join what was flushed with what was
// not. Source: OTF2 3.0's buffer format; a chunk opens with a token, the byte order, and the numbers of its first and last event
// (1-based over the location; the last one is 0 while the chunk is being filled).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "folder.hpp"

namespace polter::seal {

// The number of events in a file whose every chunk is there and closed; 0 where anything is missing. Reads headers only.
uint64_t count_closed_events(const File& event_file);

struct Joined {
    uint64_t flushed = 0, from_tail = 0;  // chunks
    uint64_t bytes = 0;
    std::string problem;  // empty, or why something that was there could not be used
};

// Writes into `out` the chunks of the event file (either may be missing) and the tail's chunks that follow them. Bounded by what is
// in the two files. Throws std::runtime_error if `out` cannot be written.
Joined join_chunks(const File& event_file, const File& tail, const std::filesystem::path& out);

// Copies a tail into `out` while its rank goes on writing. Chunks that were given to later events meanwhile are in the event file by then:
// copy that afterwards. Nothing that the rank recorded before the call is lost. Throws std::runtime_error if `out` cannot be written.
void copy_live_tail(const File& tail, const std::filesystem::path& out);

}  // namespace polter::seal
