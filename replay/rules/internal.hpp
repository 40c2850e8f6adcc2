// SPDX-License-Identifier: BSD-3-Clause
// What the rules share among themselves; what the engine asks of them is engine/semantics.hpp.
#pragma once

#include <cstdlib>
#include <optional>

#include "mpi_rules.hpp"
#include "replay/engine/engine.hpp"
#include "replay/model/message_costs.hpp"

namespace polter::replay {

// "The call ends `cost` after `time`, or later": the min-plus form of a dependency.
struct Constraint {
    int64_t time = 0;
    const int64_t* delay = nullptr;
    Cost cost;
    uint64_t node = 0;             // of the event graph
    const Match* match = nullptr;  // of a message: `posting`, of its receive; else its sending
    bool posting = false;
};

// What one call waits for; `vectors` holds the delays that were computed for its constraints.
struct Scratch {
    std::vector<Constraint> constraints;
    std::vector<LaneVector> vectors;
    Cost own;
    LaneVector entered;  // if set: the delay from which `own` counts, where other lanes have more or less of it than was measured
    bool elastic = false;
    MessageCostCache costs;  // of the pass
};

}  // namespace polter::replay

namespace polter::replay::rules {

void publish(Engine&, Thread&);
void publish_unfinished(Engine&, Thread&);  // the trace ends inside the call
CallEnd conclude(Engine&, Thread&);

bool collective_ready(Collective&, uint32_t member);
bool came_who_counts(Collective&, uint32_t member);  // for whom the member waits by what the operation computes
extern const DependencyRules dependency_rules;  // dependencies.cpp

inline MpiRules& of(Engine& engine) {
    return static_cast<MpiRules&>(engine.semantics());
}
inline const MpiRules& of(const Engine& engine) {
    return static_cast<const MpiRules&>(engine.semantics());
}

// The channels of windows are apart from those of communicators.
constexpr uint32_t window_channels = uint32_t{1} << 31;
inline uint32_t window_of(uint32_t channel_comm) {
    return channel_comm & ~window_channels;
}

// ---- between the rules -----------------------------------------------------------------------------------------------------------

// One call, seen from the thread that made it.
struct Interval {
    int64_t enter = 0, leave = 0;
    const int64_t* delay = nullptr;  // at enter
    const std::vector<NoisePiece>* pieces = nullptr;
    Cost own;                    // from enter to leave where nothing had to be waited for
    Thread* recorded = nullptr;  // whose call it is, where its end belongs into the event graph; `node`: of enter
    uint64_t node = 0;
    bool elastic = false;  // it waits for its own transfers: noise counts by how much longer it was
};

struct Solved {
    int64_t spread = 0;  // of the cost that decided the measured end; 0 where that was the call's own
    CallEnd end;
};
// The delay at the end of a call: see rules/min_plus.cpp. `result` may be `interval.delay`.
Solved solve(Engine&, const Interval&, const std::vector<Constraint>&, int64_t* result);

// Each rule's own publish and constrain.
void publish_send(Engine&, Thread&, const Operation&, bool blocking);
void publish_send_complete(Engine&, Thread&, const Operation&);
void publish_receive(Engine&, Thread&, const Operation&);
void publish_posting(Engine&, Thread&, const Operation&);
void publish_receive_complete(Engine&, Thread&, const Operation&);
void publish_part_arrived(Engine&, Thread&, const Operation&);
void publish_cancelled(Engine&, Thread&, const Operation&);
void publish_probe(Engine&, Thread&, const Operation&);
void publish_collective(Engine&, Thread&, const Operation&);
void publish_collective_request(Engine&, Thread&, const Operation&);
void publish_collective_complete(Engine&, Thread&, const Operation&);
void find_held(Engine&, const Thread&, Collective&, uint32_t member);  // whether it only sends and waited for a receiver, by this call
void publish_rma(Engine&, Thread&, const Operation&);
void publish_neighbours(Engine&, Thread&, const Operation&);
void publish_neighbour_request(Engine&, Thread&, const Operation&);
void publish_neighbour_complete(Engine&, Thread&, const Operation&);
void send_notice(Engine&, Thread&, const PendingNotice&, int64_t time, const int64_t* delay, uint64_t node);  // node: of the event graph
Match* ask_for_notice(Engine&, Thread&, uint32_t window, Notice what, int32_t from);
void publish_start_or_end(Engine&, Thread&, uint8_t operation);

// The dependency's constraints, appended.
void constrain_message(Engine&, Thread&, const Dependency&, Scratch&);
void constrain_posting(Engine&, Thread&, const Dependency&, Scratch&);
void constrain_probe(Engine&, Thread&, const Dependency&, Scratch&);
void constrain_collective(Engine&, Thread&, const Dependency&, Scratch&);
void constrain_notice(Engine&, Thread&, const Dependency&, Scratch&);
void constrain_turn(Engine&, Thread&, const Dependency&, Scratch&);    // rules/rma/lock_simulation.cpp
void constrain_access(Engine&, Thread&, const Dependency&, Scratch&);  // rules/rma/accesses.cpp
// Of a call that was let pass, as it comes first in the scenario "all": it does not wait there, nor in others in which it comes so much
// earlier. `never` in those.
LaneVector delay_if_first(Engine&, const Thread&, const AccessWait&);
void constrain_incoming(Engine&, Thread&, Scratch&);                   // rules/rma/incoming.cpp; when its notices have left
void learn_notices(Engine&, const Thread&);
void learn_epoch(Engine&, const Thread&);              // what a lock, a flush or an unlock costs where there is nobody to wait for
void constrain_transfers(Engine&, Thread&, Scratch&);  // behind all others
Cost by_itself(Engine&, const Thread&);                // … of this call; not known: nothing
LockQueue* queue_behind(const Engine&, const LockEpochState&, int64_t time, const int64_t* delay);  // rules/rma/locks.cpp; the caller's
void queue_for_lock(Engine&, const Dependency&, Scratch&);  // the last constraint, the release, as each lane's queue has it
CostClass own_of_epoch(const Thread&);                      // of a lock, and of what follows it up to its unlock: where nobody holds it up
void send_notices(Engine&, Thread&, const std::vector<Constraint>& waited);  // that leave when the call has waited for these
void add_message(Engine&, Thread&, const Match&, const Cost&, int64_t not_before, Scratch&);  // receive.cpp
void add_posting(Engine&, Thread&, const Match&, const Cost&, int64_t not_before, Scratch&);  // … the posting of its receive
// A message between hosts was so much later there for sharing links (rules/links/links.hpp); the constraints from `from` on, as later as in
// each lane.
int64_t shared_ns(const Engine&, const Match&);
void share_links(Engine&, Thread&, const Match&, Scratch&, size_t from);
void own_at_least(Scratch&, const Cost&);                                                     // of the call's own work
CallEnd conclude_collective(Engine&, Thread&, const Dependency&);
bool follows_structure(const Collective&, uint32_t member);  // its end is known by it
void learn_completion(Engine&, Thread&);                     // rules/learn_completion.cpp
// … that it took so long, with so much noise in that, from the last on of what it waited for (or from its beginning, and that had come).
void learn_waited(Engine&, const CostClass&, int64_t took, int64_t noise, int64_t slack);

// Injected noise (injected.cpp): `entered`: the delay at the call's beginning; `own_work`: of the sending call before its message leaves.
void apply_injected(Engine&, Thread&, const CallEnd&, const int64_t* entered);
void apply_injected_departure(Engine&, const Thread&, Match&, int64_t own_work);

// Threads of one process (rules/threads/).
void publish_of_threads(Engine&, Thread&);
void constrain_by_thread(Engine&, Thread&, const Dependency&, Scratch&);
CallEnd conclude_of_threads(Engine&, Thread&);

// Polling: before a call is published, and as it is concluded. Its end, if this call ends a polling loop.
void before_call(Engine&, Thread&);
std::optional<CallEnd> conclude_polling(Engine&, Thread&, const Scratch&);

// Waitany and Waitsome (completion_order.cpp): by how much this call, or those before it, waited for a message while another one that is
// taken now was there, in the scenario "all"; and what follows from that at the call's end.
int64_t idle_by_order(Engine&, const Thread&);
void allow_other_order(Engine&, Thread&, int64_t change);

// Task farms: tasks are reassigned first come, first served in each scenario (rules/task_farm/reassignment.cpp).
void go_on_elsewhere(Engine&, Thread&);

// Calls that may have waited for others though no record says so: rules/unrecorded.cpp.
bool may_have_waited(Engine&, Thread&);
void follow_unrecorded_requests(Engine&, Thread&);  // before a call is published: rules/unrecorded_requests.cpp
void widen_bounds(Engine&, const Thread&, int64_t delay_low_at_enter, const Cost& own);

inline CostClass message_class(CostKind kind, const Match& match) {
    return {kind, match.same_host, match.synchronous_mode, match.partitioned > 0 ? partitioned_messages : uint16_t{0}, match.size};
}

// A rendezvous begins when its later side is ready. Each does some own work before that: of sides that came at nearly the same time it is
// open which of them was later.
inline bool near_tie(const Match& match) {
    return std::abs(match.post_time - match.send_time) < own_work_ns(match.size);
}

inline int64_t noise_after(const std::vector<NoisePiece>& pieces, int64_t time) {
    int64_t sum = 0;
    for (const NoisePiece& piece : pieces)
        if (piece.end > time) sum += piece.end - std::max(piece.begin, time);
    return sum;
}

}  // namespace polter::replay::rules
