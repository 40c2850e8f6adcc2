// SPDX-License-Identifier: BSD-3-Clause
// Copies an archive's global definitions and properties to another archive, except those that depend on the events.
#pragma once

#include <otf2/otf2.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace polter::replay {

struct DefinitionCopy {
    OTF2_GlobalDefWriter* writer = nullptr;         // null: only collects the locations
    uint64_t shorter_by = 0;                        // ticks by which the trace is shorter
    uint64_t least_length = 0;                      // ticks that its events need at least
    std::unordered_map<uint64_t, uint64_t> events;  // by location: number of events written

    // Results.
    std::vector<uint64_t> locations;
    uint64_t unknown = 0;
    OTF2_ErrorCode code = OTF2_SUCCESS;  // of reader or writer
};

void copy_definitions(OTF2_Reader* reader, const std::string& anchor, DefinitionCopy& copy);

// Copies machine, description and properties; returns how many properties OTF2 refused.
uint64_t copy_properties(OTF2_Reader* reader, OTF2_Archive* archive);

}  // namespace polter::replay
