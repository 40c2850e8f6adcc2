// SPDX-License-Identifier: BSD-3-Clause
// Reads what one rank said about itself (rank.jsonl, see ../README.md). The file comes from a process that may have died at any
// instruction: a torn last line is normal, other garbage is counted, and nothing in it is trusted to be in range.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "folder.hpp"

namespace polter::seal {

struct SidecarLocation {
    uint64_t id = 0;
    uint32_t thread = 0;
    std::string name;
};

struct SidecarGroup {
    enum Kind { world, self, same_as, list } kind = list;
    uint32_t comm = 0;            // same_as: local id of an earlier communicator, which has the group itself
    std::vector<uint32_t> ranks;  // list: world ranks in order
};

struct SidecarComm {
    std::string name, key;
    uint32_t parent = UINT32_MAX;  // local id; none
    SidecarGroup group;
    std::optional<SidecarGroup> remote;    // of an intercommunicator
    bool team = false;                     // of threads of the rank; then it has no group
    bool created = false;                  // such a team: the threads that the program started itself
    std::map<uint32_t, uint64_t> threads;  // of a team: locations by number in it
};

struct SidecarWindow {
    std::string name, key;
    uint32_t comm = 0;  // local id
};

struct SidecarNeighbours {
    std::vector<uint32_t> in, out;  // ranks in the communicator
};

// A file of code that the rank had loaded.
struct SidecarObject {
    std::string path, build_id;  // hexadecimal; empty: it has none
    uint64_t bytes = 0, modified_seconds = 0;
    auto operator<=>(const SidecarObject&) const = default;
};

// A region of the program.
struct SidecarRegion {
    std::string name, file;  // file: may be empty
    uint32_t line = 0;
};

struct SidecarCallSite {
    uint32_t object = UINT32_MAX;  // none: code without a file
    uint64_t address = 0;          // to which the call returns, as in the file; of code without a file as in memory
};

// What the rank's own thread lost to one account, through one culprit.
struct SidecarNoise {
    std::string account, culprit;  // no culprit: unknown
    uint64_t ns = 0, events = 0;
};

// With another rank's clock: sent by the own clock, answered by the other one, back by the own one.
struct SidecarExchange {
    uint32_t peer = 0;
    struct Stamps {
        int64_t sent, there, back;
    };
    std::vector<Stamps> stamps;
};

// What of its details the rank was told not to record.
struct SidecarDetailOff {
    std::vector<std::string> functions;
    bool queries = false;                // local functions that cannot wait
    bool rank = false;                   // none of them
    uint64_t from_ns = 0, until_ns = 0;  // only in this window, since MPI_Init; until 0: to the end
};

struct SidecarFinal {
    std::map<uint64_t, uint64_t> events;                      // by location
    std::map<uint64_t, std::pair<uint64_t, uint64_t>> times;  // first and last, ns; may lack locations
    uint64_t dropped = 0, dropped_ns = 0, own_cost_ns = 0;    // noise events that did not get into the trace; the tracer's own time
    uint64_t tracing_ended_ns = 0, exporter_ended_ns = 0;     // before the rank did; 0: they did not
    uint64_t pcontrol_ns = 0;                                 // how long MPI_Pcontrol had details switched off
    std::vector<std::string> warnings;
    std::vector<SidecarNoise> noise;  // may be missing
};

struct Sidecar {
    std::string folder;  // its name below ranks/
    uint32_t rank = 0, size = 0;
    uint64_t started_ns = 0;  // by the clock on the wall; 0: it does not say
    std::string host, world, program, mpi, cpus;
    bool one_thread_calls = false;  // MPI, whatever threads the rank has
    std::string clock;              // that its host's processes read; empty: it does not say
    std::vector<SidecarExchange> exchanges;
    std::string exporter = "none", exporter_why;
    std::vector<std::string> seen, net;
    std::vector<SidecarLocation> locations;
    std::vector<std::string> strings;                           // by local id
    std::map<uint32_t, SidecarComm> comms;                      // by local id; the two predefined ones are always there
    std::map<uint32_t, SidecarNeighbours> neighbours;           // in its topology, by local id of the communicator
    std::map<uint32_t, SidecarWindow> windows;                  // of one-sided communication, by local id
    std::vector<std::pair<std::string, std::string>> counters;  // names and units
    std::vector<SidecarRegion> regions;                         // by local id
    std::vector<SidecarObject> objects;                         // by local id
    std::vector<SidecarCallSite> call_sites;                    // by local id
    SidecarDetailOff detail_off;
    std::optional<SidecarFinal> final;   // unset: the rank never finished
    std::set<std::string> not_recorded;  // of OpenMP
    std::string gave_up;                 // why the rank did not finish its trace, though it came to its end
    uint64_t after_end = 0;              // events of its threads that came after the end of its trace
    std::set<uint64_t> location_ids;
    uint64_t lines = 0;
    uint64_t bad_lines = 0;  // unreadable or contradictory, a torn last one not among them
};

// Unset where there is no usable first line; `why` says so. Reads at most 256 MiB, lines of at most 8 MiB, and takes
// memory in proportion.
std::optional<Sidecar> read_sidecar(const Folder& folder, std::string& why);

}  // namespace polter::seal
