// SPDX-License-Identifier: BSD-3-Clause
// The definitions of an archive, as far as the replay needs them: ranks, kinds of regions, noise metrics.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "call_path.hpp"
#include "call_sites.hpp"
#include "conventions.hpp"
#include "mpi_calls.hpp"
#include "replay/base/flaws.hpp"

namespace polter::replay {

inline constexpr int32_t no_rank = -1;

struct Location {
    uint64_t id = 0;
    uint64_t declared_events = 0;  // according to the definitions; 0: unknown
    int32_t rank = no_rank;        // the MPI rank of its process
    int32_t host = 0;              // equal numbers: same host
    bool carries_rank = false;     // it is the rank's MPI thread
    bool cpu_thread = true;
};

struct Communicator {
    std::string name;
    std::vector<int32_t> ranks;   // communicator rank → world rank
    std::vector<int32_t> remote;  // of an intercommunicator: the other group
    bool self = false;            // MPI_COMM_SELF and its duplicates: each rank has its own
};

// The neighbours of a rank in the neighbourhood collectives of a communicator, as world ranks.
struct Neighbours {
    std::vector<int32_t> in, out;
};

// One `os:` or `os-service:` account of the trace. Equal names are one account, however many metric members carry it.
struct Account {
    std::string name;  // "os:timer"
    bool service = false;

    // Recorded when detected, up to a timer tick after it ended (steal).
    bool found_late() const { return name == names::steal; }
};

// For display: without "os:"; a service keeps its full name.
std::string display_name(const Account& account);

// A metric that is neither noise nor a service: a hardware counter, say, or a count of events.
struct Counter {
    std::string name, unit;
    bool increment = false;  // its records hold increments, not totals or absolute values
    double scale = 1;        // from a record's value to one in `unit`
};

struct MetricSlot {
    int32_t account = -1;                    // -1: not a noise metric
    bool increment = false;                  // the record holds an increment, not a total
    int64_t numerator = 1, denominator = 1;  // scale to nanoseconds
};

struct Definitions {
    uint64_t ticks_per_second = 1'000'000'000;
    uint64_t global_offset = 0;
    std::vector<Location> locations;       // CPU threads of processes, in the definitions' order
    std::map<int32_t, std::string> hosts;  // names, by Location::host
    int64_t other_locations = 0;           // accelerators, metric sources: not read
    int32_t ranks = 0;
    std::vector<CallKind> region_kinds;  // by region reference
    std::vector<uint32_t> region_names;  // string references, in the same order
    std::unordered_map<uint32_t, Communicator> communicators;
    std::unordered_map<uint32_t, uint32_t> windows;                 // of one-sided communication → communicator
    std::unordered_map<uint32_t, std::vector<int32_t>> groups;      // world ranks; only where there are windows
    std::unordered_map<uint32_t, std::vector<int32_t>> teams;       // of threads, by communicator: indices of `locations`; -1: not there
    std::unordered_set<uint32_t> created;                           // of these teams, those of threads that the program starts itself
    std::map<std::pair<uint32_t, int32_t>, Neighbours> neighbours;  // by communicator and world rank
    // By parent communicator, one entry for each creation on it: the new communicators, each as members of the parent in their new order.
    std::unordered_map<uint32_t, std::vector<std::vector<std::vector<uint32_t>>>> creations;
    uint32_t world = UINT32_MAX;    // the communicator of all ranks; UINT32_MAX where the trace defines none
    std::vector<Account> accounts;  // sources first, in the order of their first definition
    std::unordered_map<uint32_t, std::vector<MetricSlot>> metrics;  // by metric class or instance reference
    std::vector<Counter> counters;
    std::unordered_map<uint32_t, std::vector<int32_t>> counter_slots;  // as `metrics`: an index of `counters`; -1: noise or a service
    std::unordered_map<uint32_t, std::string> strings;
    // Attribute references; UINT32_MAX where the trace does not define them.
    uint32_t culprit = UINT32_MAX, source = UINT32_MAX, tag = UINT32_MAX, comm = UINT32_MAX, mode = UINT32_MAX, ago = UINT32_MAX,
             partitioned = UINT32_MAX, operation = UINT32_MAX, any = UINT32_MAX, call_site = UINT32_MAX, polls = UINT32_MAX,
             last_poll = UINT32_MAX, poll_gap = UINT32_MAX;
    std::vector<CallSite> call_sites;               // by reference of the calling context; only where the trace has them
    std::map<std::string, std::string> properties;  // POLTER::, without the prefix
    std::vector<Warning> warnings;

    // Also names the special values of trace/call_path.hpp.
    std::string region_name(uint32_t region) const;
    // The operation and its caller; outside MPI: the region, and no caller.
    std::pair<std::string, std::string> place_names(const Place& place) const;
    std::string call_site_name(const Place& place) const;  // empty: not known
    std::string culprit_name(uint32_t string) const;
    CallKind kind(uint32_t region) const { return region < region_kinds.size() ? region_kinds[region] : CallKind::not_mpi; }
};

}  // namespace polter::replay
