// SPDX-License-Identifier: BSD-3-Clause
// Locks of one-sided communication.
//
// In words: an exclusive lock waits for the unlock of the previous holders, a shared lock for that of the last exclusive holder. In many
// libraries a lock call returns at once, and the first operation, flush or unlock waits in its place. So of the calls of an epoch, the
// first one that ended after the release waited for it; later ones follow by causality. A release is a notice to the next holder. Like the
// notice of a complete it leaves when the unlock's own wait state is over. The learning pass finds the previous holders
// (rules/rma/lock_order.cpp).
//
// In each lane the lock goes to the earliest request in that lane. So a release carries a queue: when each epoch requested the lock in each
// lane, and how long it held it, counted from when the lock was free for it. In a lane, the next epoch waits for those that requested
// before it, one after the other, like customers of a single server (Lindley 1952). The same is computed for the measured run; the
// difference between the two is the delay at the end of the wait state. An epoch whose request precedes all others waits for none. The
// epochs that it passes have been replayed already and keep their times, but it stays in the queue that later epochs see, so a busy lock
// stays equally busy. Where rules/rma/lock_simulation.cpp found the grant time in a lane, that one counts. The result is conditional.
//
// Bounds: other calls of the epoch may have waited for the previous holder too, without a record of it, or may do so in another order. Each
// is taken to be as short, or as long, as such calls ever were (rules/unrecorded.cpp).
//
// The order is inferred, and noise may have reversed it: the dependency is soft.
#include "locks.hpp"

#include <algorithm>

#include "replay/rules/internal.hpp"

namespace polter::replay {

namespace {

constexpr double rarely = 0.1;  // fraction of time: a lock that is free for less counts as always busy

Notice release_of(const Grant& grant) {
    return static_cast<Notice>(static_cast<uint32_t>(Notice::release) + grant.number);
}

}  // namespace

void LockQueue::add(size_t lane, Epoch epoch) {
    std::vector<Epoch>& all = epochs[lane];
    const auto later = [](const Epoch& a, const Epoch& b) { return a.asked < b.asked; };
    const auto place = all.insert(std::upper_bound(all.begin(), all.end(), epoch, later), epoch);
    if (all.size() <= most) return;
    // Which epochs came before the known ones is forgotten; a lock that was often free was free for them too.
    if (place != all.begin() || idle(lane) <= rarely) free[lane] = std::max(free[lane], all.front().asked) + all.front().held;
    all.erase(all.begin());
}

int64_t LockQueue::free_for(size_t lane, int64_t asked) const {
    const std::vector<Epoch>& all = epochs[lane];
    int64_t time = free[lane];
    // Earlier than all known epochs: it waits as long as the first of these did, or finds the lock free.
    if (!all.empty() && asked < all.front().asked)
        return idle(lane) > rarely ? asked : asked + std::max<int64_t>(0, time - all.front().asked);
    for (const Epoch& epoch : all) {
        if (epoch.asked > asked) break;
        time = std::max(time, epoch.asked) + epoch.held;
    }
    return time;
}

double LockQueue::idle(size_t lane) const {
    const std::vector<Epoch>& all = epochs[lane];
    int64_t time = all.front().asked, idle = 0;
    for (const Epoch& epoch : all) {
        idle += std::max<int64_t>(0, epoch.asked - time);
        time = std::max(time, epoch.asked) + epoch.held;
    }
    return static_cast<double>(idle) / static_cast<double>(std::max<int64_t>(1, time - all.front().asked));
}

LockEpochState* Locks::state(const Thread& thread, uint32_t window, uint32_t target) {
    const LockKey key{thread.rank, window, target};
    const auto found = states_.find(key);
    if (found != states_.end()) return &found->second;
    const auto place = plan_->places.find(key);
    if (place == plan_->places.end()) return nullptr;
    LockEpochState& fresh = states_[key];
    fresh.place = &place->second;
    fresh.key = key;
    return &fresh;
}

LockEpochState* Locks::open_epoch(const Thread& thread, uint32_t window, uint32_t target) {
    for (const uint32_t locked : {target, every_target}) {
        LockEpochState* at = state(thread, window, locked);
        if (at && at->open) return at;
    }
    return nullptr;
}

bool Locks::knows(const Thread& thread, const Operation& lock) const {
    const LockKey key{thread.rank, lock.comm, lock.peer};
    const auto place = plan_->places.find(key);
    if (place == plan_->places.end()) return false;
    const auto at = states_.find(key);
    return (at == states_.end() ? 0 : at->second.epoch) < place->second.epochs;
}

void Locks::lock(Thread& thread, const Operation& operation) {
    LockEpochState* at = state(thread, operation.comm, operation.peer);
    if (!at) return;
    if (at->open) return wait(thread, *at, operation, false);  // a second record in the same call: requested and granted
    at->open = true;
    at->counted = at->waited = false;
    at->exclusive = operation.synchronises;
    at->queue = {};
    at->asked.assign(engine_.lanes().count + 1, thread.enter);
    for (size_t lane = 0; lane < engine_.lanes().count; ++lane) at->asked[lane] -= thread.delay[lane];
    at->had = at->asked;
    const auto& waits = at->place->waits;
    while (at->next_wait < waits.size() && waits[at->next_wait].epoch == at->epoch) at->due.push_back(&waits[at->next_wait++]);
    at->ordinal = at->epoch;
    if (turns_) ask_in_turn(thread, *at);
    wait(thread, *at, operation, false);
}

void Locks::data(Thread& thread, const Operation& operation) {
    LockEpochState* at = open_epoch(thread, operation.comm, operation.peer);
    if (!at) return;
    wait(thread, *at, operation, false);
    thread.granted_after_wait = at->waited;
}

void Locks::unlock(Thread& thread, const Operation& operation) {
    LockEpochState* at = state(thread, operation.comm, operation.peer);
    if (!at || !at->open) return;
    wait(thread, *at, operation, true);
    thread.granted_after_wait = at->waited;
    at->open = false;
    if (turns_) thread.releasing = at;
    const auto& lets = at->place->lets;
    for (; !turns_ && at->next_let < lets.size() && lets[at->next_let].epoch == at->epoch; ++at->next_let)
        thread.notices.push_back({operation.comm, lets[at->next_let].peer, release_of(lets[at->next_let]), 0, at});
    ++at->epoch;
}

void Locks::take_turns(size_t lane) {
    turns_ = std::make_unique<LockTurns>(*plan_, lane);
}

int64_t Locks::foreseen(const LockEpochState& epoch, size_t lane) const {
    if (!foresight_) return INT64_MIN;
    const auto times = foresight_->find(lane);
    if (times == foresight_->end()) return INT64_MIN;
    const auto found = times->second.find(epoch.key);
    return found == times->second.end() || epoch.ordinal >= found->second.size() ? INT64_MIN : found->second[epoch.ordinal];
}

void Locks::ask_in_turn(Thread& thread, LockEpochState& at) {
    at.granted = at.attached = false;
    at.thread = nullptr;
    at.measured = thread.enter;
    at.same_host = true;
    for (const Grant* due : at.due) {
        if (due->excluded) at.measured = std::max(at.measured, due->released);
        const Thread* peer = engine_.processes()[static_cast<size_t>(due->peer)].thread;
        at.same_host = at.same_host && peer && peer->host == thread.host;
    }
    const auto turn = at.place->turns.find(at.epoch);
    at.turn = at.asked[turns_->lane()] + (turn == at.place->turns.end() ? 0 : turn->second - thread.enter);
    turns_->request(at);
    if (at.due.empty()) attach(thread, at);
}

// Makes the call wait until the lock is granted.
void Locks::attach(Thread& thread, LockEpochState& at) {
    if (at.attached) return;
    at.attached = true;
    at.waited = true;
    thread.dependencies.push_back({.kind = Dependency::Kind::lock, .soft = true, .epoch = &at});
}

void Locks::wait(Thread& thread, LockEpochState& at, const Operation& operation, bool whatever_is_left) {
    const bool lazy = thread.kind != CallKind::win_lock;
    std::erase_if(at.due, [&](const Grant* grant) {
        const bool concerned = operation.peer == every_target || operation.peer == grant->target;
        if (!whatever_is_left && (!concerned || grant->released > thread.leave)) return false;
        if (turns_) {
            attach(thread, at);
            return true;
        }
        if (lazy && engine_.faults().eager_locks) return true;
        Match* match = rules::ask_for_notice(engine_, thread, operation.comm, release_of(*grant), grant->peer);
        thread.dependencies.push_back(
            {.kind = Dependency::Kind::message, .release = true, .notice = true, .soft = true, .lock = true, .match = match, .epoch = &at});
        at.waited = true;
        if (grant->excluded && !at.counted) engine_.count(Flaw::locked_out);
        at.counted = at.counted || grant->excluded;
        return true;
    });
}

namespace rules {

namespace {

// The bounds have queues of their own, in which an epoch may pass others differently: keep them on their side of the estimate.
void keep_order(const Lanes& lanes, int64_t* delay, int64_t* had) {
    if (!lanes.bounded()) return;
    delay[lanes.low] = std::max(delay[lanes.low], delay[lanes.all]);
    delay[lanes.high] = std::min(delay[lanes.high], delay[lanes.all]);
    had[lanes.low] = std::min(had[lanes.low], had[lanes.all]);
    had[lanes.high] = std::max(had[lanes.high], had[lanes.all]);
}

}  // namespace

// The queue of the epoch that releases the lock at `time`, with that epoch in it; null if it was shared. The caller owns it.
LockQueue* queue_behind(const Engine& engine, const LockEpochState& epoch, int64_t time, const int64_t* delay) {
    const size_t lanes = engine.lanes().count;
    if (!epoch.exclusive) return nullptr;
    auto* queue = new LockQueue(epoch.queue);
    queue->free.resize(lanes + 1, INT64_MIN / 4);
    queue->epochs.resize(lanes + 1);
    for (size_t lane = 0; lane <= lanes; ++lane) {
        const int64_t released = lane < lanes ? time - delay[lane] : time;
        queue->add(lane, {epoch.asked[lane], std::max<int64_t>(0, released - epoch.had[lane])});
    }
    return queue;
}

// Moves the last constraint, the release, to the time at which each lane's queue grants the lock.
void queue_for_lock(Engine& engine, const Dependency& waits, Scratch& scratch) {
    const size_t lanes = engine.lanes().count;
    if (engine.faults().as_locked || lanes == 0 || !waits.match->queue) return;
    LockEpochState& epoch = *waits.epoch;
    epoch.queue = *waits.match->queue;
    Constraint& release = scratch.constraints.back();
    // An epoch that had the lock later requested it later, whatever the clocks say: then it waited for the release.
    const int64_t measured = std::max(epoch.asked[lanes], epoch.queue.free_for(lanes, epoch.asked[lanes]));
    release.time = std::max(release.time, epoch.asked[lanes]);
    const LaneVector& delay = scratch.vectors.emplace_back(engine.lane_pool().copy(release.delay));
    for (size_t lane = 0; lane < lanes; ++lane) {
        const int64_t asked = epoch.asked[lane];
        int64_t& had = epoch.had[lane] = std::max(asked, epoch.queue.free_for(lane, asked));
        if (const int64_t foreseen = of(engine).locks->foreseen(epoch, lane); foreseen != INT64_MIN) had = std::max(asked, foreseen);
        const bool at_once = had == asked && measured > epoch.asked[lanes];  // the lane has no wait, so no cost of a release either
        delay[lane] = at_once ? never : measured - had;
    }
    const size_t all = engine.lanes().all;
    if (!epoch.counted && epoch.had[all] > epoch.asked[all]) engine.count(Flaw::locked_out);  // … waits in the scenario "all" only
    epoch.counted = epoch.counted || epoch.had[all] > epoch.asked[all];
    keep_order(engine.lanes(), delay, epoch.had.data());
    epoch.had[lanes] = measured;
    release.delay = delay;
}

}  // namespace rules

}  // namespace polter::replay
