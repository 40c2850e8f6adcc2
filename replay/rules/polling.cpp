// SPDX-License-Identifier: BSD-3-Clause
// Polling loops.
//
// In words: a loop of Tests or Iprobes that finds nothing is a wait in disguise. From its first failing poll to the one that succeeds
// it is one call: elastic until what it polls for has come, noise in it absorbed until then. That holds as long as the thread does
// nothing else; work between two polls (more than polling itself costs) is work, and the wait begins anew behind it. The bounds
// take both views: all of the loop elastic, all of it work. How often a program polls may change without the noise, so the
// result is conditional.
#include <algorithm>

#include "internal.hpp"

namespace polter::replay::rules {

namespace {

constexpr int64_t shortest_work_ns = 20'000;  // between two polls: below it nobody computes, only looks

bool polls(const Thread& thread) {
    return thread.kind == CallKind::poll || thread.kind == CallKind::poll_any || thread.kind == CallKind::poll_matched ||
           thread.kind == CallKind::part_arrived;
}

bool found_nothing(const Thread& thread) {
    return polls(thread) && std::all_of(thread.operations.begin(), thread.operations.end(),
                                        [](const Operation& o) { return o.kind == Operation::Kind::poll_failed; });
}

}  // namespace

void before_call(Engine& engine, Thread& thread) {
    Polling& polling = thread.polling;
    const bool failed = found_nothing(thread);
    if (polling.active) {
        const bool silent = (thread.kind == CallKind::local || thread.kind == CallKind::wait || thread.kind == CallKind::wait_any) &&
                            thread.operations.empty();  // MPI_Wtime and its like
        const int64_t gap = thread.enter - polling.last_leave - polling.noise_since;
        const bool worked = gap > std::max(shortest_work_ns, 4 * polling.last_length);
        if ((!polls(thread) && !silent) || worked) {
            polling.active = false;
            engine.leaves_open(Flaw::polling, polling.begin, thread.enter, thread.enter - polling.begin);
        }
    }
    if (failed && !polling.active) {
        polling.active = true;
        polling.begin = thread.enter;
        polling.pieces.clear();
        engine.copy(polling.delay, thread.delay);
        polling.node = thread.enter_node;
        engine.count(Flaw::polling);
    }
}

// Its end, where the call is part of a loop and ends it.
std::optional<CallEnd> conclude_polling(Engine& engine, Thread& thread, const Scratch& scratch) {
    Polling& polling = thread.polling;
    if (!polling.active) return std::nullopt;
    polling.pieces.insert(polling.pieces.end(), thread.pieces.begin(), thread.pieces.end());
    polling.last_leave = thread.leave;
    polling.noise_since = 0;
    if (polls(thread)) polling.last_length = thread.leave - thread.enter - noise_after(thread.pieces, thread.enter);
    if (!polls(thread) || found_nothing(thread)) return std::nullopt;
    polling.active = false;
    if (scratch.constraints.empty()) {  // it succeeded without anybody else
        engine.leaves_open(Flaw::polling, polling.begin, thread.leave, thread.leave - polling.begin);
        return std::nullopt;
    }
    const Lanes& lanes = engine.lanes();
    LaneVector elastic = engine.lane_pool().take();
    const Solved loop = solve(engine, {polling.begin, thread.leave, polling.delay, &polling.pieces, scratch.own, &thread, polling.node},
                              scratch.constraints, elastic);
    CallEnd end =
        solve(engine, {thread.enter, thread.leave, thread.delay, &thread.pieces, scratch.own}, scratch.constraints, thread.delay).end;
    thread.uncertainty.add(loop.spread);
    end.elastic = true;
    if (lanes.bounded()) {
        elastic[lanes.low] = std::max(elastic[lanes.low], thread.delay[lanes.low]);
        elastic[lanes.high] = std::min(elastic[lanes.high], thread.delay[lanes.high]);
    }
    // What was done between the polls is idle time in one view, and work in the other.
    engine.leaves_open(Flaw::polling, polling.begin, thread.leave, std::abs(elastic[lanes.all] - thread.delay[lanes.all]));
    engine.copy(thread.delay, elastic);
    return end;
}

}  // namespace polter::replay::rules
