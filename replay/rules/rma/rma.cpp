// SPDX-License-Identifier: BSD-3-Clause
// One-sided communication: what its synchronisation waits for.
//
// In words: a fence, and creating and freeing a window, is a collective on the window's communicator. A fence whose assertion says that it
// ends no epoch need not wait (its record lacks the level PROCESS): it waits only for members that arrived before its own measured leave.
// In general active-target synchronisation, a post is a notice to each origin, and a complete is one to each target. A wait, or a
// successful test, waits for the notices of all completes. Whether start or complete waits for the posts is the library's choice: each
// waits for the posts that came before its own measured leave. A complete's notices leave when its own wait state is over. A lock waits for
// unlocks of other ranks: rules/rma/locks.cpp. Puts, gets and accumulates are own work, unless they wait for their
// target (rules/rma/accesses.cpp); their bytes select the cost class of a notice. What was begun since the last fence goes with a rank's
// coming to the next one, which waits for it where its algorithm is known.
//
// A flush, an unlock, or a wait for transfers only, waits for transfers under way: at least the least time that so many bytes ever took
// without waiting for others. Noise is absorbed in that time; it counts by as much as the call exceeded it. Where the library moves the
// data itself and noise prolongs that, all of it counts.
//
// A program may send a message between a start and the post that this start did not wait for. So a start's dependency is soft: when no
// thread can continue, the earliest start continues without its notice.
#include <algorithm>
#include <utility>

#include "replay/rules/internal.hpp"

namespace polter::replay::rules {

namespace {

Channel* channel_of(Engine& engine, uint32_t window, Notice what, int32_t from, int32_t to) {
    return engine.channel(window_channels | window, from, to, static_cast<uint32_t>(what));
}

}  // namespace

// `node`: event graph, of `time` and `delay`.
void send_notice(Engine& engine, Thread& thread, const PendingNotice& notice, int64_t time, const int64_t* delay, uint64_t node) {
    Thread* receiver = notice.to == no_rank ? nullptr : engine.processes()[static_cast<size_t>(notice.to)].thread;
    if (!receiver) {
        engine.count(Flaw::unmatched_message);
        return;
    }
    Match* match = engine.add_send(thread, *receiver,
                                   {.kind = Operation::Kind::send,
                                    .comm = window_channels | notice.window,
                                    .tag = static_cast<uint32_t>(notice.what),
                                    .size = notice.bytes});
    match->same_host = receiver->host == thread.host;
    match->send_time = time;
    match->send_node = node;
    match->place = notice.place;
    engine.copy(match->send_delay, delay);
    if (notice.epoch && !engine.learning()) match->queue = queue_behind(engine, *notice.epoch, time, delay);
    const Lanes& lanes = engine.lanes();
    match->send_noise_removed = engine.lane_pool().filled(0);
    Recorder* recorder = engine.recorder();
    if (recorder) {
        recorder->start();
        recorder->candidate(node, delay, 0);
    }
    for (const NoisePiece& piece : thread.pieces) {  // it may have hit before the notice left
        const int64_t n = piece.end - std::max(piece.begin, time);
        if (n <= 0) continue;
        match->send_noise += n;
        remove_noise(match->send_noise_removed, lanes.masks[piece.account].data(), n, lanes.count);
        if (recorder) recorder->noise(thread.index, piece, thread.place(), n);
    }
    if (recorder && match->send_noise > 0)
        match->departure_node = recorder->write(thread.index, thread.place(), time + match->send_noise,
                                                delay[recorder->lane(1)] + match->send_noise_removed[recorder->lane(1)], true);
    engine.send_is_complete(match);
}

Match* ask_for_notice(Engine& engine, Thread& thread, uint32_t window, Notice what, int32_t from) {
    return engine.add_receive(channel_of(engine, window, what, from, thread.rank), thread, thread.enter, thread.delay, thread.enter_node);
}

namespace {

uint64_t exchanged_key(uint32_t window, int32_t target) {
    return static_cast<uint64_t>(window) << 32 | static_cast<uint32_t>(target);
}

uint64_t exchanged(Process& process, uint32_t window, int32_t target, bool forget) {
    const auto found = process.exchanged.find(exchanged_key(window, target));
    if (found == process.exchanged.end()) return 0;
    const uint64_t bytes = found->second;
    if (forget) process.exchanged.erase(found);
    return bytes;
}

void notify(Engine& engine, Thread& thread, uint32_t window, int32_t to) {
    if (thread.kind == CallKind::win_post)
        send_notice(engine, thread, {window, to, Notice::post, 0}, thread.enter, thread.delay, thread.enter_node);
    else
        thread.notices.push_back({window, to, Notice::completion, exchanged(engine.process(thread), window, to, true)});
}

void await(Engine& engine, Thread& thread, uint32_t window, int32_t from) {
    const bool exposed = thread.kind == CallKind::win_wait || thread.kind == CallKind::poll;
    const Notice what = exposed ? Notice::completion : Notice::post;
    const bool start = thread.kind == CallKind::win_start;
    auto& opened = engine.process(thread).opened;
    const ChannelKey key{window_channels | window, static_cast<uint32_t>(from), static_cast<uint32_t>(thread.rank),
                         static_cast<uint32_t>(what)};
    Match* match = nullptr;
    const auto known = std::find_if(opened.begin(), opened.end(), [&](const auto& open) { return open.first == key; });
    if (what == Notice::post && !start && known != opened.end()) {  // the notice that the start has asked for
        match = known->second;
        opened.erase(known);
    } else {
        match = ask_for_notice(engine, thread, window, what, from);
    }
    if (start) opened.emplace_back(key, match);
    thread.dependencies.push_back({.kind = Dependency::Kind::message,
                                   .release = !start,
                                   .notice = true,
                                   .soft = start && !engine.faults().hard_start,
                                   .match = match});
}

constexpr size_t most_begun = 256;  // by a rank between two calls that complete those of a window; of more none is followed

// It is under way from the call's end on.
void begin_transfer(Engine& engine, Thread& thread, uint32_t window, const Operation& operation) {
    std::vector<BegunTransfer>& begun = engine.process(thread).begun[window];
    if (!thread.carries_rank || engine.faults().no_transfers || begun.size() >= most_begun) return;
    BegunTransfer transfer{.target = operation.peer,
                           .comes = operation.whole > operation.part,
                           .bytes = operation.size,
                           .begin = thread.leave,
                           .delay = engine.lane_pool().copy(thread.delay),
                           .node = thread.enter_node};
    Recorder* recorder = engine.recorder();
    int64_t noise = 0;
    if (recorder) {
        recorder->start();
        recorder->candidate(thread.enter_node, thread.delay, 0);
    }
    for (const NoisePiece& piece : thread.pieces) {
        const int64_t n = piece.end - std::max(piece.begin, thread.enter);
        if (n <= 0) continue;
        noise += n;
        remove_noise(transfer.delay, engine.lanes().masks[piece.account].data(), n, engine.lanes().count);
        if (recorder) recorder->noise(thread.index, piece, thread.place(), n);
    }
    if (recorder && noise > 0)
        transfer.node = recorder->write(thread.index, thread.place(), thread.leave, transfer.delay[recorder->lane(1)], true);
    begun.push_back(std::move(transfer));
}

void synchronise(Engine& engine, Thread& thread, const Operation& operation) {
    uint32_t member = 0;
    const bool all = operation.synchronises;
    uint8_t what = operation.collective;
    if (what == OTF2_COLLECTIVE_OP_CREATE_HANDLE) what = operation_window;
    if (what == OTF2_COLLECTIVE_OP_DESTROY_HANDLE) what = operation_window_free;
    if (what == OTF2_COLLECTIVE_OP_BARRIER) what = all ? operation_fence : operation_fence_apart;
    std::erase_if(engine.process(thread).exchanged, [&](const auto& data) { return data.first >> 32 == operation.comm; });
    std::vector<BegunTransfer> begun = std::exchange(engine.process(thread).begun[operation.comm], {});
    if (begun.size() == most_begun) begun.clear();
    Collective* collective = engine.arrive(thread,
                                           {.comm = engine.window_communicator(operation.comm),
                                            .operation = what,
                                            .enter = thread.enter,
                                            .leave = thread.leave,
                                            .delay = thread.delay,
                                            .pieces = &thread.pieces,
                                            .window = operation.comm,
                                            .transfers = what == operation_fence ? &begun : nullptr,
                                            .node = thread.enter_node},
                                           &member);
    if (collective) thread.dependencies.push_back({.kind = Dependency::Kind::collective, .collective = collective, .member = member});
}

// A post that came after the call's end was not what it waited for. A wait always waits for the notices of all completes.
bool waited_for(const Thread& thread, const Match& match) {
    if (!match.sent) return false;
    return match.send_time <= thread.leave || match.tag == static_cast<uint32_t>(Notice::completion);
}

// Notes the target and the bytes that the call accesses or completes.
void reach(Engine& engine, Thread& thread, uint32_t window, uint32_t target, uint64_t bytes) {
    thread.reached.bytes += bytes;
    const int32_t rank = target == every_target ? no_rank : engine.world_rank(thread, engine.window_communicator(window), target);
    const Thread* there = rank == no_rank ? nullptr : engine.processes()[static_cast<size_t>(rank)].thread;
    if (there && there->host != thread.host) thread.reached.same_host = false;
}

// True for a call that completes transfers and waits for nothing else.
bool completes_transfers(const Thread& thread) {
    const auto is_transfer = [](const Operation& operation) { return operation.kind == Operation::Kind::rma_request_complete; };
    if (thread.kind == CallKind::wait)
        return !thread.operations.empty() && std::all_of(thread.operations.begin(), thread.operations.end(), is_transfer);
    return thread.kind == CallKind::win_flush || thread.kind == CallKind::win_unlock;
}

bool waits_for_transfers(const Thread& thread) {
    return thread.kind != CallKind::win_complete && std::any_of(thread.dependencies.begin(), thread.dependencies.end(),
                                                                [](const Dependency& of) { return of.access && of.access->incoming; });
}

CostClass after_notice(const Thread& thread, const Dependency& dependency) {
    const uint64_t size = dependency.lock ? thread.reached.bytes : dependency.match->size;
    return {CostKind::notice_after, dependency.match->same_host, false, static_cast<uint16_t>(thread.kind), size};
}

CostClass own_of(const Thread& thread, const Dependency& dependency) {
    if (dependency.lock) return own_of_epoch(thread);
    return {CostKind::notice_own, true, false, static_cast<uint16_t>(thread.kind), thread.dependencies.size()};
}

}  // namespace

CostClass own_of_epoch(const Thread& thread) {
    return {CostKind::epoch_own, thread.reached.same_host, false, static_cast<uint16_t>(thread.kind), thread.reached.bytes};
}

void publish_rma(Engine& engine, Thread& thread, const Operation& operation) {
    const uint32_t window = operation.comm;
    if (engine.window_communicator(window) == UINT32_MAX || window >= window_channels) {
        engine.count(Flaw::unknown_communicator);
        return;
    }
    const auto each = [&](auto&& act) {
        if (operation.kind != Operation::Kind::rma_group)
            return act(engine.world_rank(thread, engine.window_communicator(window), operation.peer));
        for (const int32_t rank : engine.group(operation.peer)) act(rank);
    };
    auto& transfers = engine.process(thread).transfers;
    const bool starts = thread.kind == CallKind::win_post, completes = thread.kind == CallKind::win_complete;
    AccessLearning* learned = thread.carries_rank ? of(engine).access_learning.get() : nullptr;  // further threads come in any order
    Accesses* accesses = thread.carries_rank ? of(engine).accesses.get() : nullptr;
    if (completes && &operation == thread.operations.data()) {
        engine.process(thread).begun[window].clear();
        if (learned) learned->completed(thread, window);
        if (accesses) accesses->completing(engine, thread, window);
    }
    const bool waits = (operation.kind == Operation::Kind::rma_in || operation.kind == Operation::Kind::rma_group) &&
                       (thread.kind == CallKind::win_wait || thread.kind == CallKind::poll);
    if (waits && &operation == thread.operations.data()) {
        if (learned) learned->waited(thread, window);
        if (accesses) accesses->waiting(engine, thread, window);
    }
    if (starts && learned && &operation == thread.operations.data()) learned->posted(thread, window);
    switch (operation.kind) {
        case Operation::Kind::rma_collective:
            synchronise(engine, thread, operation);
            break;
        case Operation::Kind::rma_out:
            each([&](int32_t rank) { notify(engine, thread, window, rank); });
            break;
        case Operation::Kind::rma_in:
            each([&](int32_t rank) {
                if (rank != no_rank) await(engine, thread, window, rank);
            });
            break;
        case Operation::Kind::rma_group:  // group-sync: the call that it lies in says what it means
            if (!starts)
                each([&](int32_t rank) {
                    if (rank != no_rank) await(engine, thread, window, rank);
                });
            if (starts || completes) each([&](int32_t rank) { notify(engine, thread, window, rank); });
            break;
        case Operation::Kind::rma_data:
            each([&](int32_t rank) { engine.process(thread).exchanged[exchanged_key(window, rank)] += operation.size; });
            reach(engine, thread, window, operation.peer, operation.size);
            transfers[operation.request].target = operation.peer;
            transfers[operation.request].bytes += operation.size;
            if (of(engine).locks) of(engine).locks->data(thread, operation);
            begin_transfer(engine, thread, window, operation);
            if (learned) each([&](int32_t rank) { learned->accessed(thread, window, rank, operation.size); });
            if (accesses) accesses->accessed(engine, thread, window);
            break;
        case Operation::Kind::rma_request_complete:
            ++thread.completions;
            [[fallthrough]];
        case Operation::Kind::rma_complete: {
            const auto found = transfers.find(operation.request);
            if (found == transfers.end()) break;
            Operation complete = operation;  // with the target of the transfer
            complete.peer = found->second.target;
            reach(engine, thread, window, found->second.target, found->second.bytes);
            transfers.erase(found);
            if (of(engine).locks) of(engine).locks->data(thread, complete);
            break;
        }
        case Operation::Kind::rma_lock:
            if (engine.learning() && operation.synchronises) of(engine).learned.exclusive_windows.insert(window);
            if (of(engine).lock_learning) of(engine).lock_learning->requested(thread, window, operation.peer, operation.synchronises);
            reach(engine, thread, window, operation.peer, 0);
            if (of(engine).locks) of(engine).locks->lock(thread, operation);
            break;
        case Operation::Kind::rma_unlock:
            engine.process(thread).begun[window].clear();
            if (of(engine).lock_learning) of(engine).lock_learning->released(thread, window, operation.peer);
            reach(engine, thread, window, operation.peer, 0);
            if (of(engine).locks) of(engine).locks->unlock(thread, operation);
            break;
        default:
            break;
    }
}

void learn_notices(Engine& engine, const Thread& thread) {
    const Dependency* latest = nullptr;
    if (AccessLearning* learned = of(engine).access_learning.get(); learned && thread.carries_rank) learned->awaited(thread);
    if (!thread.watched.empty()) return;
    for (const Dependency& dependency : thread.dependencies) {
        if (!dependency.notice) return;  // it waited for other dependencies too
        if (dependency.match && waited_for(thread, *dependency.match) &&
            (!latest || dependency.match->send_time > latest->match->send_time))
            latest = &dependency;
    }
    if (!latest || latest->match->send_noise > 0) return;
    const Match* last = latest->match;
    const int64_t begin = std::max(thread.enter, last->send_time), took = thread.leave - begin;
    const int64_t noise = noise_after(thread.pieces, begin);
    engine.model().clock_disorder_ns = std::max(engine.model().clock_disorder_ns, last->send_time - thread.leave);
    if (took < 0) return;
    if (last->send_time >= thread.enter)
        learn_waited(engine, after_notice(thread, *latest), took, noise, Model::clean);
    else
        learn_waited(engine, own_of(thread, *latest), took, noise, thread.enter - last->send_time);
}

void constrain_notice(Engine& engine, Thread& thread, const Dependency& dependency, Scratch& scratch) {
    const Match& match = *dependency.match;
    if (engine.learning() || !waited_for(thread, match) || engine.faults().no_notices) return;
    Cost after = engine.model().cost(after_notice(thread, dependency)), own = engine.model().cost(own_of(thread, dependency));
    // Some locks that seem not to have waited did wait: only the least cost is certainly without a wait.
    if (dependency.lock) own.mid = own.low;
    // Longer ones waited for transfers, which are dependencies of their own.
    if (waits_for_transfers(thread)) after.mid = after.usual_low();
    if (!after.known) after = {0, own.mid, own.high, false};
    if (!own.known) own = {0, after.mid, after.high, false};
    add_message(engine, thread, match, after, thread.enter, scratch);
    if (dependency.lock) queue_for_lock(engine, dependency, scratch);
    scratch.own = {std::max(scratch.own.low, own.low), std::max(scratch.own.mid, own.mid), std::max(scratch.own.high, own.high)};
}

void learn_epoch(Engine& engine, const Thread& thread) {
    if ((thread.kind != CallKind::win_lock && !completes_transfers(thread)) || !thread.dependencies.empty()) return;
    const int64_t noise = noise_after(thread.pieces, thread.enter);
    engine.model().learn(own_of_epoch(thread), thread.leave - thread.enter - noise, noise > 0 ? 0 : Model::clean);
}

Cost by_itself(Engine& engine, const Thread& thread) {
    if (thread.kind != CallKind::win_lock && !completes_transfers(thread)) return {};
    return engine.model().cost(own_of_epoch(thread));
}

void constrain_transfers(Engine& engine, Thread& thread, Scratch& scratch) {
    if (engine.learning() || !completes_transfers(thread)) return;
    Cost own = engine.model().cost(own_of_epoch(thread));
    // A call shorter than that has the cost from messages of other sizes: it does not apply.
    if (!own.known || own.low > thread.leave - thread.enter || engine.faults().transfers_are_work) return;
    own.mid = own.low;
    scratch.own = own;
    scratch.elastic = true;
}

void send_notices(Engine& engine, Thread& thread, const std::vector<Constraint>& waited) {
    if (thread.notices.empty() && !thread.releasing) return;
    const size_t lanes = engine.lanes().count;
    int64_t time = thread.enter;
    LaneVector approximated = engine.lane_pool().take();
    for (size_t i = 0; i < lanes; ++i) approximated[i] = thread.enter - thread.delay[i];
    for (const Constraint& constraint : waited) {
        time = std::max(time, constraint.time);
        for (size_t i = 0; i < lanes; ++i) approximated[i] = std::max(approximated[i], constraint.time - constraint.delay[i]);
    }
    if (LockEpochState* epoch = std::exchange(thread.releasing, nullptr)) {
        LockTurns& turns = *of(engine).locks->turns();
        turns.release(*epoch, approximated[turns.lane()]);
    }
    for (size_t i = 0; i < lanes; ++i) approximated[i] = time - approximated[i];  // the delay from here on
    uint64_t node = EventGraph::none;
    if (Recorder* recorder = engine.recorder()) {
        recorder->start();
        recorder->candidate(thread.enter_node, thread.delay, time - thread.enter);
        for (const Constraint& constraint : waited) recorder->candidate(constraint.node, constraint.delay, time - constraint.time);
        node = recorder->write(thread.index, thread.place(), time, approximated[recorder->lane(1)], true);
    }
    if (AccessLearning* learned = of(engine).access_learning.get(); learned && thread.kind == CallKind::win_complete && thread.carries_rank)
        learned->told(thread);
    uint8_t place = 0;
    for (PendingNotice& notice : thread.notices) {
        notice.place = place = static_cast<uint8_t>(std::min(place + 1, 255));
        send_notice(engine, thread, notice, time, approximated, node);
    }
    thread.notices.clear();
}

}  // namespace polter::replay::rules
