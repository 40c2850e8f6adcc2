// SPDX-License-Identifier: BSD-3-Clause
// The records that the engine and the rules share. All times are measured nanoseconds since the trace's global offset; `delay`
// vectors are in lanes and come from the engine's pool, to which they return with their owner.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "replay/base/flat_map.hpp"
#include "replay/base/pool.hpp"
#include "replay/engine/teams.hpp"
#include "replay/graph/recorder.hpp"
#include "replay/model/collective_execution.hpp"
#include "replay/model/model.hpp"
#include "replay/scenario/injection.hpp"
#include "replay/scenario/noise_placement.hpp"
#include "replay/trace/call_path.hpp"
#include "replay/trace/call_sites.hpp"
#include "replay/trace/mpi_calls.hpp"

namespace polter::replay {

struct Thread;
class Payment;
class KeptLocation;

enum class SendMode : uint8_t { standard = 0, synchronous = 1, ready = 2, buffered = 3 };

// One record inside an MPI call.
struct Operation {
    enum class Kind : uint8_t {
        send,
        isend,
        isend_complete,
        irecv_post,
        receive,
        irecv_complete,
        poll_failed,
        cancelled,
        probe,
        collective,
        collective_request,
        collective_complete,
        rma_collective,  // of one-sided communication `comm` is the window
        rma_out,
        rma_in,
        rma_group,  // peer: the group
        rma_data,
        rma_lock,
        rma_unlock,
        rma_complete,          // what was put or got under `request`
        rma_request_complete,  // … which is a request's
        neighbours,
    };
    Kind kind;
    SendMode mode = SendMode::standard;
    uint8_t collective = 0;                                           // OTF2_CollectiveOp
    bool posted_known = false, wildcard = false, any_source = false;  // wildcard: of the source or of the tag
    bool synchronises = false;                                        // a window's collective, for certain; a lock that excludes others
    uint32_t comm = 0;
    uint32_t peer = 0;  // rank in comm; the root of a collective
    uint32_t tag = 0;
    uint32_t partitioned = 0;  // not 0: of partitioned communication, which has channels of its own (partitioned.cpp)
    uint64_t size = 0, request = 0;
    // Of a collective, in bytes: what this member contributes, or gets of a Reduce_scatter or Scatterv; and the reverse. Of rma_data:
    // what goes to the target, and what comes.
    uint64_t part = 0, whole = 0;
    int64_t time = 0;
    uint64_t posting = 0;  // of an irecv_post without a record: its index among those of its thread
};

// Learning: a call that completed sends whose receives may not have been read yet. What it teaches is known only with their postings,
// whichever comes first: so it does not depend on the order of reading.
struct CompletionSample {
    uint32_t open = 0;     // sends whose posting is not known
    bool spoiled = false;  // nothing is learned: one of them will never be known, or noise hides whether it was waited for
    int64_t enter = 0, leave = 0;
    int64_t done = 0;                          // what it waited for may have been there by then: noise held it to its end
    int64_t noise = 0, noise_after_ready = 0;  // in the call; behind `ready`
    int64_t senders_noise = 0;                 // the most in a call that sent one of its messages: it may have left so much later
    int64_t ready = 0;                         // when the last thing it waited for began or was sent, postings aside; not before `enter`
    uint32_t completions = 0;
    // What began last of all that it waited for. Contested: something larger that began earlier may have ended the call.
    bool has_last = false, last_synchronous = false, last_contested = false;
    bool last_tie = false;  // of a rendezvous: the other side may have been ready later
    CostClass last{};
    int64_t last_time = 0, last_noise = 0, last_known = 0;  // noise in the call that sent it; last_known: with its own posting
    CostClass largest{};                                    // of all messages that it completed, sent ones included
    // The latest posting behind all that, of a standard send.
    int64_t latest_post = 0, post_noise = 0;  // post_noise: in the call that posted it
    bool post_tie = false;
    CostClass post{};
    // Of a call that is nothing but one standard send whose receive was there.
    bool alone = false;
    CostClass sent{};

    void completes(const CostClass& message) {
        if (std::pair(message.size, message.key()) > std::pair(largest.size, largest.key())) largest = message;  // in any order
    }
};

// A message and the receive that takes it; each half comes when its rank's call is read.
struct Match {
    Match* next = nullptr;  // in its channel, while only one half is there
    uint64_t size = 0;
    int64_t send_time = 0;
    int64_t send_noise = 0;  // inside the sending call
    int64_t post_time = 0;
    int64_t post_noise = 0;  // at the beginning of the posting call
    LaneVector send_delay, send_noise_removed, post_delay, post_noise_removed;
    Thread *sender = nullptr, *receiver = nullptr;
    Thread *sender_waits = nullptr, *receiver_waits = nullptr;
    bool sent = false, posted = false, same_host = true, queued = false;
    bool refused = false;           // sent, and never to be taken
    bool elsewhere = false;         // its receiver is read by another process, which has the other half
    uint64_t proxy = 0;             // of a sender elsewhere: its half there, if it has to know of the posting
    bool synchronous = false;       // the sender waits for the receiver
    bool synchronous_mode = false;  // … because it was asked to
    LaneVector moved;               // of an answer: by how much its receiver is elsewhere since it asked (rules/task_farm/reassignment.cpp)
    bool of_farm = false;           // known to the farms
    struct LockQueue* queue = nullptr;          // of a lock's release: who has queued for it, owned
    struct CompletionSample* sample = nullptr;  // learning: the call that completed the send, until the posting is known
    int32_t source = -1, destination = -1;      // world ranks
    uint32_t comm = 0, tag = 0, partitioned = 0;
    // Of the event graph, where one is recorded; departure: after send_noise; posted: after post_noise.
    uint64_t send_node = 0, departure_node = 0, post_node = 0, posted_node = 0;
    uint8_t users = 0;      // sender, receiver, channel: who still holds it
    uint8_t place = 0;      // of a notice: which of those of its call, from 1 on; 255: that, or a later one
    uint32_t transfer = 0;  // between hosts: its number among those of its sender (rules/links/links.hpp); 0: it is not followed there
    struct Channel* channel = nullptr;
};

struct ChannelKey {
    uint32_t comm = 0, source = 0, destination = 0, tag = 0;  // source and destination: world ranks
    uint32_t partitioned = 0;                                 // 1-based index of the partitioned request; 0: ordinary message
    bool operator==(const ChannelKey&) const = default;
    uint64_t hash() const {
        return mix((static_cast<uint64_t>(comm ^ partitioned << 20) << 32 | tag) * 0x9e3779b97f4a7c15u ^
                   (static_cast<uint64_t>(source) << 32 | destination));
    }
};

// Messages that no receive has taken yet, or receives that wait for a message: never both.
struct Channel {
    ChannelKey key;
    Match *head = nullptr, *tail = nullptr;
    bool holds_messages = false;
    std::vector<Thread*> probing;
};

struct RequestKey {
    uint64_t id = 0;
    bool operator==(const RequestKey&) const = default;
    uint64_t hash() const { return mix(id); }
};

struct Collective;

struct Request {
    enum class Kind : uint8_t { send, receive, collective };
    Kind kind = Kind::receive;
    bool wildcard = false, any_source = false;
    uint32_t partitioned = 0;
    bool arrived = false;    // a collective whose communicator was known at once
    Match* match = nullptr;  // none for a receive whose channel is known only once it completes
    int64_t post_time = 0;
    LaneVector post_delay;
    uint64_t post_node = 0;
    Collective* collective = nullptr;
    uint32_t member = 0;
    uint32_t posting_thread = 0;  // of a receive: the thread that posted it, and the 1-based index of its posting
    uint64_t posting = 0;
};

// Of one-sided communication: what a rank has begun since the last call that completed its window's.
struct BegunTransfer {
    uint32_t target = 0;  // of the window's communicator
    bool comes = false;   // from there
    uint64_t bytes = 0;
    int64_t begin = 0;  // measured: when the call that began it ended
    LaneVector delay;   // … then
    uint64_t node = 0;  // of the event graph
};

// One instance of a collective operation.
struct Collective {
    struct Member {
        Thread* thread = nullptr;  // none: has not come yet
        uint64_t size = 0, part = 0, whole = 0;
        int64_t enter = 0, leave = 0, latest = 0;  // latest: entering of all lower ranks, once folded
        int64_t resume = 0;                        // of a non-blocking one: when its completing call began; `leave` is that call's end
        bool resumed = false, alone = false;       // alone: that call completed nothing else
        bool released = false;                     // waits no longer for those who have not come
        bool held = false;                         // only sends, and took so long that it waited for a receiver
        std::vector<BegunTransfer> transfers;      // that it completes
        uint64_t node = 0, fold_node = 0;          // of the event graph: of entering; of the last of it and all lower ranks
        Place place;
        LaneVector arrival;                   // approximated time of entering, in lanes; only where each member's own is needed
        std::vector<InjectedClock> injected;  // where noise is given: the member's clocks at entering, by lane
    };
    struct Noise {
        NoisePiece piece;
        uint32_t member;
        bool completing = false;  // in the call that completed a non-blocking one
    };
    uint64_t key_comm = 0, key_sequence = 0;
    uint32_t comm = 0;
    uint8_t operation = 0;
    Waits waits = Waits::n_to_n;
    bool nonblocking = false, root_came = false;
    uint32_t root = 0;
    const Partition* partition = nullptr;  // of a creation
    std::vector<Member> members;
    uint32_t arrived = 0, resumed = 0, finished = 0, prefix = 0, folded = 0;
    uint32_t own_members = 0;      // read by this process: those that will finish here
    int64_t last_enter = 0;        // of all that came
    LaneVector last_arrival;       // in lanes: the latest approximated entering (of the root alone where all wait for the root)
    std::vector<Noise> noise;      // inside the members' calls
    std::vector<int64_t> watched;  // where an event graph is recorded: approximated entering, by member, in the watched scenarios
    uint64_t last_node = 0;        // of it: the last of all, once written
    LaneVector held;               // in lanes: how much less noise held the members up, once computed
    int64_t held_until = 0;
    bool held_known = false;
    bool structured = false;  // whether its structure is known has been decided
    int64_t unexplained = 0;  // ns by which members leave otherwise than a constant has it, where no algorithm explains that
    bool awaits_all = false;  // who only sends goes on once all have come: then its messages are known
    Instance instance;        // active where it is
    std::vector<Thread*> waiting;
};

// A member's coming to a collective.
struct Arrival {
    uint32_t comm = 0, root = 0;  // root: rank in comm
    uint8_t operation = 0;
    bool nonblocking = false;
    uint64_t size = 0, part = 0, whole = 0;  // part, whole: as in Operation
    int64_t enter = 0, leave = 0;
    const int64_t* delay = nullptr;  // at enter
    const std::vector<NoisePiece>* pieces = nullptr;
    uint32_t window = UINT32_MAX;  // where it is a window's: counted apart from the communicator's
    std::vector<BegunTransfer>* transfers = nullptr;  // that a fence completes; taken from there
    uint64_t node = 0;             // of the event graph, at enter
};

// What a call cannot end before.
struct Dependency {
    enum class Kind : uint8_t { message, posting, collective, probe, request, lock, thread };
    static constexpr size_t kinds = 7;
    Kind kind;
    bool own_posting = false;  // message: the receive was posted in an earlier call
    bool release = false;      // the match is given back when the call is done
    bool notice = false;       // message: one of one-sided communication
    bool soft = false;         // it may not have been waited for: where nobody can go on, it was not
    bool lock = false;         // notice: of a lock's release
    bool wildcard = false;     // message, probe: it took the first one that came
    Match* match = nullptr;    // request: the one that the master took; who else may ask first decides
    Collective* collective = nullptr;
    uint32_t member = 0;
    Channel* channel = nullptr;
    bool keeps = false;                         // collective: another call of this member will wait for it too
    struct LockEpochState* epoch = nullptr;     // of a lock: that waits
    const struct AccessWait* access = nullptr;  // notice: of what its target does meanwhile
    ThreadEvent* event = nullptr;               // of a thread: what it waits for
};

// Of one-sided communication: what a post tells the origins, a complete the targets, an unlock the next holder (its number is added). Of a
// neighbourhood collective: that one has come; non-blocking ones never match blocking ones. An access: that its target completes accesses.
enum class Notice : uint32_t { post, completion, neighbour, neighbour_request, release, access = uint32_t{1} << 31 };
struct PendingNotice {
    uint32_t window;  // of a neighbourhood: the communicator
    int32_t to;       // world rank
    Notice what;
    uint64_t bytes;                                // that went the same way before it
    const struct LockEpochState* epoch = nullptr;  // of a release
    uint8_t place = 0;                             // as in Match
};

struct PendingNoise {
    int64_t time, ns;
    uint16_t account;
    uint32_t culprit;
    // Nonzero: recorded then, where it had no room. It counts there, and lies here.
    int64_t carried_from = 0;

    int64_t recorded() const { return carried_from != 0 ? carried_from : time; }
};

// What the costs of messages that decided a thread's ends vary by without any noise: it may have been otherwise. Of collectives, whose
// tails hold the noise of others, what no algorithm explains.
struct Uncertainty {
    int64_t spread = 0;   // were they all wrong the same way
    double variance = 0;  // were they independent of each other
    int64_t carried = 0;  // beside them: noise whose place is one of several that it could have

    void add(int64_t cost_spread) {
        constexpr double deviations = 3.29;  // that a spread is wide
        spread += cost_spread;
        variance += static_cast<double>(cost_spread) * static_cast<double>(cost_spread) / (deviations * deviations);
    }
};

struct Polling {
    bool active = false;
    int64_t begin = 0, last_enter = 0, last_leave = 0, last_length = 0, noise_since = 0;
    int64_t gap = 0, longest_gap = 0;  // between two polls, without noise: the latest; of the whole loop
    LaneVector delay;                  // at begin
    uint64_t node = 0;                 // of the event graph, at begin
    std::vector<NoisePiece> pieces;
    // The same of the whole loop, where there was work between its polls; the ones above are those behind the latest such work.
    struct Whole {
        bool active = false, even = false;  // even: as much work each time
        int64_t begin = 0, work = 0;        // work: the first time
        LaneVector delay;
        uint64_t node = 0;
        std::vector<NoisePiece> pieces;
    } whole;
};

// Failing polls in a row that the recorder made one call of, by its Leave.
struct PollRun {
    uint32_t polls = 1;
    int64_t last = 0, longest_gap = 0;  // ns: of the last one; between two of them
};

// How a call ended, beside its delay: for injected noise and for writing the timeline.
struct CallEnd {
    int64_t tail = 0;                                  // ns of its own work behind its wait state
    bool elastic = false;                              // the wait state began before the call (in a polling loop)
    int64_t waited_until = 0, approximated_until = 0;  // where the wait state ended, and where it does in the scenario "all"
    bool stepwise = false;                             // a collective, followed through its messages
    int64_t noise = 0, removed = 0;                    // in the tail; of that, what the scenario "all" removes. Not of collectives
};

class Engine;

// What was put, got or accumulated under one matching id.
struct Transfer {
    uint32_t target = 0;  // of the window's communicator
    uint64_t bytes = 0;
};

// What a process shares among its threads.
struct Process {
    Thread* thread = nullptr;  // the one that carries the rank; none: missing from the trace
    FlatMap<RequestKey, Request*> requests;
    std::vector<std::pair<ChannelKey, Match*>> set_aside;                         // by matched probes, until their matched receive
    std::unordered_map<uint64_t, uint64_t> collectives, nonblocking_collectives;  // how many were begun, by communicator or window
    std::unordered_map<uint32_t, size_t> creations;                               // of communicators, by parent
    std::vector<std::pair<ChannelKey, Match*>> opened;                            // posts that a start asked for, until the complete
    std::unordered_map<uint64_t, uint64_t> exchanged;                             // bytes since the last notice, by window and target
    std::unordered_map<uint64_t, Transfer> transfers;                             // under way, by matching id
    std::unordered_map<uint32_t, std::vector<BegunTransfer>> begun;               // by window
    std::vector<Dependency> halves;                       // collectives of files that have begun, and their second half has not come
    std::vector<std::pair<uint64_t, Match*>> neighbours;  // whom a non-blocking neighbourhood collective waits for, by request
    uint64_t unrecorded_requests = 0;                     // begun without a record, and as far as is known not completed
    bool unrecorded_persistent = false;
};

struct Thread {
    enum class State : uint8_t { ready, parked, blocked, finished };

    Engine* engine = nullptr;
    uint32_t index = 0;
    int32_t rank = -1, host = 0;
    bool carries_rank = false;
    bool remote = false;   // read by another process: a mirror
    bool created = false;  // started by the program: it may wait for others by what is not in the trace
    bool in_team = false;  // a further thread of the rank, whose waits for the others are in the trace
    State state = State::ready;

    // Reading.
    uint64_t last_ticks = 0, events = 0, most_events = 0;
    uint64_t record = 0;  // 1-based index in the file of the last Enter, Leave or MPI record
    bool ended = false;   // no more records
    bool broken = false;  // time ran backward, or more events than the file can hold
    KeptLocation* kept = nullptr;  // its events from an earlier pass, or for later ones; none: all are in the archive
    int64_t now = 0, first = 0, last = 0;
    bool started = false;
    int64_t worked_until = 0;  // injected noise up to here is counted

    // Noise.
    std::vector<int64_t> counters;  // by account; −1 before the baseline
    std::vector<PendingNoise> pending;
    std::vector<PendingNoise> late;  // what was recorded behind later events; learned first, by time in the replay
    size_t next_late = 0;
    ClaimedTime claimed;
    RecentRoom room;             // learning
    int64_t carried_ns = 0;      // has its place already, and is still to come as what a record has no room for
    std::vector<int64_t> local;  // by account
    struct Culprit {
        uint32_t name = UINT32_MAX;
        std::pair<int64_t, int64_t>* sums = nullptr;  // of the engine's culprits
    };
    std::vector<Culprit> culprits;  // learning: by account, the latest

    // The open call.
    bool in_call = false;
    CallKind kind = CallKind::local;
    uint32_t depth = 0;  // regions entered inside the call
    uint32_t region = 0, call_site = no_call_site;
    int64_t enter = 0, leave = 0;
    PollRun poll_run;
    std::vector<Operation> operations;
    std::vector<NoisePiece> pieces;
    std::vector<Dependency> dependencies;
    size_t next_dependency = 0;
    uint32_t completions = 0;
    struct LockEpochState* releasing = nullptr;  // the epoch that this unlock ends, where locks are had in their turn
    std::vector<PendingNotice> notices;          // that leave as the call's waiting ends
    bool unrecorded = false;                     // it may have waited for others, and no record says for whom
    bool granted_after_wait = false;             // … for those that had a lock before it: it may be sooner
    struct {
        bool same_host = true;
        uint64_t bytes = 0;
    } reached;                    // one-sided: whether all targets of this call are here; what it transfers or completes
    uint64_t postings = 0;        // of non-blocking receives, so far
    std::vector<Match*> watched;  // learning: the standard sends that this call completes

    LaneVector delay;
    CallSiteReader call_sites;
    RegionStack regions;         // followed only where somebody asks
    Payment* payment = nullptr;  // of the rank that ends last: the account of what its delay changed where
    bool follows_regions = false;
    uint64_t node = 0, enter_node = 0;  // of the event graph: the thread's last; where its open call began
    uint32_t noise_records = 0;
    Polling polling;
    Uncertainty uncertainty;
    TeamPlaces teams;
    bool has_mpi = false;
    int64_t init_ns = 0, finalize_ns = 0;

    Place place() const { return {region, regions.innermost(), call_site}; }  // of the open call
    RecordedThread recorded() const { return {index, regions.innermost(), delay, node}; }
    void stand_at(const Place& place) {  // of a mirror
        region = place.operation;
        call_site = place.call_site;
        regions.stand_in(place.caller);
    }
};

}  // namespace polter::replay
