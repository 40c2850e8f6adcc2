// SPDX-License-Identifier: BSD-3-Clause
// Calls as a whole: from their records to what they depend on, and to their end.
//
// In words: a Wait or a successful Test depends on all that it completed (of any and some forms, on what they completed, no more): a
// receive on its message and on its own posting, a synchronous send on its receiver, a non-blocking collective on the members.
// It ends when the last of them has. A Sendrecv is its send and its receive in one call.
#include <algorithm>

#include "internal.hpp"

namespace polter::replay::rules {

namespace {

void publish_operations(Engine& engine, Thread& thread) {
    for (const Operation& operation : thread.operations) {
        switch (operation.kind) {
            case Operation::Kind::send:
                publish_send(engine, thread, operation, true);
                break;
            case Operation::Kind::isend:
                publish_send(engine, thread, operation, false);
                break;
            case Operation::Kind::isend_complete:
                publish_send_complete(engine, thread, operation);
                break;
            case Operation::Kind::irecv_post:
                publish_posting(engine, thread, operation);
                break;
            case Operation::Kind::receive:
                publish_receive(engine, thread, operation);
                break;
            case Operation::Kind::irecv_complete:
                publish_receive_complete(engine, thread, operation);
                break;
            case Operation::Kind::cancelled:
                publish_cancelled(engine, thread, operation);
                break;
            case Operation::Kind::probe:
                publish_probe(engine, thread, operation);
                break;
            case Operation::Kind::collective:
                publish_collective(engine, thread, operation);
                break;
            case Operation::Kind::collective_request:
                publish_collective_request(engine, thread, operation);
                break;
            case Operation::Kind::collective_complete:
                publish_collective_complete(engine, thread, operation);
                break;
            case Operation::Kind::poll_failed:
                break;
            case Operation::Kind::rma_collective:
            case Operation::Kind::rma_out:
            case Operation::Kind::rma_in:
            case Operation::Kind::rma_group:
            case Operation::Kind::rma_data:
            case Operation::Kind::rma_lock:
            case Operation::Kind::rma_unlock:
            case Operation::Kind::rma_complete:
            case Operation::Kind::rma_request_complete:
                publish_rma(engine, thread, operation);
                break;
            case Operation::Kind::neighbours:
                publish_neighbours(engine, thread, operation);
                break;
        }
    }
}

}  // namespace

void publish(Engine& engine, Thread& thread) {
    if (of_threads(thread.kind)) return publish_of_threads(engine, thread);
    follow_unrecorded_requests(engine, thread);
    before_call(engine, thread);
    thread.unrecorded = may_have_waited(engine, thread);
    thread.granted_after_wait = false;
    thread.reached = {};
    if (thread.kind == CallKind::collective && thread.operations.empty()) {
        engine.count(Flaw::collective_without_record);
        engine.leaves_open(Flaw::collective_without_record, thread.enter, thread.leave, thread.leave - thread.enter);
        thread.unrecorded = true;
    }
    publish_operations(engine, thread);
    if (of(engine).farm_learning) of(engine).farm_learning->called(thread);
    if (thread.kind == CallKind::init) {
        thread.init_ns += thread.leave - thread.enter;
        publish_start_or_end(engine, thread, operation_init);
    } else if (thread.kind == CallKind::finalize) {
        thread.finalize_ns += thread.leave - thread.enter;
        publish_start_or_end(engine, thread, operation_finalize);
    }
}

void publish_unfinished(Engine& engine, Thread& thread) {
    publish_operations(engine, thread);
    send_notices(engine, thread, {});
    thread.dependencies.clear();  // the end of the trace waits for nobody
    thread.watched.clear();
    for (const NoisePiece& piece : thread.pieces)
        remove_noise(thread.delay, engine.lanes().masks[piece.account].data(), piece.end - piece.begin, engine.lanes().count);
}

void publish_collective_request(Engine& engine, Thread& thread, const Operation& operation) {
    if (operation.collective == operation_neighbours) return publish_neighbour_request(engine, thread, operation);
    Request* request = engine.new_request(thread, operation.request, Request::Kind::collective);
    request->post_time = thread.enter;
    request->post_node = thread.enter_node;
    if (operation.posted_known)
        request->collective = engine.arrive(thread,
                                            {.comm = operation.comm,
                                             .operation = operation.collective,
                                             .nonblocking = true,
                                             .enter = thread.enter,
                                             .leave = thread.leave,
                                             .delay = thread.delay,
                                             .pieces = &thread.pieces,
                                             .node = thread.enter_node},
                                            &request->member);
    else
        request->post_delay = engine.lane_pool().copy(thread.delay);
    request->arrived = operation.posted_known;
}

void publish_collective_complete(Engine& engine, Thread& thread, const Operation& operation) {
    if (operation.collective == operation_neighbours) return publish_neighbour_complete(engine, thread, operation);
    ++thread.completions;
    Request* request = engine.find_request(thread, operation.request);
    if (!request || request->kind != Request::Kind::collective) {
        engine.count(Flaw::unknown_request);
        return;
    }
    if (!request->arrived)  // the communicator is known only now
        request->collective = engine.arrive(thread,
                                            {.comm = operation.comm,
                                             .nonblocking = true,
                                             .enter = request->post_time,
                                             .leave = thread.leave,
                                             .delay = request->post_delay,
                                             .node = request->post_node},
                                            &request->member);
    if (Collective* collective = request->collective) {
        const auto completes = [](const Operation& o) {
            return o.kind == Operation::Kind::isend_complete || o.kind == Operation::Kind::irecv_complete ||
                   o.kind == Operation::Kind::collective_complete;
        };
        const bool alone = std::count_if(thread.operations.begin(), thread.operations.end(), completes) == 1;
        engine.resume(*collective, request->member, thread, operation.collective, operation.peer, operation.size, alone);
        find_held(engine, thread, *collective, request->member);
        thread.dependencies.push_back(
            {.kind = Dependency::Kind::collective, .own_posting = true, .collective = collective, .member = request->member});
    }
    engine.drop_request(thread, operation.request);
}

namespace {

// A call that only does its own work, without any noise: most sends, and most that post receives.
bool undisturbed(const Engine& engine, const Thread& thread) {
    return thread.kind == CallKind::local && thread.dependencies.empty() && thread.pieces.empty() && thread.notices.empty() &&
           !thread.releasing && !thread.polling.active && !of(engine).program && !engine.recording();
}

CallEnd conclude_undisturbed(Engine& engine, Thread& thread) {
    const Lanes& lanes = engine.lanes();
    if (lanes.count > 0)
        return {.tail = thread.leave - thread.enter,
                .waited_until = thread.enter,
                .approximated_until = thread.enter - thread.delay[lanes.all]};
    if (engine.learning()) learn_completion(engine, thread);
    for (Match* match : thread.watched) engine.release(match);
    thread.watched.clear();
    return {};
}

CallEnd conclude_call(Engine& engine, Thread& thread) {
    auto& dependencies = thread.dependencies;
    if (undisturbed(engine, thread)) return conclude_undisturbed(engine, thread);
    if (dependencies.size() == 1 && dependencies[0].kind == Dependency::Kind::collective && dependencies[0].collective &&
        (!dependencies[0].own_posting || follows_structure(*dependencies[0].collective, dependencies[0].member))) {
        return conclude_collective(engine, thread, dependencies[0]);
    }
    Scratch& scratch = *of(engine).scratch;
    scratch.constraints.clear();
    scratch.vectors.clear();
    scratch.own = {};
    scratch.entered.reset();
    scratch.elastic = false;
    if (engine.learning()) learn_completion(engine, thread);
    if (engine.learning()) learn_notices(engine, thread);
    if (engine.learning()) learn_epoch(engine, thread);
    for (const Dependency& dependency : dependencies) engine.rule(dependency).constrain(engine, thread, dependency, scratch);
    const int64_t idle = idle_by_order(engine, thread);
    send_notices(engine, thread, scratch.constraints);
    constrain_incoming(engine, thread, scratch);
    constrain_transfers(engine, thread, scratch);
    const std::optional<CallEnd> polled = conclude_polling(engine, thread, scratch);
    const int64_t* entered = scratch.entered.get() ? scratch.entered.get() : thread.delay;
    const Solved solved =
        polled
            ? Solved{0, *polled}
            : solve(engine, {thread.enter, thread.leave, entered, &thread.pieces, scratch.own, &thread, thread.enter_node, scratch.elastic},
                    scratch.constraints, thread.delay);
    if (solved.spread != 0) thread.uncertainty.add(solved.spread);
    allow_other_order(engine, thread, idle);
    if (of(engine).program) of(engine).program->waited(engine, thread, scratch, solved.end);
    scratch.vectors.clear();
    for (const Dependency& dependency : dependencies)
        if (dependency.release && dependency.match) engine.release(dependency.match);
    for (Match* match : thread.watched) engine.release(match);
    thread.watched.clear();
    return solved.end;
}

}  // namespace

CallEnd conclude(Engine& engine, Thread& thread) {
    if (of(engine).program) of(engine).program->concluding(engine, thread);
    if (of(engine).farms && !of_threads(thread.kind)) go_on_elsewhere(engine, thread);
    const bool in_order = thread.granted_after_wait && !engine.faults().same_in_every_order;
    const bool widens =
        (thread.unrecorded || in_order) && !of_threads(thread.kind) && engine.lanes().bounded() && !engine.faults().trust_unrecorded;
    const int64_t low_at_enter = widens ? thread.delay[engine.lanes().low] : 0;
    const bool injected = engine.injection() && thread.carries_rank;
    const LaneVector entered = injected ? engine.lane_pool().copy(thread.delay) : LaneVector();
    const CallEnd end = of_threads(thread.kind) ? conclude_of_threads(engine, thread) : conclude_call(engine, thread);
    if (injected) apply_injected(engine, thread, end, entered);
    if (widens) widen_bounds(engine, thread, low_at_enter, thread.unrecorded ? Cost() : by_itself(engine, thread));
    if (of(engine).accesses && thread.carries_rank && thread.kind == CallKind::win_complete) of(engine).accesses->completed(engine, thread);
    if (of(engine).program) of(engine).program->ended(engine, thread);
    return end;
}

}  // namespace polter::replay::rules
