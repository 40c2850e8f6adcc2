// SPDX-License-Identifier: BSD-3-Clause
// The two passes over a trace, with the seams that the tests need. Everybody else calls replay() of replay.hpp.
#pragma once

#include <functional>

#include "engine.hpp"
#include "replay.hpp"
#include "scenario.hpp"

namespace polter::replay {

struct Hooks {
    Faults faults;
    // At each Enter and Leave of the replay pass: `delay` is in the lanes of `scenarios`.
    std::function<void(const Scenarios& scenarios, const Thread&, int64_t time, const int64_t* delay)> observer;
    std::function<void(uint64_t node, int64_t slack)> slack;  // with Options::attribution: of each node of the event graph
    bool reverse_order = false;                               // begin with the last location: what is found must not depend on it
    size_t most_in_flight = 0;                                // see Engine; 0: its default
    size_t* most_matches = nullptr;                           // out: message records that were ever alive at once, rounded up to a slab
};

Result replay_with(const Options&, const Hooks&);

// Of the runtime: nothing is known better than so.
inline constexpr double resolution = 0.0005;

// One pass: opens the archive's events, and runs the engine over them.
void run_pass(Archive&, Engine&, Group* group = nullptr);
// Of each rank its MPI thread; ranks of which nothing is left are null.
std::vector<const Thread*> rank_threads(const Engine&, int32_t ranks);

// What the learning pass found, in the order of the enumeration: one line for each kind of flaw that occurred.
std::vector<std::string> flaw_lines(const std::vector<FlawCount>&, int64_t clock_disorder_ns);
// Calls whose waiting the trace does not tell; empty where there were none.
std::string unseen_line(const std::map<uint32_t, FlawCount>& calls, const Definitions& definitions, const char* why);
// That the job's own threads took each other's CPUs, where they did so for more than a hundredth of the run; else nothing.
std::string oversubscription_line(const Result& result);

// Lines from the archive's properties: what the exporter could not see, ranks that never finished, dropped events.
std::vector<std::string> provenance_lines(const std::map<std::string, std::string>& properties, const std::vector<Account>& accounts);

}  // namespace polter::replay
