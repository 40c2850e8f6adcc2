// SPDX-License-Identifier: BSD-3-Clause
// Collectives.
//
// Rule: in an N-to-N collective nobody leaves before the last arrival, `m`; from there each member has its completion overhead. 1-to-N
// (bcast, scatter): the others wait for the root. N-to-1 (reduce, gather): the root waits for the others. Scan: everybody waits for the
// lower ranks. Where a member may contribute nothing (v-forms, freeing, finalize), only arrivals before one's own measured leave count.
// A member that only sends, and took clearly longer than such calls do, waited for a receiver: the last arrival before its own leave.
//
// A collective is made of messages, so noise that hits one member after m delays the others. By how much a member's completion overhead
// exceeds the noise-free one is due to noise after m and before its leave, up to the length U of the union of that noise: the overhead
// shrinks by min(excess, U − U of what is not removed) (noise_union.cpp). Only in the lower bound it shrinks by the member's own removed
// noise at least: a member waits for messages in there, and noise that lies in such a wait costs nothing. Where the algorithm is known, its
// messages tell more (by_messages.cpp).
#include "collective.hpp"

#include <otf2/otf2.h>

#include <algorithm>

namespace polter::replay::rules {

namespace {

// The last coming of those members that count, as one event: `enter`, and `arrival` in lanes.
template <class Counts>
uint64_t last_coming(Recorder* recorder, const Collective& c, const Thread& thread, int64_t enter, const int64_t* arrival, Counts counts) {
    if (!recorder) return EventGraph::none;
    recorder->start();
    for (uint32_t member = 0; member < c.members.size(); ++member) {
        if (!c.members[member].thread || !counts(c.members[member])) continue;
        const int64_t* came = &c.watched[member * recorder->watched()];
        recorder->candidate_at(c.members[member].node, [&](size_t watched) { return enter - came[watched]; });
    }
    return recorder->write(GraphNode::no_thread, thread.place(), enter, enter - arrival[recorder->lane(1)]);
}

void fold_node(Recorder& recorder, const Collective& c, const Collective::Member& before, Collective::Member& next, uint32_t member) {
    const int64_t enter = std::max(next.latest, before.latest);
    const int64_t* came = &c.watched[member * recorder.watched()];
    recorder.start();
    recorder.candidate_by(before.fold_node, [&](size_t lane) { return enter - before.arrival[lane]; });
    recorder.candidate_at(next.node, [&](size_t watched) { return enter - came[watched]; });
    const size_t all = recorder.lane(1);
    next.fold_node = recorder.write(GraphNode::no_thread, next.place, enter, enter - std::max(next.arrival[all], before.arrival[all]));
}

void fold_lower(Engine& engine, Collective& c, uint32_t member) {
    for (; c.folded < member; ++c.folded) {
        const Collective::Member& before = c.members[c.folded];
        Collective::Member& next = c.members[c.folded + 1];
        if (!before.arrival || !next.arrival) continue;
        if (Recorder* recorder = engine.recorder()) fold_node(*recorder, c, before, next, c.folded + 1);
        next.latest = std::max(next.latest, before.latest);
        raise_to(next.arrival, before.arrival, engine.lanes().count);
    }
}

// Of those members that count and have come.
template <class Counts>
Last last_of_those(Engine& engine, const Collective& c, const Thread& thread, Counts counts) {
    Last last{false, INT64_MIN / 4, nullptr, engine.lane_pool().filled(INT64_MIN / 4)};
    for (const Collective::Member& other : c.members) {
        if (!other.thread || !counts(other)) continue;
        last.any = true;
        last.enter = std::max(last.enter, other.enter);
        raise_to(last.partial, other.arrival, engine.lanes().count);
    }
    if (!last.any) return {};
    last.arrival = last.partial;
    last.node = last_coming(engine.recorder(), c, thread, last.enter, last.arrival, counts);
    return last;
}

// Of those that came before this member left.
Last last_before_leave(Engine& engine, const Collective& c, const Thread& thread) {
    return last_of_those(engine, c, thread, [&](const Collective::Member& other) { return other.enter <= thread.leave; });
}

// The root of a broadcast, or any other member of a reduction: by what the operation computes it waits for nobody.
bool only_sends(const Collective& c, uint32_t member) {
    return c.waits == Waits::one_to_n ? member == c.root : c.waits == Waits::n_to_one && member != c.root;
}

// What a root of a non-blocking gather or reduction waits for: the messages of the others. Its own part is there when it posts.
Last last_of_others(Engine& engine, const Collective& c, uint32_t member, const Thread& thread) {
    return last_of_those(engine, c, thread, [&](const Collective::Member& other) { return &other != &c.members[member]; });
}

CostClass sending_class(const Collective& c, uint32_t member) {
    return cost_class(c, CostKind::collective_send, member);
}

}  // namespace

// A member that only sends waits for nobody, unless its messages wait for their receivers: a call that took clearly longer than the
// shortest of its kind, and not by its own noise, did.
void find_held(Engine& engine, const Thread& thread, Collective& c, uint32_t member) {
    constexpr int64_t little_ns = 1000;
    if (engine.learning() || c.instance.active() || !only_sends(c, member) || engine.faults().senders_never_wait) return;
    const Cost own = engine.model().cost(sending_class(c, member));
    const int64_t took = thread.leave - thread.enter - noise_after(thread.pieces, thread.enter);
    c.members[member].held = own.known && took > 2 * own.low + little_ns;
}

namespace {

void learn_sending(Engine& engine, const Thread& thread, const Collective& c, uint32_t member) {
    const int64_t took = thread.leave - thread.enter;
    engine.model().learn_between(sending_class(c, member), took - noise_after(thread.pieces, thread.enter), took);
}

// Of a member that waited for a receiver: what such a call usually costs, and what it took from that receiver's arrival on.
Cost own_of_sender(Engine& engine, const Collective& c, uint32_t member) {
    const Cost own = engine.model().cost(sending_class(c, member));
    return {own.low, own.mid, own.mid, true};
}
Cost after_receiver(const Thread& thread, const Last& last, const Cost& own) {
    const int64_t took = std::max<int64_t>(0, thread.leave - last.enter);
    const int64_t without = std::max<int64_t>(0, took - noise_after(thread.pieces, std::max(last.enter, thread.enter)));
    return {0, std::clamp(own.mid, without, took), took, true};  // noise counts by how much longer than usual it took
}

Last last_of(Engine& engine, Collective& c, uint32_t member, const Thread& thread) {
    const int64_t leave = thread.leave;
    const bool root = member == c.root;
    switch (c.waits) {
        case Waits::for_nobody:
            return {};
        case Waits::one_to_n:
            if (root && c.members[member].held) return last_before_leave(engine, c, thread);
            if (root || !c.root_came) return {};
            if (c.nonblocking) return {true, c.members[c.root].enter, c.members[c.root].arrival, {}, c.members[c.root].node};
            return {true, c.last_enter, c.last_arrival, {}, c.members[c.root].node};
        case Waits::n_to_one:
            if (!root && c.members[member].held) return last_before_leave(engine, c, thread);
            if (!root) return {};
            if (c.nonblocking && c.members.size() > 1 && !engine.faults().root_awaits_itself)
                return last_of_others(engine, c, member, thread);
            break;
        case Waits::prefix:
            fold_lower(engine, c, member);
            return {true, c.members[member].latest, c.members[member].arrival, {}, c.members[member].fold_node};
        case Waits::n_to_n_likely:
            if (c.last_enter <= leave || engine.faults().wait_for_late) break;
            return last_before_leave(engine, c, thread);
        case Waits::n_to_n:
            break;
    }
    const bool whole = c.arrived == c.members.size();
    const auto everybody = [](const Collective::Member&) { return true; };
    uint64_t node = c.last_node;  // of those who had come when some were given up others may come later
    if (node == EventGraph::none) node = last_coming(engine.recorder(), c, thread, c.last_enter, c.last_arrival, everybody);
    if (whole) c.last_node = node;
    return {true, c.last_enter, c.last_arrival, {}, node};
}

// Where the wait for the last one ends.
int64_t end_of_wait(const Thread& thread, const Last& last) {
    return std::min(std::max(last.enter, thread.enter), thread.leave);
}

CallEnd end_after_all(const Engine& engine, const Thread& thread, const Last& last) {
    const size_t all = engine.lanes().all;
    const int64_t m = end_of_wait(thread, last);
    return {
        .tail = thread.leave - m, .waited_until = m, .approximated_until = std::max(last.arrival[all], thread.enter - thread.delay[all])};
}

CallEnd leave_after_all(Engine& engine, Thread& thread, Collective& c, uint32_t member, const Last& last) {
    const Lanes& lanes = engine.lanes();
    const int64_t m = end_of_wait(thread, last), tail = thread.leave - m;
    const bool others_hit = std::any_of(c.noise.begin(), c.noise.end(),
                                        [&](const Collective::Noise& noise) { return noise.piece.end > m && may_delay(c, noise, member); });
    if (engine.learning()) {
        const Delays delays = others_hit && !engine.faults().delays_nobody ? delays_inside(engine, c, member, m, thread.leave) : Delays();
        engine.model().learn_tail(cost_class(c, CostKind::collective_tail, member), tail, delays.likely, delays.most, delays.apart);
        return {};
    }
    const CallEnd end = end_after_all(engine, thread, last);
    LaneVector out = engine.lane_pool().take();
    const int64_t slip = std::max<int64_t>(0, thread.leave < last.enter ? 0 : m - last.enter);  // own coming is part of the last
    for (size_t i = 0; i < lanes.count; ++i) {
        out[i] = last.enter + slip - std::max(last.arrival[i], thread.enter - thread.delay[i]);
        out[i] = std::min(out[i], thread.delay[i] + (thread.leave - thread.enter));
        if (engine.faults().residual_of_binding) ++out[i];
        if (engine.faults().drop_dependency) out[i] = thread.delay[i];
    }
    Recorder* recorder = engine.recorder();
    if (recorder) {
        recorder->start();
        recorder->candidate_by(last.node, [&](size_t lane) { return last.enter + slip - last.arrival[lane]; });
        recorder->candidate_by(thread.enter_node, [&](size_t lane) {
            const int64_t since = std::min(last.enter + slip, thread.leave) - thread.enter;
            return thread.delay[lane] + since;
        });
    }
    if (others_hit) {
        const Cost cost = engine.model().cost(cost_class(c, CostKind::collective_tail, member));
        LaneVector own = engine.lane_pool().filled(0);
        for (const NoisePiece& piece : thread.pieces) {
            const int64_t n = piece.end - std::max(piece.begin, m);
            if (n <= 0) continue;
            remove_noise(own, lanes.masks[piece.account].data(), engine.faults().negative_removal && piece.account > 0 ? -n : n,
                         lanes.count);
        }
        LaneVector buffer;
        // Where only some were waited for, whose noise mattered is not known: one's own alone.
        const int64_t* held = last.partial ? own.get() : delay_by_union(engine, c, member, last.enter, thread.leave, buffer);
        const int64_t most_without = engine.faults().swap_bounds ? cost.low : cost.high;
        // In the upper bound only what no tail without noise was ever as long as, by a margin, and only where nothing else can have been
        // why.
        // (Creating a communicator is several exchanges, one after the other, and seldom done: not there.)
        const bool placed_noise = !engine.facts().counter_only || engine.faults().counters_at_one_time;
        const bool noise_alone = lanes.bounded() && placed_noise && !last.partial && c.operation != OTF2_COLLECTIVE_OP_CREATE_HANDLE &&
                                 only_removed(c, member, last.enter, lanes);
        const int64_t certain = noise_alone ? std::max<int64_t>(0, tail - most_without - (cost.high - cost.mid)) : 0;
        for (size_t i = 0; i < lanes.count; ++i) {
            const bool low = lanes.bounded() && i == lanes.low, high = lanes.bounded() && i == lanes.high;
            const int64_t without = low ? cost.low : high ? most_without : cost.mid;
            const int64_t longer = std::max<int64_t>(0, tail - without), excess = low || high ? longer : cost.noise_of(longer);
            // Own noise, too, counts by how much longer than usual it took: the rest lay in the wait for messages.
            int64_t mine = low || engine.faults().own_noise_whole ? own[i] : std::min(own[i], excess);
            if (!placed_noise && high) mine = 0;  // all of it may have lain in that wait
            const int64_t gain = std::max(mine, std::min(high ? certain : excess, held[i]));
            out[i] += gain;
            if (recorder && i == recorder->lane(1))
                record_gain(*recorder, thread, c, member, {m, last.enter, own[i], mine, std::min(excess, held[i]), !last.partial});
        }
    }
    if (recorder) thread.node = recorder->write(thread.index, thread.place(), thread.leave, out[recorder->lane(1)]);
    engine.copy(thread.delay, out);
    return end;
}

CallEnd leave_after_root(Engine& engine, Thread& thread, Collective& c, uint32_t member, const Last& last, bool recorded) {
    const CostClass after{cost_class(c, CostKind::collective_tail, member)}, own{cost_class(c, CostKind::collective_own, member)};
    if (engine.learning()) {
        const int64_t begin = std::max(thread.enter, last.enter);
        if (thread.leave < begin) return {};
        const int64_t noise = noise_after(thread.pieces, begin);
        if (last.enter >= thread.enter)
            learn_waited(engine, after, thread.leave - begin, noise, Model::clean);
        else
            learn_waited(engine, own, thread.leave - begin, noise, thread.enter - last.enter);
        return {};
    }
    Cost latency = engine.model().cost(after), alone = engine.model().cost(own);
    if (c.members[member].held) {
        alone = own_of_sender(engine, c, member);
        latency = after_receiver(thread, last, alone);
    }
    if (!latency.known) latency = {0, alone.mid, alone.high, false};
    if (!alone.known) alone = {0, latency.mid, latency.high, false};
    LaneVector root_delay = engine.lane_pool().take();
    for (size_t i = 0; i < engine.lanes().count; ++i) root_delay[i] = last.enter - last.arrival[i];
    const Solved solved =
        solve(engine, {thread.enter, thread.leave, thread.delay, &thread.pieces, alone, recorded ? &thread : nullptr, thread.enter_node},
              {{last.enter, root_delay, latency, last.node}}, thread.delay);
    return solved.end;
}

}  // namespace

// The second half waits for those that came to the first one: the library may do the waiting in either.
static void publish_second_half(Engine& engine, Thread& thread, const Operation& operation) {
    if (engine.faults().no_notices) return;
    auto& halves = engine.process(thread).halves;
    const auto begun =
        std::find_if(halves.begin(), halves.end(), [&](const Dependency& half) { return half.collective->comm == operation.comm; });
    if (begun == halves.end()) return;  // it began before the trace did, or nobody else takes part
    begun->collective->members[begun->member].released = false;
    thread.dependencies.push_back(
        {.kind = Dependency::Kind::collective, .own_posting = true, .collective = begun->collective, .member = begun->member});
    halves.erase(begun);
}

void publish_collective(Engine& engine, Thread& thread, const Operation& operation) {
    if (thread.kind == CallKind::file_end) return publish_second_half(engine, thread, operation);
    uint32_t member = 0;
    Collective* collective = engine.arrive(thread,
                                           {.comm = operation.comm,
                                            .root = operation.peer,
                                            .operation = operation.collective,
                                            .size = operation.size,
                                            .part = operation.part,
                                            .whole = operation.whole,
                                            .enter = thread.enter,
                                            .leave = thread.leave,
                                            .delay = thread.delay,
                                            .pieces = &thread.pieces,
                                            .node = thread.enter_node},
                                           &member);
    if (!collective) return;
    if (!collective->awaits_all) find_held(engine, thread, *collective, member);
    thread.dependencies.push_back(
        {.kind = Dependency::Kind::collective, .collective = collective, .member = member, .keeps = thread.kind == CallKind::file_begin});
}

void publish_start_or_end(Engine& engine, Thread& thread, uint8_t operation) {
    if (engine.world() == UINT32_MAX || !thread.carries_rank) return;
    publish_collective(engine, thread, {.kind = Operation::Kind::collective, .collective = operation, .comm = engine.world()});
}

bool came_who_counts(Collective& c, uint32_t member) {
    switch (c.waits) {
        case Waits::for_nobody:
            return true;
        case Waits::one_to_n:
            return member == c.root || c.root_came;
        case Waits::n_to_one:
            return member != c.root;
        case Waits::prefix:
            while (c.prefix < c.members.size() && c.members[c.prefix].thread) ++c.prefix;
            return member < c.prefix;
        case Waits::n_to_n:
        case Waits::n_to_n_likely:
            return false;
    }
    return false;
}

bool collective_ready(Collective& c, uint32_t member) {
    if (c.members[member].released) return true;
    if (c.instance.active()) return c.instance.done(member);
    if (c.arrived == c.members.size()) return true;
    if (c.members[member].held || c.awaits_all) return false;
    return came_who_counts(c, member);
}

bool follows_structure(const Collective& c, uint32_t member) {
    return c.instance.active() && c.instance.done(member);
}

CallEnd conclude_collective(Engine& engine, Thread& thread, const Dependency& dependency) {
    Collective& c = *dependency.collective;
    if (c.awaits_all && !follows_structure(c, dependency.member)) find_held(engine, thread, c, dependency.member);
    Last last = last_of(engine, c, dependency.member, thread);
    LaneVector by_structure;
    if (follows_structure(c, dependency.member)) by_structure = leave_by_structure(engine, thread, c, dependency.member, last);
    CallEnd end;
    if (engine.learning() && only_sends(c, dependency.member)) learn_sending(engine, thread, c, dependency.member);
    if (!last.any) {  // own work; of one that only sends some of it may be transfers, which noise does not prolong
        const Cost own = only_sends(c, dependency.member) ? engine.model().cost(sending_class(c, dependency.member)) : Cost();
        end = solve(engine,
                    {thread.enter, thread.leave, thread.delay, &thread.pieces, own, by_structure ? nullptr : &thread, thread.enter_node,
                     own.known},
                    {}, thread.delay)
                  .end;
    }
    if (last.any && (c.waits == Waits::one_to_n || c.members[dependency.member].held))
        end = leave_after_root(engine, thread, c, dependency.member, last, !by_structure);
    else if (last.any)
        end = by_structure ? end_after_all(engine, thread, last) : leave_after_all(engine, thread, c, dependency.member, last);
    if (last.any && !by_structure) thread.uncertainty.add(c.unexplained);
    if (by_structure) {
        end.tail = 0;  // noise has hit its steps
        end.stepwise = true;
        engine.copy(thread.delay, by_structure);
    }
    if (dependency.keeps)
        engine.process(thread).halves.push_back(dependency);
    else
        engine.member_done(&c);
    return end;
}

// A call that waited for the last to come tells how long the collective takes from there. One that began later found it under way, or
// done.
static void learn_wait_for_collective(Engine& engine, const Thread& thread, int64_t came, const CostClass& after) {
    const auto since = [&](int64_t from) {
        return TimeRange{std::max<int64_t>(0, thread.leave - from - noise_after(thread.pieces, from)), thread.leave - from};
    };
    if (came >= thread.enter)
        learn_waited(engine, after, thread.leave - came, noise_after(thread.pieces, came), Model::clean);
    else if (!engine.faults().collectives_were_done)
        engine.model().learn_wait(
            {CostKind::wait_own, true, after.synchronous, 0, thread.completions}, after,
            {.slack = thread.enter - came, .took = since(thread.enter), .since_send = since(came), .since_both = since(came)}, true);
}

// As one of several things that a call waits for: a non-blocking collective at its completion.
void constrain_collective(Engine& engine, Thread& thread, const Dependency& dependency, Scratch& scratch) {
    Collective& c = *dependency.collective;
    Last last = last_of(engine, c, dependency.member, thread);
    const CostClass after = cost_class(c, CostKind::collective_tail, dependency.member),
                    own{CostKind::wait_own, true, false, 0, thread.completions};
    if (engine.learning() && only_sends(c, dependency.member) && thread.dependencies.size() == 1)
        learn_sending(engine, thread, c, dependency.member);
    if (last.any && engine.learning()) {
        if (thread.dependencies.size() == 1 && thread.leave >= last.enter) learn_wait_for_collective(engine, thread, last.enter, after);
    } else if (last.any) {
        const LaneVector& delay = scratch.vectors.emplace_back(engine.lane_pool().take());
        for (size_t i = 0; i < engine.lanes().count; ++i) delay[i] = last.enter - last.arrival[i];
        const bool held = c.members[dependency.member].held;
        const Cost wait = held ? own_of_sender(engine, c, dependency.member) : engine.model().cost(own);
        scratch.constraints.push_back(
            {last.enter, delay, held ? after_receiver(thread, last, wait) : engine.model().cost(after), last.node});
        scratch.own = {std::max(scratch.own.low, wait.low), std::max(scratch.own.mid, wait.mid), std::max(scratch.own.high, wait.high)};
    }
    engine.member_done(&c);
}

}  // namespace polter::replay::rules
