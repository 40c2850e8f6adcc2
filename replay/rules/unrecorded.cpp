// SPDX-License-Identifier: BSD-3-Clause
// Calls that may wait for others in a way that the trace does not tell: functions that synchronise but have no records here (files,
// neighbourhoods, windows of foreign tracers, spawned processes), whatever may complete a request that has none, and what waits for
// somebody of whom the trace has lost it (rules/calls.cpp).
//
// In words: such a call counts as own work, and the result says so. The bounds hold what else it may have been. All of it may have
// been waiting for somebody whom noise delayed: so the least time has nothing of it, but nobody is late by more than all noise of
// all ranks. Or it may have waited for somebody whom no noise delayed: so the greatest time has its end where it was measured.
//
// What is done while one has a lock that others want too is like that, where others may have it first: but what such a call takes by
// itself is known. The least time has so much of it, and the greatest is that of a call which took as long as any ever did.
#include <algorithm>

#include "internal.hpp"

namespace polter::replay::rules {

namespace {

// Locks that nobody ever waited of wait for nobody; for whom the others wait, rules/rma/locks.cpp knows where it knows when they are
// given back.
bool waits_for_unlock(Engine& engine, const Thread& thread) {
    return std::any_of(thread.operations.begin(), thread.operations.end(), [&](const Operation& operation) {
        return operation.kind == Operation::Kind::rma_lock && of(engine).learned.exclusive_windows.contains(operation.comm) &&
               !(of(engine).locks && of(engine).locks->knows(thread, operation));
    });
}

}  // namespace

bool may_have_waited(Engine& engine, Thread& thread) {
    if (thread.rank < 0 || engine.processes().size() == 1) return false;  // nobody, or nobody else
    Process& process = engine.process(thread);
    const bool silent = thread.operations.empty();
    bool unrecorded = false;
    switch (thread.kind) {
        case CallKind::begins_unrecorded:
            process.unrecorded_requests += silent;
            break;
        case CallKind::begins_unrecorded_persistent:
            process.unrecorded_persistent =
                process.unrecorded_persistent || (silent && !engine.follows_requests());  // else its starts are recorded
            break;
        case CallKind::partitioned_init:
            process.unrecorded_persistent = process.unrecorded_persistent || !engine.follows_partitioned();
            break;
        case CallKind::part_arrived:  // which part is there is not known where it came before the whole
            unrecorded = engine.follows_partitioned() ? !silent && thread.operations[0].kind == Operation::Kind::probe : true;
            break;
        case CallKind::may_wait:
        case CallKind::file:
        case CallKind::file_begin:
        case CallKind::file_end:
        case CallKind::neighbourhood:
            unrecorded = silent;
            break;
        case CallKind::window:
        case CallKind::win_lock:
        case CallKind::win_unlock:
        case CallKind::win_flush:
        case CallKind::win_start:
        case CallKind::win_complete:
        case CallKind::win_wait:
            if (waits_for_unlock(engine, thread)) {
                engine.count_lock_call(thread);
                engine.leaves_open(Flaw::unrecorded_locks, thread.enter, thread.leave, thread.leave - thread.enter);
                return true;
            }
            // A tracer that follows windows has left it out because there was nobody to wait for.
            unrecorded = silent && !engine.defines_windows();
            break;
        case CallKind::wait:
        case CallKind::wait_any:
        case CallKind::poll:
        case CallKind::poll_any:
            unrecorded = process.unrecorded_persistent || process.unrecorded_requests > 0;
            // What had no record has completed here, if this completed anything; one at least.
            if (unrecorded && silent && (thread.kind == CallKind::wait || thread.kind == CallKind::wait_any) &&
                process.unrecorded_requests > 0)
                --process.unrecorded_requests;
            break;
        default:
            break;
    }
    if (unrecorded) {
        engine.count_unrecorded(thread);
        engine.leaves_open(Flaw::unrecorded_waits, thread.enter, thread.leave, thread.leave - thread.enter);
    }
    return unrecorded;
}

void widen_bounds(Engine& engine, const Thread& thread, int64_t delay_low_at_enter, const Cost& own) {
    const Lanes& lanes = engine.lanes();
    int64_t &low = thread.delay[lanes.low], &high = thread.delay[lanes.high];
    const int64_t elastic = delay_low_at_enter + std::max<int64_t>(0, thread.leave - thread.enter - own.low);
    low = std::max(low, std::min(elastic, std::max(delay_low_at_enter, engine.facts().most_delay)));
    if (thread.unrecorded) high = std::min<int64_t>(high, 0);
    const int64_t longer = std::max<int64_t>(0, own.high - (thread.leave - thread.enter));
    if (longer > 0) high = std::min(high, std::max(high - longer, -engine.facts().most_delay));
}

}  // namespace polter::replay::rules
