// SPDX-License-Identifier: BSD-3-Clause
// Simulation of the locks of one scenario.
//
// In words: in a pass over one scenario alone, a lock is granted to the first request in that scenario, even if another epoch had it first
// in the measured run. All threads continue until each waits for a lock, or for a thread that does. From then on no request can come before
// the earliest pending one, which is granted: a conservative discrete event simulation (Chandy and Misra 1979) whose only events are lock
// grants. The pass over all scenarios takes over the grant times. Requests at equal delays keep the measured grant order, whatever the
// clocks say, so without a change of delays no epoch passes another.
#include <algorithm>
#include <tuple>

#include "replay/rules/internal.hpp"

namespace polter::replay {

LockTurns::LockTurns(const LockPlan& plan, size_t lane) : lane_(lane) {
    for (const auto& [key, place] : plan.places) {
        locks_[{key.window, key.target}] = {INT64_MIN / 4, INT64_MIN / 4};
        times_[key].assign(place.epochs, INT64_MIN);
    }
}

void LockTurns::request(LockEpochState& epoch) {
    std::erase(requests_, &epoch);  // a damaged trace may request a lock twice
    const auto later = [](const LockEpochState* a, const LockEpochState* b) {
        return std::tie(a->turn, a->key.rank) < std::tie(b->turn, b->key.rank);
    };
    requests_.insert(std::upper_bound(requests_.begin(), requests_.end(), &epoch, later), &epoch);
}

// The locks that exclude `key`: a target's own and the whole window's; for the whole window, those of all targets.
std::vector<LockTurns::Lock*> LockTurns::concerned(const LockKey& key) {
    std::vector<Lock*> all;
    if (key.target != every_target) {
        all.push_back(&locks_[{key.window, key.target}]);
        if (const auto whole = locks_.find({key.window, every_target}); whole != locks_.end()) all.push_back(&whole->second);
        return all;
    }
    for (auto at = locks_.lower_bound({key.window, 0}); at != locks_.end() && at->first.first == key.window; ++at)
        all.push_back(&at->second);
    return all;
}

bool LockTurns::has_to_wait(const LockEpochState& epoch) {
    const std::vector<Lock*> all = concerned(epoch.key);
    return std::any_of(all.begin(), all.end(),
                       [&](const Lock* lock) { return (epoch.exclusive ? lock->holders : lock->exclusive_holders) > 0; });
}

int64_t LockTurns::free_since(const LockEpochState& epoch) {
    int64_t time = INT64_MIN / 4;
    for (const Lock* lock : concerned(epoch.key)) time = std::max(time, epoch.exclusive ? lock->free : lock->free_of_exclusive);
    return time;
}

Thread* LockTurns::grant() {
    for (auto at = requests_.begin(); at != requests_.end();) {
        LockEpochState& epoch = **at;
        if (has_to_wait(epoch)) {
            ++at;
            continue;
        }
        give(epoch);
        if (epoch.thread) return epoch.thread;
        at = requests_.begin();  // no call of the epoch waits for the grant yet: none needs to be woken
    }
    return nullptr;
}

void LockTurns::give(LockEpochState& epoch) {
    std::erase(requests_, &epoch);
    epoch.had[lane_] = std::max(epoch.asked[lane_], free_since(epoch));
    epoch.granted = true;
    Lock& lock = locks_[{epoch.key.window, epoch.key.target}];
    ++lock.holders;
    lock.exclusive_holders += epoch.exclusive;
    if (auto& times = times_[epoch.key]; epoch.ordinal < times.size()) times[epoch.ordinal] = epoch.had[lane_];
}

void LockTurns::release(LockEpochState& epoch, int64_t time) {
    if (!epoch.granted) return;
    Lock& lock = locks_[{epoch.key.window, epoch.key.target}];
    --lock.holders;
    lock.exclusive_holders -= epoch.exclusive;
    lock.free = std::max(lock.free, time);
    if (epoch.exclusive) lock.free_of_exclusive = std::max(lock.free_of_exclusive, time);
    epoch.granted = false;
}

namespace rules {

// The lock was granted at `measured`; in the scenario it is granted in its turn. The costs after it are those after a release.
void constrain_turn(Engine& engine, Thread& thread, const Dependency& dependency, Scratch& scratch) {
    const LockEpochState& epoch = *dependency.epoch;
    const size_t lane = of(engine).locks->turns()->lane();
    if (epoch.measured > thread.leave) return;
    Cost after =
        engine.model().cost({CostKind::notice_after, epoch.same_host, false, static_cast<uint16_t>(thread.kind), thread.reached.bytes});
    Cost own = engine.model().cost(own_of_epoch(thread));
    own.mid = own.low;
    if (!after.known) after = {0, own.mid, own.high, false};
    if (!own.known) own = {0, after.mid, after.high, false};
    const bool at_once = epoch.had[lane] == epoch.asked[lane] && epoch.measured > epoch.asked[engine.lanes().count];
    const LaneVector& delay = scratch.vectors.emplace_back(engine.lane_pool().filled(0));
    delay[lane] = at_once ? never : epoch.measured - epoch.had[lane];
    scratch.constraints.push_back({epoch.measured, delay, after, thread.enter_node});
    scratch.own = own;
}

}  // namespace rules

}  // namespace polter::replay
