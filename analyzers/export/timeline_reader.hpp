// SPDX-License-Identifier: BSD-3-Clause
// Reads a trace location by location and gives each event to a sink: calls, messages, noise as intervals of time, counters.
//
// Times are nanoseconds since the trace's first Enter or Leave. Memory does not grow with the trace.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "replay/trace/archive.hpp"

namespace polter::exports {

// What of the trace is wanted. Calls and noise that reach over an end of the window are cut there.
struct Selection {
    int64_t begin = 0, end = std::numeric_limits<int64_t>::max();
    std::vector<bool> ranks;  // empty: all
    bool all_time() const { return begin == 0 && end == std::numeric_limits<int64_t>::max(); }
    bool holds(int64_t time) const { return time >= begin && time <= end; }
    bool wants(int32_t rank) const { return rank >= 0 && (ranks.empty() || (static_cast<size_t>(rank) < ranks.size() && ranks[rank])); }
};

// A thread of a rank.
struct Place {
    size_t location = 0;  // index in Definitions::locations
    int32_t rank = 0;
    int32_t thread = 0;  // 0: the rank's MPI thread
};

// A record of communication, as it stands in the trace; ranks are world ranks.
struct Record {
    enum class Kind : uint8_t {
        send,
        isend,
        isend_complete,
        receive,
        post,  // a receive is posted; `known`: peer, comm and tag say for what
        irecv,
        cancelled,
        collective,
        collective_request,  // `known`: comm says where
        collective_complete,
        window_collective,  // that all ranks of a window wait for; comm: the window's communicator
        unknown,            // communication that no format has a form for
    };
    Kind kind = Kind::unknown;
    int64_t time = 0;
    bool inside = true;  // of the window
    bool known = false;
    uint8_t operation = 0;  // an OTF2_CollectiveOp
    int32_t peer = replay::no_rank;
    uint32_t comm = 0, tag = 0, partitioned = 0, root = 0;
    uint64_t bytes = 0, received = 0, request = 0;  // of collectives: bytes sent, and received
};

struct NoiseSlice {
    int64_t begin = 0, end = 0;
    int32_t account = 0;            // index in Definitions::accounts
    uint32_t culprit = UINT32_MAX;  // a string reference
};

class Sink {
  public:
    virtual ~Sink() = default;
    virtual void begin(const Place&) {}
    // Each call that is entered is left, in the order of time.
    virtual void enter(int64_t /*time*/, uint32_t /*region*/, bool /*mpi*/) {}
    virtual void leave(int64_t /*time*/) {}
    virtual void record(const Record&) {}
    // Before the call that ends the time in which it hit, in the order of time. Slices of a thread never overlap. One that was found late
    // comes after later ones, and does not touch the next.
    virtual void noise(const NoiseSlice&) {}
    // `counter`: index in Definitions::counters
    virtual void counter(int64_t /*time*/, size_t /*counter*/, double /*value*/) {}
    virtual void end() {}
};

struct ReadResult {
    uint64_t events = 0;
    int64_t noise_without_room_ns = 0;  // longer than the time that it can have taken
    uint64_t unreadable_locations = 0, damaged_locations = 0;
};

// The trace's first Enter or Leave on a rank's MPI thread, in ns as its clock counts. Throws InputError where there is none.
int64_t first_event(const std::string& trace);

// MPI threads by rank, then further threads. `origin`: first_event() of the measured trace. An archive can be read once: OTF2 gives its
// local definitions only once.
ReadResult read_timeline(replay::Archive&, int64_t origin, const Selection&, Sink&);

}  // namespace polter::exports
