// SPDX-License-Identifier: BSD-3-Clause
// Threads of one process: parallel regions.
//
// In words: a thread begins its share of a region when its master has forked it, or later if it was still busy; until then it is idle. A
// barrier of the team ends when its last member has come. The master continues behind the region when the last member has ended its share
// (where a recorder writes no barrier at its end).
// From there each has work of its own (to wake up, to leave the barrier), which keeps its length, less the noise in it. So noise of a
// thread that is not the last one is absorbed.
//
// A thread that the program starts begins when it was created, and whoever joins it waits for its end. A lock is had when whoever had it
// before has released it, in the measured order. Where a thread asks for it earlier in a scenario than the one before it, that order may
// have been another: in the lower bound the thread waits for nobody. So it does where it asks earlier than measured, and when the one
// before it asked is not in the trace. A wait for a condition ends when another thread signals, and whoever had the mutex then has released
// it.
//
// All constraints of such a call have one cost, the measured completion overhead without its noise; whoever would be the last in a scenario
// may need less, so the bounds allow for none at all.
//
// Behind a dynamic loop, and behind tasks, the members come when the work is used up, and they would share it otherwise without the noise:
// what noise took from one of them all have done. So the barrier ends earlier by the mean of the members' delays. At the earliest at the
// mean of their arrivals, at the latest as if each had the iterations that it was measured to have.
#include <algorithm>

#include "replay/rules/internal.hpp"

namespace polter::replay::rules {

void publish_of_threads(Engine& engine, Thread& thread) {
    std::vector<ThreadEvent*> others;
    switch (thread.kind) {
        case CallKind::thread_barrier:
        case CallKind::thread_dynamic_barrier:
            engine.come_to_barrier(thread, others);
            break;
        case CallKind::thread_join:
            engine.members_ends(thread, others);
            break;
        case CallKind::thread_wait:
            others = std::exchange(thread.teams.awaited, {});
            break;
        case CallKind::thread_condition:
            others = std::exchange(thread.teams.awaited, {});
            if (engine.faults().signals_apart) others.clear();
            break;
        case CallKind::thread_lock:
            if (!engine.faults().locks_apart) engine.lock_releases(thread, others);
            break;
        default:
            if (ThreadEvent* fork = engine.team_fork(thread)) others.push_back(fork);
    }
    if (engine.learning() || engine.faults().threads_apart) return;
    for (ThreadEvent* event : others) thread.dependencies.push_back({.kind = Dependency::Kind::thread, .event = event});
}

// Who came later than the call's measured end cannot have been waited for.
void constrain_by_thread(Engine&, Thread& thread, const Dependency& dependency, Scratch& scratch) {
    const ThreadEvent* event = dependency.event;
    if (event && event->time <= thread.leave)
        scratch.constraints.push_back({.time = event->time, .delay = event->delay, .cost = {}, .node = event->node});
}

namespace {

// The call's own beginning decides nothing.
void forget_own_delay(Engine& engine, Thread& thread) {
    constexpr int64_t unconstrained = int64_t{1} << 58;
    for (size_t i = 0; i < engine.lanes().count; ++i) thread.delay[i] = unconstrained;
}

// One constraint in place of the members' own: all of them have done their work.
void share_work(Engine& engine, Thread& thread, int64_t last, Scratch& scratch) {
    if (scratch.constraints.empty()) return;
    const Lanes& lanes = engine.lanes();
    scratch.constraints.push_back({.time = thread.enter, .delay = thread.delay, .cost = {}, .node = thread.enter_node});
    const auto members = static_cast<int64_t>(scratch.constraints.size());
    LaneVector mean = engine.lane_pool().filled(0);
    int64_t distance = 0, at_latest = INT64_MAX;  // from the arrivals to the last one
    uint64_t node = thread.enter_node;
    for (const Constraint& member : scratch.constraints) {
        for (size_t i = 0; i < lanes.count; ++i) mean[i] += member.delay[i];
        distance += last - member.time;
        if (lanes.bounded()) at_latest = std::min(at_latest, member.delay[lanes.high] + last - member.time);
        if (member.time == last) node = member.node;
    }
    for (size_t i = 0; i < lanes.count; ++i) mean[i] /= members;
    const int64_t change = mean[lanes.all];
    const bool moves = change != 0 || (lanes.bounded() && mean[lanes.low] != 0);  // else the work stays shared as it was
    if (lanes.bounded() && moves) {
        mean[lanes.low] += distance / members;
        mean[lanes.high] = std::min(mean[lanes.high], at_latest);
    }
    if (moves) {
        engine.count(Flaw::work_shared);
        engine.leaves_open(Flaw::work_shared, thread.enter, thread.leave, change);
    }
    scratch.constraints.clear();
    scratch.constraints.push_back({.time = last, .delay = mean, .cost = {}, .node = node});
    scratch.vectors.push_back(std::move(mean));
    forget_own_delay(engine, thread);
}

// What a thread that was joined waited for by locks and conditions of its own is unknown.
void count_unknown_waits(Engine& engine, const Thread& thread, const Scratch& scratch) {
    const Lanes& lanes = engine.lanes();
    if (lanes.count == 0) return;
    for (const Constraint& constraint : scratch.constraints) {
        if (constraint.delay[lanes.all] == 0) continue;
        engine.count(Flaw::created_threads);
        engine.leaves_open(Flaw::created_threads, thread.enter, thread.leave, constraint.delay[lanes.all]);
    }
}

}  // namespace

CallEnd conclude_of_threads(Engine& engine, Thread& thread) {
    Scratch& scratch = *of(engine).scratch;
    scratch.constraints.clear();
    scratch.vectors.clear();
    for (const Dependency& dependency : thread.dependencies) engine.rule(dependency).constrain(engine, thread, dependency, scratch);
    // A location that begins with its thread's first share has done nothing before: the fork alone decides when that was.
    const Lanes& lanes = engine.lanes();
    const int64_t asked = lanes.count > 0 ? thread.enter - thread.delay[lanes.all] : thread.enter;
    const int64_t at_once = lanes.bounded() ? thread.leave - thread.enter + thread.delay[lanes.low] : 0;  // delay of who need not wait
    const bool begins = std::exchange(thread.teams.begins, false) && !scratch.constraints.empty() && !engine.faults().own_start;
    int64_t last = begins ? scratch.constraints[0].time : thread.enter;
    for (const Constraint& constraint : scratch.constraints) last = std::max(last, constraint.time);
    const int64_t overhead = std::max<int64_t>(0, thread.leave - last - noise_after(thread.pieces, last));
    const Cost cost{.low = 0, .mid = overhead, .high = overhead, .known = true}, own = begins ? Cost() : cost;
    const bool shared = thread.kind == CallKind::thread_dynamic_barrier || engine.at_barrier_of_tasks(thread);
    if (shared && lanes.count > 0 && !engine.faults().iterations_stay) share_work(engine, thread, last, scratch);
    for (Constraint& constraint : scratch.constraints) constraint.cost = cost;
    if (begins) forget_own_delay(engine, thread);
    const Solved solved = solve(engine, {thread.enter, thread.leave, thread.delay, &thread.pieces, own, &thread, thread.enter_node, false},
                                scratch.constraints, thread.delay);
    thread.uncertainty.add(solved.spread);
    engine.leave_barrier(thread);
    if (thread.kind == CallKind::thread_join) engine.joined(thread);
    if (thread.kind == CallKind::thread_wait) count_unknown_waits(engine, thread, scratch);
    if (thread.kind == CallKind::thread_condition) engine.conditions_met(thread);
    if (thread.kind == CallKind::thread_lock && !engine.acquired(thread, asked) && !scratch.constraints.empty() &&
        !engine.faults().lock_order_kept) {
        engine.count(Flaw::lock_order);
        engine.leaves_open(Flaw::lock_order, thread.enter, thread.leave, thread.leave - thread.enter);
        if (lanes.bounded()) thread.delay[lanes.low] = std::max(thread.delay[lanes.low], at_once);
    }
    return solved.end;
}

}  // namespace polter::replay::rules
