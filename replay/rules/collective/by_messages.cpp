// SPDX-License-Identifier: BSD-3-Clause
// Leaving a collective by the messages that it is made of.
//
// In words: its members do their steps as the structure has them (model/collective_execution.cpp), in the measured run and in every
// scenario; what that was wrong by in the measured run stays.
#include <algorithm>
#include <map>
#include <tuple>

#include "collective.hpp"

namespace polter::replay::rules {

namespace {

// By member: the noise of those whose messages `of` waited for, who have come for certain, and its own.
void noise_on_the_way(const Collective& c, uint32_t of, std::vector<Collective::Noise>& noise) {
    noise.clear();
    if (c.noise.empty()) return;
    const std::vector<uint8_t> waited_for = c.instance.waited_for(of);
    for (const Collective::Noise& one : c.noise)
        if (one.member == of || waited_for[one.member] > (one.completing ? 1 : 0)) noise.push_back(one);
    std::stable_sort(noise.begin(), noise.end(), [](const auto& a, const auto& b) { return a.member < b.member; });
}

// The most that removed noise of one member took of the time from `from` to `to`, in lanes.
void most_of_one_member(const Lanes& lanes, const std::vector<Collective::Noise>& noise, int64_t from, int64_t to, int64_t* most,
                        const LaneVector& buffer) {
    std::fill_n(most, lanes.count, 0);
    for (size_t first = 0; first < noise.size();) {
        std::fill_n(buffer.get(), lanes.count, 0);
        size_t next = first;
        for (; next < noise.size() && noise[next].member == noise[first].member; ++next) {
            const NoisePiece& piece = noise[next].piece;
            const int64_t n = std::min(piece.end, to) - std::max(piece.begin, from);
            if (n > 0) remove_noise(buffer, lanes.masks[piece.account].data(), n, lanes.count);
        }
        raise_to(most, buffer, lanes.count);
        first = next;
    }
}

// As much, where it is not known when within its call noise hit: what any of them took, for they wait one for the other.
void most_of_all(Engine& engine, const std::vector<Collective::Noise>& noise, int64_t from, int64_t to, int64_t* most) {
    static thread_local std::vector<NoisePiece> pieces;
    pieces.clear();
    for (const Collective::Noise& one : noise)
        if (one.piece.end > from) pieces.push_back(one.piece);
    union_of(engine, pieces, from, to, most);
}

// What the messages do not explain of a collective's end, and when noise may have been the reason. `of_all`: of all of them together.
struct Unexplained {
    int64_t from = 0, upto = 0, ns = 0;
    bool of_all = false;
};

// For the event graph, the noise behind `gain` in the scenario "all": that of the member that had most of it.
void record_of_one_member(Recorder& recorder, const Thread& thread, const Collective& c, Unexplained unexplained, int64_t gain,
                          std::vector<Collective::Noise> on_the_way) {
    std::map<uint32_t, int64_t> by_member;  // what removed noise of each took
    const auto overlap = [&](const Collective::Noise& noise) {
        const int64_t n = std::min(noise.piece.end, unexplained.upto) - std::max(noise.piece.begin, unexplained.from);
        return recorder.removes(noise.piece.account) ? std::max<int64_t>(0, n) : 0;
    };
    for (const Collective::Noise& noise : on_the_way) by_member[noise.member] += overlap(noise);
    uint32_t first = on_the_way.front().member;
    for (const auto& [other, ns] : by_member)
        if (ns > by_member[first] || (ns == by_member[first] && other < first)) first = other;
    int64_t second = 0;
    for (const auto& [other, ns] : by_member)
        if (other != first) second = std::max(second, ns);
    int64_t left = gain;
    for (const Collective::Noise& noise : on_the_way) {
        if (noise.member != first) continue;
        const int64_t n = overlap(noise), counted = std::min(n, left);
        left -= counted;
        const int64_t without = std::min(unexplained.ns, std::max(second, by_member[first] - n));
        recorder.noise(c.members[first].thread->index, noise.piece, thread.place(), counted, gain - without);
    }
}

// … or that of all; in the order in which it hit each event counts by what it adds.
void record_of_all(Recorder& recorder, const Thread& thread, const Collective& c, Unexplained unexplained, int64_t gain,
                   std::vector<Collective::Noise> on_the_way) {
    std::sort(on_the_way.begin(), on_the_way.end(), [](const Collective::Noise& a, const Collective::Noise& b) {
        return std::tie(a.piece.begin, a.member, a.piece.end, a.piece.account) <
               std::tie(b.piece.begin, b.member, b.piece.end, b.piece.account);
    });
    int64_t left = gain, reached = unexplained.from;
    for (const Collective::Noise& noise : on_the_way) {
        if (!recorder.removes(noise.piece.account)) continue;
        const int64_t end = std::min(noise.piece.end, unexplained.upto), from = std::max(noise.piece.begin, reached);
        const int64_t counted = std::clamp<int64_t>(end - from, 0, left);
        reached = std::max(reached, end);
        left -= counted;
        recorder.noise(c.members[noise.member].thread->index, noise.piece, thread.place(), counted);
    }
}

// The end of a call that follows its structure, for the event graph. What removed noise took from what the structure does not explain is
// an event of its own behind the member's last step; `most`: that, in lanes, none where there is none; `on_the_way`: the noise that it is
// of. `before`: the delay at enter.
void record_by_structure(Recorder& recorder, Thread& thread, const Collective& c, uint32_t member, const Last& last,
                         const Unexplained& unexplained, const int64_t* most, const std::vector<Collective::Noise>& on_the_way,
                         const int64_t* before, int64_t delay) {
    const int64_t predicted = c.instance.measured_end(member), wrong = unexplained.ns;
    const int64_t* end = c.instance.approximated_end(member);
    const size_t all = recorder.lane(1);
    uint64_t own_end = c.instance.end_node(member);
    const auto gain = [&](size_t lane) { return most ? std::min(wrong, most[lane]) : 0; };
    if (most) {
        recorder.start();
        recorder.candidate_by(own_end, [&](size_t lane) { return predicted - end[lane]; });
        (unexplained.of_all ? record_of_all : record_of_one_member)(recorder, thread, c, unexplained, gain(all), on_the_way);
        own_end = recorder.write(thread.index, thread.place(), thread.leave, predicted - end[all] + gain(all));
    }
    recorder.start();
    recorder.candidate_by(own_end, [&](size_t lane) { return predicted - end[lane] + gain(lane); });
    recorder.candidate_by(thread.enter_node, [&](size_t lane) { return before[lane] + thread.leave - thread.enter; });
    // The way through the messages is longer than from the last that came, unless the structure is far off.
    const auto after_last = [&](size_t lane) {
        return thread.leave - last.arrival[lane] - std::min<int64_t>(0, thread.leave - last.enter);
    };
    bool binds = most != nullptr;
    for (size_t w = 0; last.any && w < recorder.watched(); ++w) {
        const size_t lane = recorder.lane(w);
        binds = binds || after_last(lane) < predicted - end[lane] + gain(lane);
    }
    if (last.any && binds) recorder.candidate_by(last.node, after_last);
    thread.node = recorder.write(thread.index, thread.place(), thread.leave, delay);
}

}  // namespace

// Eager messages share links with what the structure does not show, too, and not just one end of theirs at a time: about one message, where
// the leave times leave as much open.
static int64_t sharing_uncertainty(const Structure& structure, size_t members) {
    if (!structure.link || structure.own_data == 0 || structure.eager_ppm == 0) return 0;  // 0: none is eager
    if (structure.link_elsewhere) return structure.own_data;
    const bool whole = (structure.pattern.up != Shape::none && structure.pattern.cargo_up == Cargo::all) ||
                       (structure.pattern.down != Shape::none && structure.pattern.cargo_down == Cargo::all);
    return std::min(whole ? structure.own_data : structure.own_data / static_cast<int64_t>(members), 4 * structure.error);
}

// Where the structure is known: what it predicts, moved by what it was wrong by in the measured run; a first call may do more than
// the others. What it took longer than the structure explains may be the noise of the member that had most of it then, which is
// the least that can have been lost there (between calls one after the other, more). Where only counters tell of noise, its steps have not
// been hit by it: then it may be the noise of all who were waited for, or of one of them, whenever it hit that one. Never before what the
// operation itself demands.
LaneVector leave_by_structure(Engine& engine, Thread& thread, const Collective& c, uint32_t member, const Last& last) {
    const Lanes& lanes = engine.lanes();
    LaneVector delay = engine.lane_pool().take();
    const int64_t predicted = c.instance.measured_end(member), wrong = thread.leave - predicted;
    // A send may cost other than a receive, unless the leave times agree with the algorithm: they would show it.
    const Structure& structure = c.instance.structure();
    const int64_t error = member == c.root ? std::max(structure.error, structure.root_error) : structure.error;
    const int64_t uncertainty = 4 * error + (structure.certain ? 0 : structure.own / 4) + sharing_uncertainty(structure, c.members.size());
    const int64_t* end = c.instance.approximated_end(member);
    LaneVector most;  // none: nothing but the structure explains the end
    const int64_t unusual = 8 * c.instance.structure().error, usual = engine.facts().counter_only ? 0 : unusual;
    static thread_local std::vector<Collective::Noise> on_the_way;
    on_the_way.clear();
    if (wrong > usual) noise_on_the_way(c, member, on_the_way);
    constexpr int64_t little_ns = 1000;  // less is the structure's own error
    // An algorithm that would have taken longer is another one, or its costs are; so it may be where it leaves much and nothing was hit.
    if (!engine.faults().unexplained_is_certain && last.any && (wrong < 0 || (!structure.certain && on_the_way.empty())))
        thread.uncertainty.add(std::max<int64_t>(0, std::abs(wrong) - (structure.certain ? unusual + little_ns : 0)));
    // A message that noise delays leaves before the predicted end by the time that it is under way.
    const bool earlier = last.any && wrong > usual + little_ns && !engine.facts().counter_only;
    Unexplained unexplained{.from = earlier ? std::min(last.enter, predicted) : predicted,
                            .upto = thread.leave,
                            .ns = wrong,
                            .of_all = engine.facts().counter_only && !engine.faults().noise_of_one};
    bool anywhere = false;
    if (wrong > usual && !on_the_way.empty()) {
        most = engine.lane_pool().take();
        const LaneVector buffer = engine.lane_pool().take();
        if (unexplained.of_all) {
            most_of_all(engine, on_the_way, unexplained.from, unexplained.upto, most);
            if (structure.certain && !engine.faults().counted_where_read) {
                LaneVector of_one = engine.lane_pool().take();
                most_of_one_member(lanes, on_the_way, INT64_MIN, INT64_MAX, of_one, buffer);
                anywhere = of_one[lanes.all] > most[lanes.all];
                if (anywhere) {
                    most = std::move(of_one);
                    unexplained = {.from = INT64_MIN, .upto = INT64_MAX, .ns = wrong};
                }
            }
        } else {
            most_of_one_member(lanes, on_the_way, unexplained.from, unexplained.upto, most, buffer);
        }
    }
    const bool certain = most && lanes.bounded() && !anywhere && only_removed(c, member, predicted, lanes);
    // Not before what the operation demands, nor before the call began.
    const auto delay_of = [came = last.any ? last.arrival : nullptr, before = thread.delay.get(), at_enter = thread.enter,
                           at_leave = thread.leave, since_last = std::min<int64_t>(0, thread.leave - last.enter),
                           fault = engine.faults().residual_of_binding ? 1 : 0](size_t lane, int64_t leave) {
        if (came) leave = std::max(leave, came[lane] + since_last);
        return at_leave - std::max(leave, at_enter - before[lane]) + fault;
    };
    int64_t* const of_lane = delay;
    for (size_t i = 0, estimates = lanes.bounded() ? lanes.estimates : lanes.count; i < estimates; ++i)
        of_lane[i] = delay_of(i, end[i] + wrong - (most ? std::min(wrong, most[i]) : 0));
    if (lanes.bounded()) {
        const size_t low = lanes.low, high = lanes.high;
        of_lane[low] = delay_of(low, end[low] + std::min<int64_t>(wrong, 0) - uncertainty);  // what is unexplained: noise or not
        const int64_t latest = end[high] + wrong + uncertainty - (certain ? std::clamp<int64_t>(wrong - unusual, 0, most[high]) : 0);
        of_lane[high] = delay_of(high, engine.injection() ? latest : std::min(latest, thread.leave));
        // Less noise may bring messages together on a link, so that the lane with the least time is not the first in each call.
        if (structure.link) {
            of_lane[low] = std::max(of_lane[low], of_lane[lanes.all]);
            of_lane[high] = std::min(of_lane[high], of_lane[lanes.all]);
        }
    }
    if (Recorder* recorder = engine.recorder())
        record_by_structure(*recorder, thread, c, member, last, unexplained, most, on_the_way, thread.delay, delay[recorder->lane(1)]);
    return delay;
}

}  // namespace polter::replay::rules
