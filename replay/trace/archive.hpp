// SPDX-License-Identifier: BSD-3-Clause
// An OTF2 archive, read location by location. OTF2's merged order is not used: it takes three times as long at 64 locations.
//
// Not thread-safe. Everything returned lives as long as the Archive.
#pragma once

#include <otf2/otf2.h>

#include <string>
#include <vector>

#include "definitions.hpp"

namespace polter::replay {

class Archive {
  public:
    // `trace`: an experiment directory or an anchor file. Reads the definitions. Throws InputError.
    explicit Archive(const std::string& trace);
    ~Archive();
    Archive(const Archive&) = delete;
    Archive& operator=(const Archive&) = delete;

    const Definitions& definitions() const { return definitions_; }
    const std::string& anchor() const { return anchor_; }

    // Opens the event files of all locations, local definitions first: without them OTF2 applies neither id mappings nor clock
    // offsets. Each event is given to `callbacks` with `user_data[i]` for location i. Throws InputError if no event file opens;
    // a single one that does not open is a warning, and is read as empty.
    void open_events(const OTF2_EvtReaderCallbacks* callbacks, const std::vector<void*>& user_data, std::vector<Warning>& warnings);

    // Only the locations in `own`. All analysis processes' results together decide whether this was an error.
    struct Opened {
        uint64_t files = 0, failed = 0, first_failure = UINT64_MAX, damaged = 0;  // first_failure: by location; damaged: local definitions
        std::string why, damage;                                                  // why: of the first failure
    };
    Opened open_events(const OTF2_EvtReaderCallbacks* callbacks, const std::vector<void*>& user_data, const std::vector<bool>& own);
    void judge(const Opened& opened, std::vector<Warning>& warnings) const;

    // Frees OTF2's buffers, a chunk for each location. Optional, but they are most of the memory.
    void close_events();

    enum class Progress { interrupted, more, ended };
    // Reads until a callback interrupts, `batch` records are read, or the location ends. *events is increased by the records read.
    Progress read(size_t location, uint64_t* events, uint64_t batch = 1u << 16);

    // Reads so many records, whose callbacks must not interrupt; fewer only where the location ends.
    void skip(size_t location, uint64_t records);

    // Upper bound of the location's events: the bytes of its file. OTF2's reader loops for ever over the last chunk of a killed writer's
    // file, so the caller must stop there. 0: unknown.
    uint64_t event_file_bytes(size_t location) const;

    std::string last_error() const;

  private:
    std::string anchor_;
    OTF2_Reader* reader_ = nullptr;
    std::vector<OTF2_EvtReader*> events_;
    Definitions definitions_;
};

// Reads the id mappings and clock offsets of these locations, which OTF2 then applies. Returns the number of damaged files: ids and times
// of their locations may be wrong.
size_t read_mappings(OTF2_Reader* reader, const std::string& anchor, const std::vector<uint64_t>& locations);

// Reads to the end of the file.
OTF2_ErrorCode read_global_definitions(OTF2_Reader* reader, OTF2_GlobalDefReader* definitions, const std::string& anchor, uint64_t* read);

// 0 where there is none.
uint64_t event_file_bytes(const std::string& anchor, uint64_t location);
// Of all event files of an experiment directory or anchor file. Throws InputError.
uint64_t event_bytes(const std::string& trace);

}  // namespace polter::replay
