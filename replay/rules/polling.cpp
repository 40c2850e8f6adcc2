// SPDX-License-Identifier: BSD-3-Clause
// Polling loops.
//
// In words: a loop of Tests or Iprobes that finds nothing is a wait in disguise. From its first failing poll to the one that succeeds
// it is one call: elastic until what it polls for has come, noise in it absorbed until then. What is done between two polls (longer than
// polling itself takes) passes the time until the next one where it is as long each time; else it is work, and the wait begins anew
// behind it. The bounds take both views, all of the loop elastic and all of it work, and that the poll which succeeds may come as much
// as one round earlier or later behind the arrival. A recorder may make one call of failing polls in a row. How often a program polls may
// change without the noise, so the result is conditional.
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

namespace {

// What is done between polls is as long each time.
constexpr int64_t even_ns = 1'000, even_part = 8;

void begin_loop(Engine& engine, Thread& thread) {
    Polling& polling = thread.polling;
    polling.active = true;
    polling.begin = thread.enter;
    polling.pieces.clear();
    engine.copy(polling.delay, thread.delay);
    polling.node = thread.enter_node;
}

// Work between two polls: the wait begins anew, and the whole loop goes on.
void work_within(Polling& polling) {
    Polling::Whole& whole = polling.whole;
    if (!whole.active) {
        whole.active = whole.even = true;
        whole.begin = polling.begin;
        whole.work = polling.gap;
        whole.node = polling.node;
        std::swap(whole.delay, polling.delay);
        std::swap(whole.pieces, polling.pieces);
    }
    whole.even = whole.even && std::abs(polling.gap - whole.work) <= even_ns + whole.work / even_part;
}

void end_loop(Polling& polling) {
    polling.active = polling.whole.active = false;
}

}  // namespace

void before_call(Engine& engine, Thread& thread) {
    Polling& polling = thread.polling;
    const bool failed = found_nothing(thread);
    bool anew = false;
    if (polling.active) {
        const bool silent = (thread.kind == CallKind::local || thread.kind == CallKind::wait || thread.kind == CallKind::wait_any) &&
                            thread.operations.empty();  // MPI_Wtime and its like
        const int64_t gap = thread.enter - polling.last_leave - polling.noise_since;
        const bool worked = gap > std::max(shortest_work_ns, 4 * polling.last_length);
        polling.gap = gap;
        polling.longest_gap = std::max(polling.longest_gap, gap);
        if ((!polls(thread) && !silent) || (worked && engine.faults().short_polls_alone)) {
            const int64_t begin = polling.whole.active ? polling.whole.begin : polling.begin;
            end_loop(polling);
            engine.leaves_open(Flaw::polling, begin, thread.enter, thread.enter - begin);
        } else if (worked) {
            work_within(polling);
            anew = true;
        }
    }
    if (failed && !polling.active) {
        polling.longest_gap = polling.gap = 0;
        begin_loop(engine, thread);
        engine.count(Flaw::polling);
    } else if (anew) {
        begin_loop(engine, thread);
    }
}

// The loop's last round tells when the message came: behind the poll before, which found nothing. With several requests only the first
// poll of a round does.
void learn_polling(Engine& engine, const Thread& thread) {
    const Polling& polling = thread.polling;
    if (!polling.active || !polls(thread) || found_nothing(thread) || thread.dependencies.size() != 1) return;
    if (2 * polling.gap < polling.longest_gap) return;
    const Dependency& dependency = thread.dependencies.front();
    const Match* match = nullptr;
    if (dependency.kind == Dependency::Kind::message && !dependency.notice) match = dependency.match;
    if (dependency.kind == Dependency::Kind::probe && dependency.channel && dependency.channel->holds_messages)
        match = dependency.channel->head;
    if (!match || !match->sent || match->synchronous_mode || thread.leave <= match->send_time) return;
    if (dependency.kind == Dependency::Kind::message && match->post_time > match->send_time) return;
    const int64_t least = polling.last_enter - match->send_time - match->send_noise;
    if (least > 0)
        engine.model().learn_between(message_class(CostKind::receive_after_send, *match), least, thread.leave - match->send_time,
                                     Model::clean);
}

// Its end, where the call is part of a loop and ends it.
std::optional<CallEnd> conclude_polling(Engine& engine, Thread& thread, const Scratch& scratch) {
    Polling& polling = thread.polling;
    if (!polling.active) return std::nullopt;
    if (engine.learning()) learn_polling(engine, thread);
    polling.longest_gap = std::max(polling.longest_gap, thread.poll_run.longest_gap);
    const int64_t round = polling.longest_gap + polling.last_length;
    Polling::Whole& whole = polling.whole;
    polling.pieces.insert(polling.pieces.end(), thread.pieces.begin(), thread.pieces.end());
    if (whole.active) whole.pieces.insert(whole.pieces.end(), thread.pieces.begin(), thread.pieces.end());
    const bool run = thread.poll_run.polls > 1;
    polling.last_enter = run ? thread.leave - thread.poll_run.last : thread.enter;
    polling.last_leave = thread.leave;
    polling.noise_since = 0;
    if (polls(thread)) polling.last_length = thread.leave - polling.last_enter - noise_after(thread.pieces, polling.last_enter);
    if (!polls(thread) || found_nothing(thread)) return std::nullopt;
    const bool worked = whole.active;
    const int64_t begin = worked ? whole.begin : polling.begin;
    end_loop(polling);
    if (scratch.constraints.empty()) {  // it succeeded without anybody else
        engine.leaves_open(Flaw::polling, begin, thread.leave, thread.leave - begin);
        return std::nullopt;
    }
    const Lanes& lanes = engine.lanes();
    const bool idle = worked && whole.even;
    const Interval since_work{polling.begin, thread.leave, polling.delay, &polling.pieces, scratch.own},
        all{begin, thread.leave, worked ? whole.delay : polling.delay, worked ? &whole.pieces : &polling.pieces, scratch.own};
    Interval taken = idle ? all : since_work;
    taken.recorded = &thread;
    taken.node = idle ? whole.node : polling.node;
    LaneVector elastic = engine.lane_pool().take(), other = engine.lane_pool().take();
    const Solved loop = solve(engine, taken, scratch.constraints, elastic);
    if (worked) solve(engine, idle ? since_work : all, scratch.constraints, other);
    CallEnd end =
        solve(engine, {thread.enter, thread.leave, thread.delay, &thread.pieces, scratch.own}, scratch.constraints, thread.delay).end;
    thread.uncertainty.add(loop.spread);
    end.elastic = true;
    int64_t change = std::abs(elastic[lanes.all] - thread.delay[lanes.all]);
    if (lanes.bounded()) {
        int64_t &low = elastic[lanes.low], &high = elastic[lanes.high];
        low = std::max(low, thread.delay[lanes.low]);
        high = std::min(high, thread.delay[lanes.high]);
        if (worked) {
            low = std::max(low, other[lanes.low]);
            high = std::min(high, other[lanes.high]);
        }
        const int64_t behind = std::clamp<int64_t>(thread.enter - loop.end.waited_until, 0, round);  // the arrival
        low = std::max(low, std::min(low + behind, engine.facts().most_delay));
        high = std::min(high, std::max<int64_t>(high - (round - behind), 0));
    }
    // What was done between the polls is idle time in one view, and work in the other.
    if (worked) change = std::max(change, std::abs(elastic[lanes.all] - other[lanes.all]));
    engine.leaves_open(Flaw::polling, begin, thread.leave, change);
    engine.copy(thread.delay, elastic);
    return end;
}

}  // namespace polter::replay::rules
