// SPDX-License-Identifier: BSD-3-Clause
// Receives and probes.
//
// In words: a receive ends when its message has come and its own work is done: not before the send plus the latency, and not before
// its posting plus what taking a message costs that is already there. A probe depends on the send of the message that it found, and
// leaves it where it is; a matched probe takes it aside for its matched receive. A cancelled receive takes no message: the trace tells
// that behind its posting, so the learning pass is done again where there are any.
#include "internal.hpp"

namespace polter::replay::rules {

namespace {

struct Ends {
    Channel* channel = nullptr;
    int32_t source = no_rank;
};

Ends find_channel(Engine& engine, Thread& thread, const PostedFor& posted, uint32_t partitioned) {
    const int32_t source = engine.world_rank(thread, posted.comm, posted.source);
    return {engine.channel(posted.comm, source, thread.rank, posted.tag, partitioned), source};
}

Ends find_channel(Engine& engine, Thread& thread, const Operation& operation) {
    return find_channel(engine, thread, {operation.comm, operation.peer, operation.tag}, operation.partitioned);
}

Match* take_aside(Engine& engine, Thread& thread, uint32_t comm, int32_t source, uint32_t tag) {
    auto& aside = engine.process(thread).set_aside;
    const ChannelKey key{comm, static_cast<uint32_t>(source), static_cast<uint32_t>(thread.rank), tag};
    for (size_t i = 0; i < aside.size(); ++i) {
        if (!(aside[i].first == key)) continue;
        Match* match = aside[i].second;
        aside.erase(aside.begin() + static_cast<std::ptrdiff_t>(i));
        return match;
    }
    return nullptr;
}

void took_any(Engine& engine, const Thread& thread, int32_t source, bool anyone) {
    if (!engine.learning() || !thread.carries_rank || source < 0) return;
    bool& known = of(engine).wildcards[{thread.rank, source}];
    known = known || anyone;
}

// A probe that asked for any source: the message that is received by its source afterwards was taken here.
void probe_for_any(Engine& engine, Thread& thread, int32_t source, Match* match, Channel* channel) {
    engine.count(Flaw::any_source);
    took_any(engine, thread, source, true);
    if (!of(engine).farms || !of(engine).farms->asks(thread, source)) return;
    engine.count(Flaw::tasks_reassigned);
    thread.dependencies.push_back({.kind = Dependency::Kind::request, .soft = true, .match = match, .channel = channel});
}

void depend_on(Engine& engine, Thread& thread, Match* match, bool own_posting, bool any_source, bool wildcard) {
    thread.dependencies.push_back(
        {.kind = Dependency::Kind::message, .own_posting = own_posting, .release = true, .wildcard = wildcard, .match = match});
    if (of(engine).farm_learning) of(engine).farm_learning->received(thread, match->source);
    const bool picked = thread.kind == CallKind::wait_any || thread.kind == CallKind::poll_any;
    if ((any_source || picked) && match->partitioned == 0) took_any(engine, thread, match->source, any_source);
    if (!of(engine).farms || !of(engine).farms->taking(thread, *match) || !(any_source || picked)) return;
    engine.count(Flaw::tasks_reassigned);
    if (!any_source) engine.count(Flaw::any_source);  // others could have been in its place as well
    thread.dependencies.push_back({.kind = Dependency::Kind::request, .soft = true, .match = match});
}

}  // namespace

void publish_receive(Engine& engine, Thread& thread, const Operation& operation) {
    const Ends ends = find_channel(engine, thread, operation);
    if (operation.wildcard) engine.count(Flaw::any_source);
    Match* match =
        thread.kind == CallKind::matched_receive ? take_aside(engine, thread, operation.comm, ends.source, operation.tag) : nullptr;
    if (!match) match = engine.add_receive(ends.channel, thread, thread.enter, thread.delay, thread.enter_node);
    depend_on(engine, thread, match, false, operation.any_source, operation.wildcard);
}

void publish_posting(Engine& engine, Thread& thread, const Operation& operation) {
    Request* request = engine.new_request(thread, operation.request, Request::Kind::receive);
    request->post_time = thread.enter;
    request->post_node = thread.enter_node;
    request->wildcard = operation.wildcard;
    request->any_source = operation.any_source;
    request->partitioned = operation.partitioned;
    request->posting_thread = thread.index;
    request->posting = operation.posting != 0 ? operation.posting : ++thread.postings;
    const PostedFor* learned = operation.posted_known ? nullptr : engine.posted_for({thread.index, request->posting});
    const PostedFor posted = learned ? *learned : PostedFor{operation.comm, operation.peer, operation.tag};
    const auto cancelled = [&] {
        const std::set<Posting>& all = engine.cancelled_postings();
        return !all.empty() && all.contains({thread.index, request->posting});
    };
    if ((operation.posted_known || learned) && !cancelled()) {
        const Ends ends = find_channel(engine, thread, posted, operation.partitioned);
        if (thread.kind == CallKind::matched_receive) request->match = take_aside(engine, thread, posted.comm, ends.source, posted.tag);
        if (!request->match) request->match = engine.add_receive(ends.channel, thread, thread.enter, thread.delay, thread.enter_node);
    } else {
        request->post_delay = engine.lane_pool().copy(thread.delay);
    }
}

void publish_receive_complete(Engine& engine, Thread& thread, const Operation& operation) {
    ++thread.completions;
    Request* request = engine.find_request(thread, operation.request);
    const PostedFor came{operation.comm, operation.peer, operation.tag};
    Match* match = nullptr;
    bool any_source = false, wildcard = false;
    if (request && request->kind == Request::Kind::receive) {
        any_source = request->any_source || operation.any_source;
        wildcard = request->wildcard || operation.wildcard;
        if (wildcard) engine.count(Flaw::any_source);
        match = request->match;
        if (!match) engine.completed({request->posting_thread, request->posting}, came);
        if (match && (match->comm != operation.comm || match->tag != operation.tag ||
                      match->source != engine.world_rank(thread, operation.comm, operation.peer))) {
            // What came is not what was posted: the attributes are wrong, the completion is what happened.
            engine.count(Flaw::uncertain_order);
            request->post_delay = engine.lane_pool().copy(match->post_delay);
            engine.withdraw_receive(match);
            match = nullptr;
        }
        if (!match) {  // only now is it known from whom
            match = engine.add_receive(find_channel(engine, thread, came, request->partitioned).channel, thread, request->post_time,
                                       request->post_delay, request->post_node);
        }
        engine.drop_request(thread, operation.request);
    } else {
        engine.count(Flaw::unknown_request);
        match = engine.add_receive(find_channel(engine, thread, operation).channel, thread, thread.enter, thread.delay, thread.enter_node);
    }
    if (!match->sent) match->size = operation.size;
    depend_on(engine, thread, match, true, any_source, wildcard);
}

void publish_cancelled(Engine& engine, Thread& thread, const Operation& operation) {
    Request* request = engine.find_request(thread, operation.request);
    if (!request) return;
    const bool receive = request->kind == Request::Kind::receive;
    if (receive) engine.cancelled({request->posting_thread, request->posting});
    if (request->match) receive ? engine.withdraw_receive(request->match) : engine.release(request->match);
    engine.drop_request(thread, operation.request);
}

void publish_probe(Engine& engine, Thread& thread, const Operation& operation) {
    if (operation.partitioned > 0) return publish_part_arrived(engine, thread, operation);
    const Ends ends = find_channel(engine, thread, operation);
    if (thread.kind == CallKind::matched_probe || thread.kind == CallKind::poll_matched) {
        Match* match = engine.add_receive(ends.channel, thread, thread.enter, thread.delay, thread.enter_node);
        const ChannelKey key{operation.comm, static_cast<uint32_t>(ends.source), static_cast<uint32_t>(thread.rank), operation.tag};
        engine.process(thread).set_aside.emplace_back(key, match);
        thread.dependencies.push_back({.kind = Dependency::Kind::message, .wildcard = operation.any_source, .match = match});
        if (operation.any_source) probe_for_any(engine, thread, ends.source, match, nullptr);
        return;
    }
    thread.dependencies.push_back({.kind = Dependency::Kind::probe, .wildcard = operation.any_source, .channel = ends.channel});
    if (operation.any_source) probe_for_any(engine, thread, ends.source, nullptr, ends.channel);
}

namespace {

// A wildcard receive took the message that came first. Where the scenario "all" sends it before one that was taken earlier, the program
// would have received them in another order, and could have been sooner by as much as that one is later.
void compare_arrivals(Engine& engine, const Thread& thread, const Match& match) {
    const Lanes& lanes = engine.lanes();
    if (engine.learning() || lanes.count == 0 || match.of_farm) return;  // of a farm the order does change: its tasks are reassigned
    const LastArrival arrival{match.send_time, match.send_time - match.send_delay[lanes.all]};
    LastArrival& last = of(engine).last_arrivals[{thread.rank, match.comm}];
    int64_t change = 0;
    if (last.approximated > arrival.approximated)
        change = std::max<int64_t>(0, last.approximated - arrival.approximated - std::max<int64_t>(0, last.measured - arrival.measured));
    engine.leaves_open(Flaw::any_source, thread.enter, thread.leave, change);
    if (arrival.approximated > last.approximated && !engine.faults().forget_arrivals) last = arrival;
}

// When a processor that does not have to do anything until then has noticed it.
int64_t noticed(const std::vector<NoisePiece>& pieces, int64_t time) {
    for (const NoisePiece& piece : pieces)
        if (piece.begin <= time && piece.end > time) time = piece.end;
    return time;
}

// Whether the noise in the call that sent or posted hit before it did. The measured end decides: it is nearer to the one expected then.
bool after_noise(const Engine& engine, const Thread& thread, int64_t time, int64_t noise, int64_t cost, int64_t not_before) {
    if (noise <= 0) return false;
    const int64_t later = time + noise;
    if (later > thread.leave) return false;
    if (engine.facts().counter_only) return thread.leave - noise_after(thread.pieces, time) >= time + cost + noise / 2;
    const int64_t at_once = noticed(thread.pieces, std::max(time + cost, not_before)),
                  behind = noticed(thread.pieces, std::max(later + cost, not_before));
    return thread.leave >= at_once + (behind - at_once) / 2;
}

}  // namespace

// The message as a constraint, from when it left: at the send's beginning, or after noise in the sending call. `not_before`: the call ends
// no earlier for other reasons.
void add_message(Engine& engine, Thread& thread, const Match& match, const Cost& cost, int64_t not_before, Scratch& scratch) {
    int64_t time = match.send_time;
    const int64_t* delay = match.send_delay;
    uint64_t node = match.send_node;
    if (after_noise(engine, thread, time, match.send_noise, cost.mid + shared_ns(engine, match), not_before)) {
        time += match.send_noise;
        const LaneVector& later = scratch.vectors.emplace_back(engine.lane_pool().copy(match.send_delay));
        for (size_t i = 0; i < engine.lanes().count; ++i) later[i] += match.send_noise_removed[i];
        delay = later;
        node = match.departure_node;
    }
    scratch.constraints.push_back({time, delay, cost, node, &match});
}

// The posting as a constraint: from the beginning of its call, or after noise in it.
void add_posting(Engine& engine, Thread& thread, const Match& match, const Cost& cost, int64_t not_before, Scratch& scratch) {
    if (!after_noise(engine, thread, match.post_time, match.post_noise, cost.mid + shared_ns(engine, match), not_before)) {
        scratch.constraints.push_back({match.post_time, match.post_delay, cost, match.post_node, &match, true});
        return;
    }
    const LaneVector& later = scratch.vectors.emplace_back(engine.lane_pool().copy(match.post_delay));
    for (size_t i = 0; i < engine.lanes().count; ++i) later[i] += match.post_noise_removed[i];
    scratch.constraints.push_back({match.post_time + match.post_noise, later, cost, match.posted_node, &match, true});
}

void own_at_least(Scratch& scratch, const Cost& own) {
    scratch.own = {std::max(scratch.own.low, own.low), std::max(scratch.own.mid, own.mid), std::max(scratch.own.high, own.high)};
}

namespace {

// A master takes one request while others are under way, so most of what its receives took has waiting in it: the least has not. (Of
// messages that wait for their receiver all are under way then.)
void without_waiting(MessageCosts& costs, Cost& own_wait) {
    own_wait.mid = own_wait.low;
    costs.own.mid = costs.after_post.mid = costs.after_post.low;
}

// What taking a message costs that nobody was seen to take: as much as any call does, and no more than the shortest receive.
void as_any_call(const Model& model, MessageCosts& costs) {
    const Cost& call = model.cost({CostKind::wait_own, true, false, 0, 0});
    costs.own.high = std::max(costs.own.high, call.high);
    costs.own.mid = std::min(call.mid, costs.own.high);
    if (!costs.rendezvous) costs.after_post = costs.own;
}

}  // namespace

int64_t shared_ns(const Engine& engine, const Match& match) {
    return match.transfer > 0 ? of(engine).links->measured(match) : 0;
}

void share_links(Engine& engine, Thread& thread, const Match& match, Scratch& scratch, size_t from) {
    of(engine).links->delay(engine, thread, match, scratch, from);
}

namespace {

// It is noted when the transfer begins, and then made as much longer as sharing links makes it.
void begins_transfer(Engine& engine, Thread& thread, const Match& match, Scratch& scratch, size_t from) {
    of(engine).links->begins(thread, match, scratch, from);
    share_links(engine, thread, match, scratch, from);
}

}  // namespace

void constrain_message(Engine& engine, Thread& thread, const Dependency& dependency, Scratch& scratch) {
    const Match& match = *dependency.match;
    if (!match.sent) return;  // given up
    if (dependency.soft && match.send_time > thread.leave) return;
    if (dependency.wildcard) compare_arrivals(engine, thread, match);
    Model& model = engine.model();
    if (engine.learning()) {
        model.clock_disorder_ns = std::max(model.clock_disorder_ns, match.send_time - thread.leave);
        if (match.transfer > 0) of(engine).links->learn(thread, match);
        return;
    }
    const bool blocking = !dependency.own_posting;
    const MessageCosts* costs = &scratch.costs.receive(model, message_class(CostKind::receive_after_send, match));
    const Cost* own_wait = &scratch.costs.completing(model, thread.completions);
    MessageCosts changed;
    Cost changed_wait;
    if (match.of_farm && !costs->rendezvous) {
        changed = *costs;
        changed_wait = *own_wait;
        without_waiting(changed, changed_wait);
        costs = &changed;
        own_wait = &changed_wait;
    }
    const int64_t shared = shared_ns(engine, match);
    const int64_t posted =
        costs->rendezvous ? match.post_time + shared + costs->after_post.mid : thread.enter + (blocking ? costs->own : *own_wait).mid;
    const size_t from = scratch.constraints.size();
    add_message(engine, thread, match, costs->after_send, posted, scratch);
    if (match.transfer > 0 && !costs->rendezvous) begins_transfer(engine, thread, match, scratch, from);
    if (blocking && !costs->own.known) {
        if (costs != &changed) changed = *costs;
        as_any_call(model, changed);
        costs = &changed;
    }
    if (costs->rendezvous)
        add_posting(engine, thread, match, costs->after_post, match.send_time + shared + costs->after_send.mid, scratch);
    else if (!blocking)  // noise in a blocking call is its own
        scratch.constraints.push_back({match.post_time, match.post_delay, costs->after_post, match.post_node, &match, true});
    if (match.transfer > 0 && costs->rendezvous) begins_transfer(engine, thread, match, scratch, from);
    own_at_least(scratch, blocking ? costs->own : *own_wait);
}

void constrain_probe(Engine& engine, Thread& thread, const Dependency& dependency, Scratch& scratch) {
    if (!dependency.channel || !dependency.channel->head || !dependency.channel->holds_messages) return;
    const Match& match = *dependency.channel->head;
    if (engine.learning()) return;
    if (dependency.wildcard) compare_arrivals(engine, thread, match);
    const Cost cost = engine.model().cost(message_class(CostKind::receive_after_send, match));
    add_message(engine, thread, match, {0, cost.low, cost.mid}, thread.enter, scratch);
}

}  // namespace polter::replay::rules
