// SPDX-License-Identifier: BSD-3-Clause
// Definitions as an archive has them.
#pragma once

#include <otf2/otf2.h>

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace polter::replay {

// Definitions as they are read. They are combined afterwards, as OTF2 does not fix the order of most of them.
struct RawDefinitions {
    uint64_t ticks = 0, offset = 0;
    std::unordered_map<uint32_t, std::string> strings;
    struct Group {
        uint8_t type;
        uint8_t paradigm;
        bool mpi, threads, global_members;  // threads: of a paradigm of threads within one process
        std::vector<uint64_t> members;
    };
    std::map<uint32_t, Group> groups;
    struct LocationGroup {
        uint8_t type;
        uint32_t node;
    };
    std::map<uint32_t, LocationGroup> location_groups;
    std::map<uint32_t, uint32_t> node_names;
    struct Place {
        uint64_t id, events;
        uint8_t type;
        uint32_t group;
    };
    std::vector<Place> locations;
    struct Comm {
        uint32_t name, group, remote, parent;
    };
    std::map<uint32_t, Comm> comms;
    std::map<uint32_t, uint32_t> windows;
    struct LocationProperty {
        uint64_t location;
        uint32_t name, value;
    };
    std::vector<LocationProperty> location_properties;  // of type string
    struct Region {
        uint32_t name;
        bool mpi, user, threads;
        uint8_t role;  // OTF2_RegionRole
    };
    std::map<uint32_t, Region> regions;
    struct Member {
        uint32_t name, unit;
        uint8_t mode, base;
        int64_t exponent;
    };
    std::map<uint32_t, Member> members;
    std::map<uint32_t, std::vector<uint32_t>> classes;
    std::map<uint32_t, uint32_t> instances;
    std::map<uint32_t, uint32_t> attributes;
    struct Line {
        uint32_t file, number;
    };
    std::map<uint32_t, Line> lines;
    struct Context {
        uint32_t region, line;
    };
    std::map<uint32_t, Context> contexts;

    const std::string& text(uint32_t id) const {
        static const std::string none;
        const auto found = strings.find(id);
        return found == strings.end() ? none : found->second;
    }
};

// `anchor`: for messages. Throws InputError.
RawDefinitions read_raw_definitions(OTF2_Reader* reader, const std::string& anchor);

}  // namespace polter::replay
