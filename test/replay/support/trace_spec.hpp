// SPDX-License-Identifier: BSD-3-Clause
// A small trace in memory, and how it becomes a real OTF2 archive: so the tests go through the same reader as everybody.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace polter::test {

struct Record {
    enum class Kind {
        enter,
        leave,
        noise,
        send,
        isend,
        isend_complete,
        irecv_request,
        recv,
        irecv,
        request_test,
        cancelled,
        collective_begin,
        collective_end,
        collective_request,
        collective_complete,
        window_collective,  // of one-sided communication `comm` is the window
        notify_out,
        notify_in,
        group_sync,  // peer: the communicator whose group it is
        lock,
        unlock,
        put,
        fork,
        join,
        team_begin,  // comm: the team
        team_end,
        create,  // comm: all threads of the program, request: the number; of the lock: comm, and its order
        thread_begin,
        thread_end,
        thread_wait,
        acquire,
        release,
        rma_complete,          // of all that was put under the id `request`
        rma_request_complete,  // of what has a request of its own
    };
    Kind kind = Kind::enter;
    int64_t time = 0;
    std::string name;           // region, account
    std::string culprit;        // of noise
    int64_t ns = 0;             // of noise: the increment
    uint64_t ago = 0;           // of noise: polter:ago
    int64_t peer = 0, tag = 0;  // −1: wildcard; peer: the root of a collective
    bool posted = false;        // write polter:source, polter:tag, polter:comm
    bool wildcard = false;      // of a receive: it was posted with −1, −1, though it got peer, tag
    uint32_t comm = 0;
    uint64_t bytes = 0, request = 0;
    uint32_t partitioned = 0;  // polter:partitioned
    uint8_t unlisted = 0;      // polter:operation
    int mode = 0;              // polter:mode; of a lock: an OTF2_LockType
    bool apart = false;        // of a window's collective: without the level PROCESS
    bool file_comm = false;    // of a Leave: polter:comm alone, as collectives of files have it
    int operation = 0;         // OTF2_CollectiveOp
    uint32_t polls = 0;        // of a Leave: polter:polls, last_poll, poll_gap
    uint64_t last_poll = 0, poll_gap = 0;
};

struct TraceSpec {
    std::vector<std::string> hosts;                                 // by rank; its size is the number of ranks
    std::vector<std::string> accounts;                              // "os:timer"
    std::vector<std::vector<uint64_t>> comms;                       // by reference; 0 is the world and may be left out
    std::map<std::pair<size_t, uint32_t>, std::string> neighbours;  // by rank and communicator: "in 1 2 out 3"
    std::vector<uint32_t> windows;                                  // by reference: their communicators
    std::vector<std::vector<Record>> records;                       // by rank, in order
    std::map<std::string, std::string> properties;                  // without POLTER::
    uint64_t ticks_per_second = 1'000'000'000;                      // record times are in ticks
    bool one_class = false;                                         // all accounts in one metric class, as foreign writers may
    std::string real;                                               // the account whose values are doubles; UINT64_MAX stands for NaN
    bool baseline = true;
    uint64_t first_location = 0, location_step = 1;   // location ids need not be ranks
    std::map<size_t, size_t> threads;                 // further threads of ranks, by index: whose; they are the last in all lists
    std::map<uint32_t, std::vector<uint64_t>> teams;  // of threads, by reference of the communicator
    size_t strangers = 0;                             // the last so many belong to processes that are no ranks

    explicit TraceSpec(size_t ranks = 0) : hosts(ranks, "node0"), records(ranks) {}
    size_t ranks() const { return hosts.size(); }
    Record& add(size_t rank, int64_t time, Record::Kind kind, const std::string& name = "");
};

// Of so many random programs those that a test takes: all, or POLTER_TEST_PROGRAMS per cent where each costs several times as much
// (test/CMakeLists.txt).
#ifndef POLTER_TEST_PROGRAMS
#define POLTER_TEST_PROGRAMS 100
#endif
constexpr uint64_t programs_of(uint64_t all) {
    return all * POLTER_TEST_PROGRAMS / 100;
}

// Writes `directory`/traces.otf2; the directory is replaced.
void write_trace(const TraceSpec&, const std::string& directory);

// A directory that vanishes with its owner.
class TemporaryDirectory {
  public:
    TemporaryDirectory();
    ~TemporaryDirectory();
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    std::string path(const std::string& name) const { return root_ + "/" + name; }

  private:
    std::string root_;
};

}  // namespace polter::test
