// SPDX-License-Identifier: BSD-3-Clause
// Writes anchor, global definitions and each location's mapping tables.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "../clocks/fit.hpp"
#include "call_sites/code_file.hpp"
#include "sidecar.hpp"
#include "unify.hpp"

namespace polter::seal {

struct LocationDefinition {
    uint64_t id = 0, events = 0;
    std::string name;
    bool left_nothing = false;           // no event file: an empty one is made
    uint64_t first_ns = 0, last_ns = 0;  // by its host's clock
};

// One process of MPI_COMM_WORLD; those that left nothing are there too, with one location without events: ranks are positions in
// groups, and a gap would shift them.
struct Process {
    uint32_t rank = 0;
    std::string host;
    std::vector<LocationDefinition> locations;
    const Sidecar* sidecar = nullptr;  // none: it left nothing
    const Unified::Maps* maps = nullptr;
    std::vector<clocks::Knot> clock;  // its offset from the first rank's; none: it is that clock, or is not corrected
};

struct Definitions {
    std::vector<Process> processes;  // by rank, all of them
    Unified unified;
    std::vector<CallSiteName> call_sites;  // by archive id
    uint64_t first_ns = 0, last_ns = 0;
    std::map<std::string, std::string> properties;
};

// Into `folder`, which must be empty. Event files of locations that have none are created. Throws std::runtime_error.
void write_definitions(const std::filesystem::path& folder, const Definitions&, Strings&, unsigned workers);

}  // namespace polter::seal
