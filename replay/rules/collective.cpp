// SPDX-License-Identifier: BSD-3-Clause
// Collectives.
//
// In words: in an all-to-all collective nobody leaves before the last has come; from there, `m`, each has its tail. With a root, the
// others wait for the root (bcast, scatter) or the root for the others (reduce, gather). In a scan everybody waits for the lower
// ranks. Where a member may come with nothing to give (v-forms, freeing, finalize), only those count that came before one's own
// measured leave.
//
// A collective is made of messages, so noise that strikes one member after m holds the others up. What a member's tail is longer
// than it is without noise, up to the time in which noise struck anybody after m and before the member's leave, is that noise's:
// with U the measure of the union of such noise, the tail shrinks by min(excess, U − U of what is not removed), and by its own
// removed noise at least.
#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "semantics.hpp"

namespace polter::replay::rules {

namespace {

uint16_t operation_class(const Collective& c) {
    return static_cast<uint16_t>(c.operation | std::bit_width(c.members.size() - 1) << 8);
}

// By the member's own size: what others have, who may not have come yet, must not matter.
CostClass cost_class(const Collective& c, CostKind kind, uint32_t member) {
    return {kind, true, c.nonblocking, operation_class(c), c.members[member].size};
}

// What the member waits for: the last of those that count, measured and in lanes (approximated times).
struct Last {
    bool any = false;
    int64_t enter = 0;
    const int64_t* arrival = nullptr;
    int64_t* lent = nullptr;
    uint64_t node = 0;  // of the event graph: their coming
};

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

Last last_of(Engine& engine, Collective& c, uint32_t member, const Thread& thread) {
    const int64_t leave = thread.leave;
    const bool root = member == c.root;
    switch (c.waits) {
        case Waits::for_nobody:
            return {};
        case Waits::for_root:
            if (root || !c.root_came) return {};
            if (c.nonblocking) return {true, c.members[c.root].enter, c.members[c.root].arrival, nullptr, c.members[c.root].node};
            return {true, c.last_enter, c.last_arrival, nullptr, c.members[c.root].node};
        case Waits::root_for_all:
            if (!root) return {};
            break;
        case Waits::for_lower:
            fold_lower(engine, c, member);
            return {true, c.members[member].latest, c.members[member].arrival, nullptr, c.members[member].fold_node};
        case Waits::for_all_likely: {
            if (c.last_enter <= leave || engine.faults().wait_for_late) break;
            Last last{true, c.members[member].enter, nullptr, engine.take_copy(c.members[member].arrival)};
            for (const Collective::Member& other : c.members) {
                if (!other.thread || other.enter > leave) continue;
                last.enter = std::max(last.enter, other.enter);
                raise_to(last.lent, other.arrival, engine.lanes().count);
            }
            last.arrival = last.lent;
            last.node = last_coming(engine.recorder(), c, thread, last.enter, last.arrival,
                                    [&](const Collective::Member& other) { return other.enter <= leave; });
            return last;
        }
        case Waits::for_all:
            break;
    }
    const bool whole = c.arrived == c.members.size();
    const auto everybody = [](const Collective::Member&) { return true; };
    if (!whole || c.last_node == EventGraph::none)
        c.last_node = last_coming(engine.recorder(), c, thread, c.last_enter, c.last_arrival, everybody);
    return {true, c.last_enter, c.last_arrival, nullptr, c.last_node};
}

// The measure of the union of the noise after `from`, for each lane of what it does not remove, subtracted from that of all.
void union_of(Engine& engine, std::vector<NoisePiece>& pieces, int64_t from, int64_t upto, int64_t* less) {
    const Lanes& lanes = engine.lanes();
    std::sort(pieces.begin(), pieces.end(), [](const NoisePiece& a, const NoisePiece& b) { return a.begin < b.begin; });
    const auto measure = [&](size_t lane) {
        int64_t sum = 0, reached = from;
        for (const NoisePiece& piece : pieces) {
            // Of a counter's noise nobody knows when within the call it struck: it may have been before this member left.
            const int64_t end = engine.counter_only ? std::min(piece.end, upto) : piece.end;
            if (end > upto || end <= std::max(reached, piece.begin)) continue;
            if (lane < lanes.count && lanes.masks[piece.account][lane]) continue;
            sum += end - std::max(piece.begin, reached);
            reached = end;
        }
        return sum;
    };
    const int64_t all = measure(SIZE_MAX);
    for (size_t i = 0; i < lanes.count; ++i) less[i] = all - measure(i);
    if (!engine.counter_only || !lanes.bounded()) return;
    less[lanes.low] = 0;  // when it struck is not known: at worst one after the other
    for (const NoisePiece& piece : pieces) less[lanes.low] += (piece.end - piece.begin) & lanes.masks[piece.account][lanes.low];
}

// In a scan those above do not matter, and may not have come yet; of a non-blocking one who else has completed it is not known.
bool may_hold_up(const Collective& c, const Collective::Noise& noise, uint32_t member) {
    if (c.nonblocking) return noise.member == member;
    return c.waits != Waits::for_lower || noise.member <= member;
}

const int64_t* held_up(Engine& engine, Collective& c, uint32_t member, int64_t from, int64_t leave, int64_t** lent) {
    static thread_local std::vector<NoisePiece> pieces;
    // For each member another noise.
    const bool apart = c.waits == Waits::for_lower || c.nonblocking || c.arrived < c.members.size();
    const auto collect = [&] {
        pieces.clear();
        for (const Collective::Noise& noise : c.noise)
            if (noise.piece.end > from && may_hold_up(c, noise, member)) pieces.push_back(noise.piece);
    };
    if (!c.held_known && !apart) {  // for those who left after all of it: mostly everybody
        collect();
        c.held_known = true;
        c.held_until = from;
        for (const NoisePiece& piece : pieces) c.held_until = std::max(c.held_until, piece.end);
        c.held = engine.lane_pool().take();
        union_of(engine, pieces, from, c.held_until, c.held);
    }
    if (!apart && leave >= c.held_until) return c.held;
    collect();
    *lent = engine.lane_pool().take();
    union_of(engine, pieces, from, leave, *lent);
    return *lent;
}

// How long between two times noise that counts struck anybody; what ended later does not. `pieces` by their beginning.
template <class Counts>
int64_t struck_for(const std::vector<Collective::Noise>& pieces, int64_t from, int64_t upto, Counts counts) {
    int64_t sum = 0, reached = from;
    for (const Collective::Noise& noise : pieces) {
        if (noise.piece.end > upto || noise.piece.end <= reached || !counts(noise)) continue;
        sum += noise.piece.end - std::max(noise.piece.begin, reached);
        reached = noise.piece.end;
    }
    return sum;
}

// What the tail of a call was shortened by, in the scenario "all": `own` removed noise of its own, of which at most `own_counts` counts; if
// `together`, at least that of all members since the last came, up to `excess`, which the tail is longer than it is without noise.
struct Gain {
    int64_t m = 0, from = 0;  // where the tail begins; when the last came
    int64_t own = 0, own_counts = 0, excess = 0;
    bool together = false;
};

// The noise behind that, for the event graph. In the order in which it struck each event counts by what it adds.
void record_gain(Recorder& recorder, const Thread& thread, const Collective& c, uint32_t member, const Gain& gain) {
    std::vector<Collective::Noise> pieces;
    for (Collective::Noise noise : c.noise) {
        if (thread.engine->counter_only) noise.piece.end = std::min(noise.piece.end, thread.leave);  // as in union_of
        const bool struck = noise.piece.end > std::max(gain.from, noise.piece.begin) && noise.piece.end <= thread.leave;
        if (struck && may_hold_up(c, noise, member)) pieces.push_back(noise);
    }
    std::sort(pieces.begin(), pieces.end(), [](const Collective::Noise& a, const Collective::Noise& b) {
        return std::tie(a.piece.begin, a.member, a.piece.end, a.piece.account) <
               std::tie(b.piece.begin, b.member, b.piece.end, b.piece.account);
    });
    const auto mine = [&](const Collective::Noise& noise) { return c.members[noise.member].thread == &thread; };
    const auto own_length = [&](const Collective::Noise& noise) {
        const bool counts = mine(noise) && recorder.removes(noise.piece.account);
        return counts ? std::max<int64_t>(0, noise.piece.end - std::max(noise.piece.begin, gain.m)) : 0;
    };
    const int64_t all = struck_for(pieces, gain.from, thread.leave, [](const Collective::Noise&) { return true; });
    const auto total = [&](int64_t own, const auto& put_back) {  // the gain where some of it is not removed
        const int64_t held = all - struck_for(pieces, gain.from, thread.leave, [&](const Collective::Noise& noise) {
                                 return put_back(noise) || !recorder.removes(noise.piece.account);
                             });
        return std::max(std::min(own, gain.own_counts), gain.together ? std::min(gain.excess, held) : 0);
    };
    const int64_t whole = total(gain.own, [](const Collective::Noise&) { return false; });
    const bool by_own = whole <= std::min(gain.own, gain.own_counts);
    int64_t left = whole, reached = gain.from;
    for (size_t i = 0; i < pieces.size(); ++i) {
        const Collective::Noise& noise = pieces[i];
        if (!recorder.removes(noise.piece.account)) continue;
        const int64_t length = by_own ? own_length(noise) : noise.piece.end - std::max(noise.piece.begin, reached);
        const int64_t counted = std::clamp<int64_t>(length, 0, left);
        reached = std::max(reached, noise.piece.end);
        left -= counted;
        const auto same = [&](const Collective::Noise& other) {
            return other.member == noise.member && other.piece.number == noise.piece.number;
        };
        const auto first = std::find_if(pieces.begin(), pieces.end(), same);
        int64_t effect = 0;  // of the event, at its first piece
        if (first == pieces.begin() + static_cast<std::ptrdiff_t>(i)) {
            int64_t own = gain.own;
            for (const Collective::Noise& other : pieces)
                if (same(other)) own -= own_length(other);
            effect = whole - total(own, same);
        }
        recorder.noise(c.members[noise.member].thread->index, noise.piece, thread.place(), counted, effect);
    }
}

void leave_after_all(Engine& engine, Thread& thread, Collective& c, uint32_t member, const Last& last, bool recorded) {
    const Lanes& lanes = engine.lanes();
    const int64_t m = std::min(std::max(last.enter, thread.enter), thread.leave), tail = thread.leave - m;
    const bool struck = std::any_of(c.noise.begin(), c.noise.end(),
                                    [&](const Collective::Noise& noise) { return noise.piece.end > m && may_hold_up(c, noise, member); });
    if (engine.learning()) {
        int64_t noise = 0;
        if (struck) noise = noise_after(thread.pieces, m);
        engine.model().learn(cost_class(c, CostKind::collective_tail, member), std::max<int64_t>(0, tail - noise),
                             struck ? 0 : Model::clean);
        return;
    }
    engine.concluded.tail = tail;
    int64_t* out = engine.lane_pool().take();
    const int64_t slip = std::max<int64_t>(0, thread.leave < last.enter ? 0 : m - last.enter);  // own coming is part of the last
    for (size_t i = 0; i < lanes.count; ++i) {
        out[i] = last.enter + slip - std::max(last.arrival[i], thread.enter - thread.delay[i]);
        out[i] = std::min(out[i], thread.delay[i] + (thread.leave - thread.enter));
        if (engine.faults().residual_of_binding) ++out[i];
        if (engine.faults().drop_dependency) out[i] = thread.delay[i];
    }
    Recorder* recorder = recorded ? engine.recorder() : nullptr;
    if (recorder) {
        recorder->start();
        recorder->candidate_by(last.node, [&](size_t lane) { return last.enter + slip - last.arrival[lane]; });
        recorder->candidate_by(thread.enter_node, [&](size_t lane) {
            const int64_t since = std::min(last.enter + slip, thread.leave) - thread.enter;
            return thread.delay[lane] + since;
        });
    }
    if (struck) {
        const Cost cost = engine.model().cost(cost_class(c, CostKind::collective_tail, member));
        int64_t* own = engine.lane_pool().take();
        std::fill_n(own, lanes.count, 0);
        int64_t placed = 0;
        for (const NoisePiece& piece : thread.pieces) {
            const int64_t n = piece.end - std::max(piece.begin, m);
            if (n <= 0) continue;
            placed += n;
            remove_noise(own, lanes.masks[piece.account].data(), engine.faults().negative_removal && piece.account > 0 ? -n : n,
                         lanes.count);
        }
        int64_t* lent = nullptr;
        // Where only some were waited for, whose noise mattered is not known: one's own alone.
        const int64_t* held = last.lent ? own : held_up(engine, c, member, last.enter, thread.leave, &lent);
        for (size_t i = 0; i < lanes.count; ++i) {
            const bool low = lanes.bounded() && i == lanes.low, high = lanes.bounded() && i == lanes.high;
            const int64_t without = low ? cost.low : high ? cost.high : cost.mid;
            const int64_t excess = std::max<int64_t>(0, tail - without);
            int64_t mine = own[i];
            if (engine.counter_only && !low) mine = std::min(mine, excess);  // the rest lay in the waiting part
            const int64_t gain = high ? mine : std::max(mine, std::min(excess, held[i]));
            out[i] += gain;
            if (recorder && i == recorder->lane(1))
                record_gain(*recorder, thread, c, member,
                            {m, last.enter, own[i], engine.counter_only ? excess : INT64_MAX, excess, last.lent == nullptr});
        }
        engine.lane_pool().give(own);
        engine.lane_pool().give(lent);
    }
    if (recorder) thread.node = recorder->write(thread.index, thread.place(), thread.leave, out[recorder->lane(1)]);
    engine.copy(thread.delay, out);
    engine.lane_pool().give(out);
}

void leave_after_root(Engine& engine, Thread& thread, Collective& c, uint32_t member, const Last& last, bool recorded) {
    const CostClass after{cost_class(c, CostKind::collective_tail, member)}, own{cost_class(c, CostKind::collective_own, member)};
    if (engine.learning()) {
        const int64_t begin = std::max(thread.enter, last.enter);
        if (thread.leave < begin) return;
        const int64_t took = thread.leave - begin - noise_after(thread.pieces, begin);
        if (last.enter >= thread.enter)
            engine.model().learn(after, took, Model::clean);
        else
            engine.model().learn(own, took, thread.enter - last.enter);
        return;
    }
    Cost latency = engine.model().cost(after), alone = engine.model().cost(own);
    if (!latency.known) latency = {0, alone.mid, alone.high, false};
    if (!alone.known) alone = {0, latency.mid, latency.high, false};
    int64_t* root_delay = engine.lane_pool().take();
    for (size_t i = 0; i < engine.lanes().count; ++i) root_delay[i] = last.enter - last.arrival[i];
    solve(engine, {thread.enter, thread.leave, thread.delay, &thread.pieces, alone, recorded ? &thread : nullptr, thread.enter_node},
          {{last.enter, root_delay, latency, last.node}}, thread.delay);
    engine.lane_pool().give(root_delay);
}

// The most that removed noise of one member took of the time from `from` to `to`, in lanes: of those whose messages `of` waited for,
// who have come for certain.
void most_of_one_member(const Lanes& lanes, const Collective& c, uint32_t of, int64_t from, int64_t to, int64_t* most, int64_t* lent) {
    static thread_local std::vector<Collective::Noise> noise;
    const std::vector<uint8_t> waited_for = c.instance.waited_for(of);
    noise.clear();
    for (const Collective::Noise& one : c.noise)
        if (one.member == of || waited_for[one.member] > (one.completing ? 1 : 0)) noise.push_back(one);
    std::stable_sort(noise.begin(), noise.end(), [](const auto& a, const auto& b) { return a.member < b.member; });
    std::fill_n(most, lanes.count, 0);
    for (size_t first = 0; first < noise.size();) {
        std::fill_n(lent, lanes.count, 0);
        size_t next = first;
        for (; next < noise.size() && noise[next].member == noise[first].member; ++next) {
            const NoisePiece& piece = noise[next].piece;
            const int64_t n = std::min(piece.end, to) - std::max(piece.begin, from);
            if (n > 0) remove_noise(lent, lanes.masks[piece.account].data(), n, lanes.count);
        }
        raise_to(most, lent, lanes.count);
        first = next;
    }
}

// The end of a call that follows its structure, for the event graph. What removed noise took from what the structure does not explain is
// an event of its own behind the member's last step; `most`: that, in lanes, none where there is none. `before`: the delay at enter.
void record_by_structure(Recorder& recorder, Thread& thread, const Collective& c, uint32_t member, const Last& last, const int64_t* most,
                         const int64_t* before, int64_t delay) {
    const int64_t predicted = c.instance.measured_end(member), wrong = thread.leave - predicted;
    const int64_t* end = c.instance.approximated_end(member);
    const size_t all = recorder.lane(1);
    uint64_t own_end = c.instance.end_node(member);
    const auto gain = [&](size_t lane) { return most ? std::min(wrong, most[lane]) : 0; };
    if (most) {
        std::map<uint32_t, int64_t> by_member;  // what removed noise of each took
        const auto overlap = [&](const Collective::Noise& noise) {
            const int64_t n = std::min(noise.piece.end, thread.leave) - std::max(noise.piece.begin, predicted);
            return recorder.removes(noise.piece.account) ? std::max<int64_t>(0, n) : 0;
        };
        for (const Collective::Noise& noise : c.noise) by_member[noise.member] += overlap(noise);
        uint32_t first = c.noise.front().member;
        for (const auto& [other, ns] : by_member)
            if (ns > by_member[first] || (ns == by_member[first] && other < first)) first = other;
        int64_t second = 0;
        for (const auto& [other, ns] : by_member)
            if (other != first) second = std::max(second, ns);
        recorder.start();
        recorder.candidate_by(own_end, [&](size_t lane) { return predicted - end[lane]; });
        int64_t left = gain(all);
        for (const Collective::Noise& noise : c.noise) {
            if (noise.member != first) continue;
            const int64_t n = overlap(noise), counted = std::min(n, left);
            left -= counted;
            const int64_t without = std::min(wrong, std::max(second, by_member[first] - n));
            recorder.noise(c.members[first].thread->index, noise.piece, thread.place(), counted, gain(all) - without);
        }
        own_end = recorder.write(thread.index, thread.place(), thread.leave, predicted - end[all] + gain(all));
    }
    recorder.start();
    recorder.candidate_by(own_end, [&](size_t lane) { return predicted - end[lane] + gain(lane); });
    recorder.candidate_by(thread.enter_node, [&](size_t lane) { return before[lane] + thread.leave - thread.enter; });
    // The way through the messages is longer than from the last that came, where the structure is not far off.
    if (last.any && (most || wrong + c.instance.structure().hop + c.instance.structure().own < 0))
        recorder.candidate_by(
            last.node, [&](size_t lane) { return thread.leave - last.arrival[lane] - std::min<int64_t>(0, thread.leave - last.enter); });
    thread.node = recorder.write(thread.index, thread.place(), thread.leave, delay);
}

// Where the structure is known: what it predicts, moved by what it was wrong by in the measured run; a first call may do more than
// the others. What it took longer than the structure explains may be the noise of the member that had most of it then, which is
// the least that can have been lost there (between calls one after the other, more). Never before what the operation itself demands.
int64_t* leave_by_structure(Engine& engine, Thread& thread, const Collective& c, uint32_t member, const Last& last) {
    const Lanes& lanes = engine.lanes();
    int64_t* delay = engine.lane_pool().take();
    const int64_t predicted = c.instance.measured_end(member), wrong = thread.leave - predicted;
    const int64_t doubt = 4 * c.instance.structure().error + c.instance.structure().own / 4;  // a send may cost other than a receive
    const int64_t* end = c.instance.approximated_end(member);
    int64_t *most = nullptr, *lent = nullptr;
    const int64_t usual = engine.counter_only ? 0 : 8 * c.instance.structure().error;
    if (wrong > usual && !c.noise.empty()) {
        most = engine.lane_pool().take();
        lent = engine.lane_pool().take();
        most_of_one_member(lanes, c, member, predicted, thread.leave, most, lent);
    }
    for (size_t i = 0; i < lanes.count; ++i) {
        int64_t leave = end[i] + wrong;
        if (most) leave -= std::min(wrong, most[i]);
        if (lanes.bounded() && i == lanes.low) leave = end[i] + std::min<int64_t>(wrong, 0) - doubt;  // what is unexplained: noise or not
        if (lanes.bounded() && i == lanes.high)
            leave = engine.injection ? end[i] + wrong + doubt : std::min(end[i] + wrong + doubt, thread.leave);
        if (last.any) leave = std::max(leave, last.arrival[i] + std::min<int64_t>(0, thread.leave - last.enter));
        leave = std::max(leave, thread.enter - thread.delay[i]);
        delay[i] = thread.leave - leave;
        if (engine.faults().residual_of_binding) ++delay[i];
    }
    if (Recorder* recorder = engine.recorder())
        record_by_structure(*recorder, thread, c, member, last, most, thread.delay, delay[recorder->lane(1)]);
    engine.lane_pool().give(most);
    engine.lane_pool().give(lent);
    return delay;
}

}  // namespace

void publish_collective(Engine& engine, Thread& thread, const Operation& operation) {
    uint32_t member = 0;
    Collective* collective = engine.arrive(thread,
                                           {.comm = operation.comm,
                                            .root = operation.peer,
                                            .operation = operation.collective,
                                            .size = operation.size,
                                            .enter = thread.enter,
                                            .leave = thread.leave,
                                            .delay = thread.delay,
                                            .pieces = &thread.pieces,
                                            .node = thread.enter_node},
                                           &member);
    if (collective) thread.dependencies.push_back({.kind = Dependency::Kind::collective, .collective = collective, .member = member});
}

void publish_start_or_end(Engine& engine, Thread& thread, uint8_t operation) {
    if (engine.world() == UINT32_MAX || !thread.carries_rank) return;
    publish_collective(engine, thread, {.kind = Operation::Kind::collective, .collective = operation, .comm = engine.world()});
}

bool collective_ready(Collective& c, uint32_t member) {
    if (c.members[member].released) return true;
    if (c.instance.active()) return c.instance.done(member);
    if (c.arrived == c.members.size()) return true;
    switch (c.waits) {
        case Waits::for_nobody:
            return true;
        case Waits::for_root:
            return member == c.root || c.root_came;
        case Waits::root_for_all:
            return member != c.root;
        case Waits::for_lower:
            while (c.prefix < c.members.size() && c.members[c.prefix].thread) ++c.prefix;
            return member < c.prefix;
        case Waits::for_all:
        case Waits::for_all_likely:
            return false;
    }
    return false;
}

bool follows_structure(const Collective& c, uint32_t member) {
    return c.instance.active() && c.instance.done(member);
}

void conclude_collective(Engine& engine, Thread& thread, const Dependency& dependency) {
    Collective& c = *dependency.collective;
    Last last = last_of(engine, c, dependency.member, thread);
    int64_t* by_structure =
        follows_structure(c, dependency.member) ? leave_by_structure(engine, thread, c, dependency.member, last) : nullptr;
    if (!last.any)
        solve(engine, {thread.enter, thread.leave, thread.delay, &thread.pieces, {}, by_structure ? nullptr : &thread, thread.enter_node},
              {}, thread.delay);
    else if (c.waits == Waits::for_root)
        leave_after_root(engine, thread, c, dependency.member, last, !by_structure);
    else
        leave_after_all(engine, thread, c, dependency.member, last, !by_structure);
    if (by_structure) {
        engine.concluded.tail = 0;  // noise has struck its steps
        const Lanes& lanes = engine.lanes();
        if (lanes.bounded() && !c.instance.structure().beyond_doubt) {
            by_structure[lanes.low] = std::max(by_structure[lanes.low], thread.delay[lanes.low]);
            by_structure[lanes.high] = std::min(by_structure[lanes.high], thread.delay[lanes.high]);
        }
        engine.copy(thread.delay, by_structure);
        engine.lane_pool().give(by_structure);
    }
    engine.lane_pool().give(last.lent);
    engine.member_done(&c);
}

// As one of several things that a call waits for: a non-blocking collective at its completion.
void constrain_collective(Engine& engine, Thread& thread, const Dependency& dependency, Scratch& scratch) {
    Collective& c = *dependency.collective;
    Last last = last_of(engine, c, dependency.member, thread);
    const CostClass after = cost_class(c, CostKind::collective_tail, dependency.member),
                    own{CostKind::wait_own, true, false, 0, thread.completions};
    if (last.any && engine.learning()) {
        if (thread.dependencies.size() == 1 && last.enter >= thread.enter && thread.leave >= last.enter)
            engine.model().learn(after, thread.leave - last.enter - noise_after(thread.pieces, last.enter), Model::clean);
    } else if (last.any) {
        int64_t* delay = engine.lane_pool().take();
        for (size_t i = 0; i < engine.lanes().count; ++i) delay[i] = last.enter - last.arrival[i];
        scratch.lent.push_back(delay);
        scratch.constraints.push_back({last.enter, delay, engine.model().cost(after), last.node});
        const Cost& wait = engine.model().cost(own);
        scratch.own = {std::max(scratch.own.low, wait.low), std::max(scratch.own.mid, wait.mid), std::max(scratch.own.high, wait.high)};
    }
    engine.lane_pool().give(last.lent);
    engine.member_done(&c);
}

}  // namespace polter::replay::rules
