// SPDX-License-Identifier: BSD-3-Clause
// What each rank does, as equations of time: enough to evaluate the same program again with other partners, other noise, or more ranks.
//
// A call ends at the latest of its waits, each "cost after something happened", plus the noise in its completion overhead. With the
// partners and the noise of the trace that gives the measured time of every event with the noise, and the approximated time without,
// both to the nanosecond. Units: integer nanoseconds. A rank's events are in its own order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collective_algorithm.hpp"

namespace polter::replay {

// A sequence of messages of one communicator and tag with one partner; the k-th send is taken by the k-th receive.
struct ProgramLink {
    bool out = false;   // this rank sends
    int32_t peer = -1;  // world rank
    uint32_t comm = 0, tag = 0;
    uint32_t messages = 0;
    auto key() const { return std::tuple(out, peer, comm, tag); }
};

// "Not before `cost` after that."
struct ProgramWait {
    enum class What : uint8_t {
        enter,    // this call began
        sending,  // the message left
        posting,  // its receive was posted
    };
    What what = What::enter;
    uint32_t link = 0, message = 0;  // which message; 0-based among those of the link
    int64_t cost = 0;                // without removed noise
    int64_t held = 0;                // removed noise between the beginning of the call that sent or posted and that
};

struct ProgramSend {
    uint32_t link = 0;
    int64_t own = 0;       // work in the call before the message leaves, at most
    bool awaited = false;  // a later wait of this rank refers to its posting
};

// One member's part in a blocking collective.
struct ProgramCollective {
    uint32_t comm = 0, root = 0;  // root: rank in comm
    uint8_t operation = 0;
    Waits waits = Waits::n_to_n;
    int32_t structure = -1;  // index of Programs::structures; -1: none is known
    // Measured, and in the scenario "all".
    int64_t enter = 0, leave = 0, approximated_enter = 0, approximated_leave = 0;
};

struct ProgramCall {
    int64_t work = 0, work_noise = 0;  // since the call before (or the rank's first event): without removed noise, and that
    int64_t tail = 0, tail_noise = 0;  // completion overhead: the same
    uint32_t sends = 0, posts = 0, waits = 0;  // how many, in the order of Program's vectors
    int32_t collective = -1;                   // index of Program::collectives; then there are no waits
};

struct Program {
    int32_t rank = -1, host = 0;
    int64_t first = 0;                 // measured: its first event
    int64_t rest = 0, rest_noise = 0;  // behind its last call, up to its last event: work, and removed noise
    std::vector<ProgramLink> links;
    std::vector<ProgramCall> calls;
    std::vector<ProgramSend> sends;
    std::vector<uint32_t> posts;  // links
    std::vector<ProgramWait> waits;
    std::vector<ProgramCollective> collectives;
    struct Stolen {
        int64_t begin = 0, end = 0;  // measured
    };
    std::vector<Stolen> noise;  // removed noise, by time
};

struct Programs {
    std::vector<Program> ranks;  // by world rank
    std::vector<Structure> structures;
    std::map<uint32_t, std::vector<int32_t>> communicators;  // world ranks by communicator rank; of those that are used
    // What these equations do not cover, and how often it occurs: a reason in words. Empty: the program is described as a whole.
    std::map<std::string, int64_t> not_covered;
    int64_t first = 0, last = 0;  // measured, of all ranks
    uint64_t calls = 0;           // of all ranks
};

}  // namespace polter::replay
