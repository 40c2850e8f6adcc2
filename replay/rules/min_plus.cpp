// SPDX-License-Identifier: BSD-3-Clause
// A call that waits.
//
// In words: the call waits until the last of the things it waits for has happened, or not at all if that was before it began; from
// there, `m`, it has work of its own, its tail. Waiting is elastic and noise in it is absorbed; the tail keeps its length, less the
// noise removed from it. Each dependency stays a constraint of its own, "not before its time plus its cost". The one that bound in
// the measured run (by the model, the latest) has the cost that was measured; the others have the model's, clamped so that none
// demands more than was measured. With D the delay and r ≥ 0 how much earlier a constraint would have let the call end:
//
//     D(leave) = min over constraints (D(dependency) + r) + removed noise of the tail
//
// Noise of the tail that is not removed stays on every constraint: r is what is left after all of it.
//
// A call that waits for its own transfers (rules/rma/rma.cpp) waits as long as these take, too. Noise in that counts by as much as the call
// was longer, from the last of it on.
#include <algorithm>
#include <cstdint>

#include "internal.hpp"

namespace polter::replay::rules {

namespace {

// Where the waiting ends, and how much noise lies behind that, for one choice of costs.
struct Tail {
    int64_t begin = 0, noise = 0;
};

Tail tail_from(const Interval& call, int64_t begin) {
    begin = std::clamp(begin, call.enter, std::max(call.enter, call.leave));
    return {begin, noise_after(*call.pieces, begin)};
}

// From `from`, or as much later that no more than `most` of noise lies behind it.
Tail tail_with(const Interval& call, int64_t from, int64_t most) {
    Tail tail = tail_from(call, from);
    int64_t begin = tail.begin, end = std::max(tail.begin, call.leave);
    while (begin < end) {
        const int64_t middle = begin + (end - begin) / 2;
        if (noise_after(*call.pieces, middle) > most)
            begin = middle + 1;
        else
            end = middle;
    }
    return tail_from(call, begin);
}

// How much of the end was the call's own work is known within limits; how much longer than without noise the call was tells which.
Tail tail_of_own_work(const Interval& call, const std::vector<Constraint>& constraints, int64_t expected_end) {
    const auto arrived = [&](int64_t works) {
        int64_t arrival = call.enter;
        for (const Constraint& constraint : constraints)
            arrival = std::max({arrival, constraint.time, constraint.time + constraint.cost.mid - works});
        return arrival;
    };
    const Tail least = tail_from(call, arrived(call.own.low)), most = tail_from(call, arrived(call.own.high));
    const int64_t longer = std::clamp<int64_t>(call.leave - expected_end, least.noise, most.noise);
    return tail_with(call, most.begin, longer);
}

int64_t residual(const Interval& call, int64_t noise, int64_t time, int64_t cost, const Faults& faults) {
    return std::max<int64_t>(faults.unclamped_residual ? INT64_MIN : 0, call.leave - noise - time - cost);
}

// Where a trace has only counters at MPI events, all noise of a call seems to end with it; how much of that lies in the tail is
// told by how much longer the tail was than it is without noise, and by how much calls without noise vary. At least what the wait state
// could not hold.
int64_t counted_noise(const Interval& call, const Tail& tail, int64_t tail_without_noise, const Cost& cost) {
    int64_t all = 0;
    for (const NoisePiece& piece : *call.pieces) all += piece.end - piece.begin;
    const int64_t least = std::max<int64_t>(0, all - (tail.begin - call.enter));
    const int64_t longer = std::clamp<int64_t>(call.leave - tail.begin - tail_without_noise, 0, tail.noise);
    return std::clamp(cost.noise_of(longer), std::min(least, tail.noise), tail.noise);
}

void write_end(Recorder& recorder, const Interval& call, const int64_t* delay) {
    Thread& thread = *call.recorded;
    thread.node = recorder.write(thread.index, thread.place(), call.leave, delay[recorder.lane(1)]);
}

}  // namespace

Solved solve(Engine& engine, const Interval& call, const std::vector<Constraint>& constraints, int64_t* result) {
    const Lanes& lanes = engine.lanes();
    Solved solved;
    if (lanes.count == 0) return solved;
    CallEnd& end = solved.end;
    end.tail = call.leave - call.enter;
    end.waited_until = call.enter;
    end.approximated_until = call.enter - call.delay[lanes.all];
    Recorder* recorder = call.recorded ? engine.recorder() : nullptr;
    if (constraints.empty() && !call.elastic) {  // own work: all of it is tail
        if (recorder) {
            recorder->start();
            recorder->candidate(call.node, call.delay, 0);
            for (const NoisePiece& piece : *call.pieces)
                recorder->noise(call.recorded->index, piece, call.recorded->place(), piece.end - piece.begin);
        }
        if (result != call.delay) engine.copy(result, call.delay);
        for (const NoisePiece& piece : *call.pieces)
            remove_noise(result, lanes.masks[piece.account].data(), piece.end - piece.begin, lanes.count);
        for (const NoisePiece& piece : *call.pieces) {
            end.noise += piece.end - piece.begin;
            end.removed += (piece.end - piece.begin) & lanes.masks[piece.account][lanes.all];
        }
        if (recorder) write_end(*recorder, call, result);
        return solved;
    }

    const Cost waits = call.elastic ? call.own : Cost();    // of its own transfers
    const int64_t works = call.elastic ? 0 : call.own.mid;  // … or its own work
    int64_t arrival = call.enter + waits.mid, earliest = call.enter, latest = call.enter + waits.high;
    int64_t approximated_arrival = call.enter - call.delay[lanes.all] + waits.mid;
    int64_t bound_end = call.enter + call.own.mid;
    const Constraint* bound = nullptr;  // none: the call's own beginning
    for (const Constraint& constraint : constraints) {
        arrival = std::max({arrival, constraint.time, constraint.time + constraint.cost.mid - works});
        // In the lower bound noise counts from when the message can have arrived: as soon as its least cost and the most own work allow.
        const int64_t least_of_cost = constraint.cost.known ? constraint.cost.usual_low() : constraint.cost.low;
        const int64_t under_way = engine.faults().flight_counts ? 0 : std::max<int64_t>(0, least_of_cost - call.own.high);
        earliest = std::max(earliest, constraint.time + (call.elastic || engine.facts().counter_only ? 0 : under_way));
        latest = std::max({latest, constraint.time, constraint.time + constraint.cost.high});  // own work may lie before the waiting
        approximated_arrival = std::max(approximated_arrival,
                                        constraint.time - constraint.delay[lanes.all] + std::max<int64_t>(0, constraint.cost.mid - works));
        if (constraint.time + constraint.cost.mid > bound_end) {
            bound = &constraint;
            bound_end = constraint.time + constraint.cost.mid;
        }
    }
    Tail tail = tail_from(call, arrival), tail_low = tail_from(call, earliest), tail_high = tail_from(call, latest);
    if (!call.elastic && !constraints.empty() && !engine.facts().counter_only && !call.pieces->empty()) {
        const int64_t before = tail.begin;
        tail = tail_of_own_work(call, constraints, bound_end);
        approximated_arrival += tail.begin - before;
    }
    end.tail = call.leave - tail.begin;
    if (call.elastic && !engine.facts().counter_only && !call.pieces->empty()) {
        tail = tail_with(call, earliest, std::max<int64_t>(0, call.leave - arrival));
        tail_high = tail_with(call, earliest, std::max<int64_t>(0, call.leave - latest));
    }
    if (constraints.empty()) approximated_arrival = tail.begin - call.delay[lanes.all];  // its transfers take as long
    end.waited_until = tail.begin;
    end.approximated_until = approximated_arrival;
    const int64_t placed = tail.noise, placed_high = tail_high.noise;
    if (engine.facts().counter_only && tail.noise > 0) {
        tail.noise = counted_noise(call, tail, works, bound ? bound->cost : call.own);
        tail_high.noise = std::min(tail.noise, counted_noise(call, tail_high, INT64_MAX / 4, call.own));
    }

    // A message's cost is the measured one as long as all that the call depends on keeps its order and distance; else it may be another.
    bool moved = false;
    if (bound && lanes.bounded()) {
        const int64_t with = bound->delay[lanes.all];
        moved = call.delay[lanes.all] != with;
        for (const Constraint& constraint : constraints) moved = moved || constraint.delay[lanes.all] != with;
        for (const NoisePiece& piece : *call.pieces) moved = moved || lanes.masks[piece.account][lanes.all] != 0;
    }

    // All that is read of the vectors comes first: the result may be the call's own.
    constexpr size_t few = 8;  // not of the heap
    LaneBound some[few];
    std::vector<LaneBound> many;
    if (constraints.size() >= few) many.resize(constraints.size() + 1);
    LaneBound* const bounds = many.empty() ? some : many.data();
    size_t bounds_count = 0;
    int64_t low = INT64_MAX / 4, high = INT64_MAX / 4;
    const bool low_swap = engine.faults().swap_bounds;
    const auto relax = [&](const int64_t* from, int64_t time, const Cost& cost, bool binds) {
        int64_t r = binds ? 0 : residual(call, tail.noise, time, cost.mid, engine.faults());
        if (binds && engine.faults().residual_of_binding) r += 1;
        bounds[bounds_count++] = {from, r};
        if (!lanes.bounded()) return;
        int64_t r_low = binds ? 0 : residual(call, tail_low.noise, time, cost.low, engine.faults());
        int64_t r_high = binds ? 0 : residual(call, tail_high.noise, time, cost.high, engine.faults());
        if (binds && moved) {
            r_low = residual(call, tail_low.noise, time, cost.usual_low(), engine.faults());
            r_high = std::min<int64_t>(0, call.leave - tail_high.noise - time - cost.usual_high());
        }
        low = std::min(low, from[lanes.low] + (low_swap ? r_high : r_low));
        high = std::min(high, from[lanes.high] + (low_swap ? r_low : r_high));
    };
    relax(call.delay, call.enter, call.own, bound == nullptr);
    for (const Constraint& constraint : constraints) {
        if (engine.faults().drop_dependency && bound != &constraint) continue;
        relax(constraint.delay, constraint.time, constraint.cost, bound == &constraint);
    }
    if (recorder) {  // what bound comes first: of equal ones the first is taken
        const auto candidate = [&](uint64_t node, const int64_t* from, int64_t time, const Cost& cost, bool binds) {
            recorder->candidate(node, from, binds ? 0 : residual(call, tail.noise, time, cost.mid, engine.faults()));
        };
        recorder->start();
        if (bound) candidate(bound->node, bound->delay, bound->time, bound->cost, true);
        candidate(call.node, call.delay, call.enter, call.own, bound == nullptr);
        for (const Constraint& constraint : constraints)
            if (&constraint != bound) candidate(constraint.node, constraint.delay, constraint.time, constraint.cost, false);
    }
    least_of(result, {bounds, bounds_count}, lanes.estimates);
    for (const NoisePiece& piece : *call.pieces) {
        const auto overlap = [&](int64_t begin) { return std::max<int64_t>(0, piece.end - std::max(piece.begin, begin)); };
        int64_t n = overlap(tail.begin), n_high = overlap(tail_high.begin);
        if (placed != tail.noise) n = static_cast<int64_t>(static_cast<__int128>(n) * tail.noise / placed);
        if (placed_high != tail_high.noise) n_high = static_cast<int64_t>(static_cast<__int128>(n_high) * tail_high.noise / placed_high);
        const int64_t* mask = lanes.masks[piece.account].data();
        if (engine.faults().negative_removal && piece.account > 0) n = -n;
        if (n != 0) remove_noise(result, mask, n, lanes.estimates);
        end.noise += n;
        end.removed += n & mask[lanes.all];
        if (recorder) recorder->noise(call.recorded->index, piece, call.recorded->place(), n);
        if (lanes.bounded()) {
            low += overlap(tail_low.begin) & mask[lanes.low];
            high += n_high & mask[lanes.high];
        }
    }
    if (lanes.bounded()) {
        if (!low_swap) {  // where some noise stays, r of the bounds may be of another tail
            low = std::max(low, result[lanes.all]);
            high = std::min(high, result[lanes.all]);
        }
        result[lanes.low] = low;
        // Only another order of tasks, locks or accesses, or links shared otherwise, makes anything later than it was.
        const bool ordered = !of(engine).farms && !of(engine).locks && !of(engine).accesses && !of(engine).links;
        result[lanes.high] = moved && ordered ? std::max<int64_t>(high, 0) : high;
    }
    if (recorder) write_end(*recorder, call, result);
    solved.spread = bound ? bound->cost.spread : 0;
    return solved;
}

}  // namespace polter::replay::rules
