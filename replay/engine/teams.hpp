// SPDX-License-Identifier: BSD-3-Clause
// Parallel regions of threads, as OTF2 records them (OTF2 event model, fork-join threading): ThreadFork on the thread that begins a region,
// its master; ThreadTeamBegin and ThreadTeamEnd on each member; ThreadJoin on the master. All threads of a process are read by one
// analysis process, so nothing here crosses between processes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "replay/base/pool.hpp"

namespace polter::replay {

struct Thread;

// A point in the time of one thread, for which other threads wait.
struct ThreadEvent {
    const Thread* by = nullptr;  // whose it is or will be; none: no thread's of this trace
    bool known = false;
    int64_t time = 0;  // measured, ns
    LaneVector delay;
    uint64_t node = 0;  // of the event graph
    std::vector<Thread*> waiting;
    uint32_t wanted = 0;  // of the release of a lock: by how many calls at hand
};

// The members' arrivals at one barrier.
struct Barrier {
    std::vector<ThreadEvent> arrivals;  // by member
    bool tasks = false;                 // were executed before it, or in it
    size_t left = 0;                    // members that need it no more
};

// One execution of a parallel region.
struct Team {
    uint32_t comm = 0;
    uint64_t ordinal = 0;  // of this communicator's regions
    struct Member {
        bool ended = false;
        bool tasks = false;     // it has executed some since its latest barrier
        uint64_t barriers = 0;  // to which it has come
        ThreadEvent end;        // of its share
    };
    ThreadEvent fork;
    std::vector<Member> members;
    std::deque<Barrier> barriers;  // addresses stay
    uint64_t first_barrier = 0;    // number of the first in the list
    size_t ended = 0;
};

// A thread that the program started (paradigm POSIX threads: ThreadCreate, ThreadBegin, ThreadEnd, ThreadWait).
struct CreatedThread {
    ThreadEvent creation, end;
};

// A lock of the threads of a process (ThreadAcquireLock, ThreadReleaseLock), or a condition, which is released by a signal.
struct ThreadLock {
    std::map<uint32_t, ThreadEvent> releases;  // by the order of acquisitions, until the next one has had the lock
    int64_t asked = INT64_MIN;                 // when the latest acquisition asked for it, in the scenario "all"
    uint32_t latest = 0;                       // order of that; some have a release only
};

// A region that a thread is in.
struct TeamPlace {
    std::shared_ptr<Team> team;  // none in a learning pass, which waits for nobody
    uint32_t comm = 0;
    size_t member = 0;
    bool master = false;
};

// What a thread has to do with teams.
struct TeamPlaces {
    std::vector<TeamPlace> open;                   // the innermost last
    std::vector<ThreadEvent> forks;                // whose team is not known yet
    std::shared_ptr<Team> joining;                 // the master's share is over
    std::unordered_map<uint32_t, uint64_t> begun;  // regions, by communicator
    ThreadEvent* fork = nullptr;                   // for which the thread has waited, now that it begins its share
    bool begins = false;                           // its location begins with that
    uint64_t barrier = 0;                          // number of the barrier that it is in
    std::vector<ThreadEvent*> awaited;             // by the call at hand: the ends of other threads, a signal, a mutex
    struct Acquisition {
        ThreadLock* lock = nullptr;
        uint32_t order = 0;
    };
    std::vector<Acquisition> met;                  // what a wait for a condition ended with
    ThreadLock* lock = nullptr;                    // that the call at hand acquires
    uint32_t order = 0;                            // of that acquisition
    bool tasks = false;                            // it has executed some since its latest barrier
    uint32_t in_task = 0;                          // how many it is in, where it left a barrier for the first one
    uint32_t barrier_region = 0;
    bool dynamic_barrier = false;  // of that barrier
    bool at_barrier = false;
    bool behind_barrier = false;  // it has left one and entered nothing since: all members had come
};

}  // namespace polter::replay
