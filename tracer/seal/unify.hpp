// SPDX-License-Identifier: BSD-3-Clause
// From the ranks' own ids to those of the archive. Deterministic: ranks in order, each rank's definitions in its order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sidecar.hpp"

namespace polter::seal {

// Strings by value; id 0 is the empty one.
class Strings {
  public:
    Strings() { id(""); }
    uint32_t id(const std::string& value);
    const std::vector<std::string>& values() const { return values_; }

  private:
    std::map<std::string, uint32_t> ids_;
    std::vector<std::string> values_;
};

enum : uint32_t { group_locations = 0, group_world = 1, group_self = 2, first_group = 3 };

struct Comm {
    std::string name;
    uint32_t parent = UINT32_MAX;             // archive id
    uint32_t group = 0, remote = UINT32_MAX;  // archive ids; remote of an intercommunicator only
    bool team = false;                        // of threads; then it has no group, but its locations
    bool created = false;                     // such a team: threads that the program started itself
    std::vector<uint64_t> locations = {};
};

struct Window {
    std::string name;
    uint32_t comm = 0;  // archive id
};

// What the archive defines, and how each rank's ids map to it.
struct Unified {
    std::vector<std::vector<uint32_t>> groups;  // members as world ranks; group id = first_group + index
    std::vector<Comm> comms;                    // by archive id; 0 world, 1 self
    std::vector<Window> windows;                // by archive id
    std::vector<SidecarRegion> regions;         // of the program; archive id = trace::region_count + index
    std::vector<SidecarObject> objects;         // of the call sites
    std::vector<SidecarCallSite> call_sites;    // by archive id
    struct Maps {
        std::vector<uint32_t> strings, comms, windows, call_sites;  // archive id by local id
        std::vector<uint32_t> regions;                              // index by local id
    };
    std::vector<Maps> maps;  // one for each rank given
    std::vector<std::string> warnings;
};

Unified unify(const std::vector<Sidecar>& ranks, Strings&);

}  // namespace polter::seal
