// SPDX-License-Identifier: BSD-3-Clause
// Sends.
//
// In words: an eager send (standard, ready, buffered) waits for nobody; all of it is own work. A synchronous send (by its mode, or a
// standard one above the size at which the trace shows that such sends wait) ends only once the receive has been posted: it depends
// on the posting. Noise inside the sending call may have hit before the message left or after; the receiver's measured end tells
// (receive.cpp).
#include <algorithm>

#include "internal.hpp"

namespace polter::replay::rules {

namespace {

bool waits_for_receiver(Engine& engine, const Operation& operation, bool same_host) {
    if (operation.mode == SendMode::buffered || engine.learning()) return false;
    return of(engine).scratch->costs.rendezvous(engine.model(), same_host, operation.partitioned > 0, operation.size);
}

// Whether the call waits, too, once its message is on its way.
bool also_waits(const Thread& thread, const Match& match, bool blocking) {
    if (blocking && match.synchronous) return true;
    if (thread.engine->faults().posting_waits) return match.synchronous || thread.operations.size() > 1;
    return std::any_of(thread.operations.begin(), thread.operations.end(), [](const Operation& operation) {
        using Kind = Operation::Kind;
        return operation.kind != Kind::send && operation.kind != Kind::isend && operation.kind != Kind::irecv_post;
    });
}

// The noise that may have hit before the message left: in a call that does nothing else, all of it; in one that also waits, only
// what hit at its beginning, before the waiting. With counters, all of it: where in the call it hit is not known.
void keep_send_noise(Engine& engine, const Thread& thread, Match& match, bool waits) {
    const Lanes& lanes = engine.lanes();
    match.send_noise_removed = engine.lane_pool().filled(0);
    Recorder* recorder = engine.recorder();
    if (recorder) {
        recorder->start();
        recorder->candidate(match.send_node, match.send_delay, 0);
    }
    for (const NoisePiece& piece : thread.pieces) {
        if (waits && !engine.facts().counter_only && piece.begin - thread.enter - match.send_noise > own_work_ns(match.size)) break;
        match.send_noise += piece.end - piece.begin;
        remove_noise(match.send_noise_removed, lanes.masks[piece.account].data(), piece.end - piece.begin, lanes.count);
        if (recorder) recorder->noise(thread.index, piece, thread.place(), piece.end - piece.begin);
    }
    if (recorder) {
        const size_t all = recorder->lane(1);
        match.departure_node = recorder->write(thread.index, thread.place(), match.send_time + match.send_noise,
                                               match.send_delay[all] + match.send_noise_removed[all], true);
    }
}

}  // namespace

void publish_send(Engine& engine, Thread& thread, const Operation& operation, bool blocking) {
    const int32_t to = engine.world_rank(thread, operation.comm, operation.peer);
    Thread* receiver = to == no_rank ? nullptr : engine.processes()[static_cast<size_t>(to)].thread;
    if (!receiver) {
        engine.count(Flaw::unmatched_message);
        return;
    }
    const bool same_host = receiver->host == thread.host;
    if (of(engine).farm_learning) of(engine).farm_learning->sent(thread, to);
    Match* match = engine.add_send(thread, *receiver, operation);
    if (of(engine).farms) of(engine).farms->answering(thread, *match, to);
    match->same_host = same_host;
    if (Links* links = of(engine).links.get(); links && !same_host && operation.partitioned == 0 && operation.size >= Links::least_bytes)
        match->transfer = links->number(thread);
    match->synchronous_mode = operation.mode == SendMode::synchronous || thread.kind == CallKind::synchronous_send;
    match->synchronous = match->synchronous_mode || waits_for_receiver(engine, operation, same_host);
    const bool waits = also_waits(thread, *match, blocking);
    if (!thread.pieces.empty()) keep_send_noise(engine, thread, *match, waits);
    apply_injected_departure(engine, thread, *match, waits ? own_work_ns(match->size) : INT64_MAX);
    const bool watch = engine.learning() && operation.mode == SendMode::standard && !match->synchronous;
    if (blocking && match->synchronous) {
        ++match->users;
        thread.dependencies.push_back({.kind = Dependency::Kind::posting, .release = true, .match = match});
    } else if (blocking && watch) {
        ++match->users;
        thread.watched.push_back(match);
    } else if (!blocking && (match->synchronous || watch)) {
        Request* request = engine.new_request(thread, operation.request, Request::Kind::send);
        request->match = match;
        ++match->users;
    }
    engine.send_is_complete(match);
}

void publish_send_complete(Engine& engine, Thread& thread, const Operation& operation) {
    ++thread.completions;
    Request* request = engine.take_request(thread, operation.request);
    if (!request) return;  // eager: nothing was kept
    if (Match* match = request->match) {
        if (match->synchronous)
            thread.dependencies.push_back({.kind = Dependency::Kind::posting, .release = true, .match = match});
        else
            thread.watched.push_back(match);
    }
    engine.give_back(request);
}

// The transfer begins when both sides have come. It is the network's: the sender's own work is what completing a request costs.
void constrain_posting(Engine& engine, Thread& thread, const Dependency& dependency, Scratch& scratch) {
    if (engine.learning()) return;
    const Match& match = *dependency.match;
    const SendCosts& costs = scratch.costs.send(engine.model(), message_class(CostKind::send_after_post, match));
    const int64_t shared = shared_ns(engine, match);
    const size_t from = scratch.constraints.size();
    if (match.of_farm)  // a worker's request stands where another's did, which its thread learns from the answer only
        own_at_least(scratch, costs.after_send);
    else
        add_message(engine, thread, match, costs.after_send, match.post_time + shared + costs.after_post.mid, scratch);
    add_posting(engine, thread, match, costs.after_post, match.send_time + shared + costs.after_send.mid, scratch);
    if (match.transfer > 0) share_links(engine, thread, match, scratch, from);
    own_at_least(scratch, thread.completions > 0 ? scratch.costs.completing(engine.model(), thread.completions) : costs.own);
}

}  // namespace polter::replay::rules
