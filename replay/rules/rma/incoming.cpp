// SPDX-License-Identifier: BSD-3-Clause
// Completions that wait for the transfers of others.
//
// In words: where a library keeps the transfers of a window in one list, those that its rank began and those that others began to it (SMPI
// does), MPI_Win_complete waits for all that are in the list as it looks: also for data that others put or get, which the standard leaves
// to MPI_Win_wait. No record says so; how it is found out, and what it costs: rules/rma/learn_incoming.cpp.
//
// In another scenario a completion waits for an access that has begun by then, and not for one that has not: noise makes such waits come
// and go. Only accesses and completions behind the same MPI_Win_post of the target can meet; an access that comes later belongs to what the
// target completes next, MPI_Win_wait at the latest. An access may depend on what its target does behind the completion; so the dependency
// is soft: where no thread can continue, the earliest completion does not wait.
//
// Such a call receives what it waits for one after the other, in the order of arrival, and each costs it some time: first the notices (of a
// wait), then the data. So with what arrives at a, and r the time to receive it and all that comes behind it,
//
//     end = max(beginning + own work + all that is received, max over what is received (a + r))
//
// in each lane, as in each lane other data may be in the list, and in another order. Whether a transfer is in the list can be a matter of
// nanoseconds, and decides about waits of its whole length, of which others then follow: the bounds hold both.
#include <algorithm>
#include <utility>

#include "replay/rules/internal.hpp"

namespace polter::replay {

namespace rules {

namespace {

// Behind the noise in the access.
const LaneVector& departure_delay(Engine& engine, const Match& match, Scratch& scratch) {
    const LaneVector& delay = scratch.vectors.emplace_back(engine.lane_pool().copy(match.send_delay));
    if (match.send_noise > 0)
        for (size_t i = 0; i < engine.lanes().count; ++i) delay[i] += match.send_noise_removed[i];
    return delay;
}

// What a call receives. `arrives`: when that is there, by lane; Order::absent in a lane in which this call does not receive it.
struct Received {
    int64_t time = 0;  // measured, when it begins
    Cost flight;
    int64_t takes = 0;  // ns
    uint64_t node = 0;
    bool measured = true;           // in the measured run, too
    const Match* notice = nullptr;  // none: an access
    LaneVector arrives;
};

// By lane, with a last entry for the measured run: how long it takes to receive each and all that comes behind it.
class Order {
  public:
    Order(const std::vector<Received>& received, size_t lanes) : received_(received), lanes_(lanes), rest_(received.size() * (lanes + 1)) {
        std::vector<std::pair<int64_t, size_t>> order;
        for (size_t lane = 0; lane <= lanes; ++lane) {
            order.clear();
            for (size_t k = 0; k < received.size(); ++k)
                if (const int64_t at = arrives(k, lane); at != absent) order.emplace_back(at, k);
            std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
                const bool first = received_[a.second].notice != nullptr, second = received_[b.second].notice != nullptr;
                return first != second ? first : a < b;
            });
            int64_t rest = 0;
            for (auto last = order.rbegin(); last != order.rend(); ++last)
                rest_[last->second * (lanes + 1) + lane] = rest += received[last->second].takes;
            all_.push_back(rest);
        }
    }
    int64_t rest(size_t k, size_t lane) const { return rest_[k * (lanes_ + 1) + lane]; }
    int64_t all(size_t lane) const { return all_[lane]; }
    static constexpr int64_t absent = INT64_MAX / 4;
    int64_t arrives(size_t k, size_t lane) const {
        const Received& of = received_[k];
        if (lane == lanes_) return of.measured ? of.time + of.flight.mid : absent;
        return of.arrives[lane];
    }

  private:
    const std::vector<Received>& received_;
    size_t lanes_;
    std::vector<int64_t> rest_, all_;
};

// The call begins with `own`, and receives them then.
void receive(Engine& engine, Thread& thread, int64_t own, const std::vector<Received>& received, Scratch& scratch) {
    const size_t lanes = engine.lanes().count;
    const Order order(received, lanes);
    const int64_t all = order.all(lanes), works = own + all;
    const auto by_all = [&](const int64_t* delay) {
        const LaneVector& later = scratch.vectors.emplace_back(engine.lane_pool().copy(delay));
        for (size_t i = 0; i < lanes; ++i) later[i] += all - order.all(i);
        return later.get();
    };
    for (Constraint& constraint : scratch.constraints) {
        constraint.delay = by_all(constraint.delay);
        for (int64_t* cost : {&constraint.cost.low, &constraint.cost.mid, &constraint.cost.high}) *cost += all;
    }
    scratch.entered = engine.lane_pool().copy(thread.delay);
    for (size_t i = 0; i < lanes; ++i) scratch.entered[i] += all - order.all(i);
    // Noise may have hit in any of the work, or while waiting for the last of it.
    scratch.own = {thread.pieces.empty() ? works : own, works, works, true};
    for (size_t k = 0; k < received.size(); ++k) {
        const Received& of = received[k];
        const LaneVector& delay = scratch.vectors.emplace_back(engine.lane_pool().take());
        const int64_t rest = of.measured ? order.rest(k, lanes) : 0;
        // What was not received here in the measured run is bound by the end that it would have led to.
        const int64_t time = of.measured ? of.time : thread.enter, under_way = of.measured ? of.flight.mid : 0;
        bool ever = false;
        for (size_t i = 0; i < lanes; ++i) {
            delay[i] = never;
            if (order.arrives(k, i) == Order::absent) continue;
            delay[i] = time + under_way + rest - (order.arrives(k, i) + order.rest(k, i));
            ever = true;
        }
        if (!ever) continue;
        Cost cost = of.measured ? of.flight : Cost();
        for (int64_t* each : {&cost.low, &cost.mid, &cost.high}) *each += rest;
        scratch.constraints.push_back({time, delay, cost, of.node, of.notice});
    }
}

// When the call looks for transfers: measured and by lane, once it has waited for what it waits for first, and done its own work, with the
// noise that hit in that.
void look(Engine& engine, const Thread& thread, int64_t own, const Scratch& scratch, Accesses::Looked& looked) {
    const Lanes& lanes = engine.lanes();
    int64_t begin = thread.enter;
    looked.in = engine.lane_pool().take();
    for (size_t i = 0; i < lanes.count; ++i) looked.in[i] = thread.enter - thread.delay[i];
    for (const Constraint& constraint : scratch.constraints) {
        begin = std::max(begin, constraint.time);
        for (size_t i = 0; i < lanes.count; ++i) looked.in[i] = std::max(looked.in[i], constraint.time - constraint.delay[i]);
    }
    looked.time = begin + own;
    const LaneVector removed = engine.lane_pool().filled(0);
    for (const NoisePiece& piece : thread.pieces) {
        if (piece.begin < begin || piece.begin >= looked.time || engine.faults().looks_without_noise) continue;
        looked.time += piece.end - piece.begin;
        remove_noise(removed, lanes.masks[piece.account].data(), piece.end - piece.begin, lanes.count);
    }
    for (size_t i = 0; i < lanes.count; ++i) looked.in[i] += looked.time - begin - removed[i];
}

// Closer to each other than this, ns, an access and a completion may have come in the other order.
int64_t close(int64_t transfer) {
    return std::max<int64_t>(250, transfer / 40);
}

// An access. `completing`: by a completion, which receives what has begun as it looks; else by a wait, which receives the rest.
Received access_of(Engine& engine, const Dependency& dependency, const Accesses::Looked& looked, bool completing, Scratch& scratch) {
    const Match& match = *dependency.match;
    const AccessWait& wait = *dependency.access;
    const Lanes& lanes = engine.lanes();
    const LaneVector& delay = departure_delay(engine, match, scratch);
    Received of{.time = match.send_time + match.send_noise + wait.begins,  // noise in the access comes before its transfer
                .flight = wait.transfer,
                .takes = wait.takes,
                .node = match.send_noise > 0 ? match.departure_node : match.send_node,
                .arrives = engine.lane_pool().take()};
    of.measured = (of.time <= looked.time) == completing;
    const int64_t open = engine.faults().close_order_known ? 0 : close(wait.transfer.mid);
    for (size_t i = 0; i < lanes.count; ++i) {
        // The bounds have the order of the scenario; what is close, the completion awaits in the upper one only.
        const bool low = lanes.bounded() && i == lanes.low, high = lanes.bounded() && i == lanes.high;
        const size_t ordered = low || high ? lanes.all : i;
        const int64_t begun = of.time - delay[ordered] + (low ? open : high ? -open : 0);
        bool here = (begun <= looked.in[ordered]) == completing;
        if (engine.faults().accesses_always_wait) here = of.measured;
        of.arrives[i] = here ? of.time - delay[i] + wait.transfer.mid : Order::absent;
    }
    return of;
}

Received notice_of(Engine& engine, const Match& match, const NoticeCosts& costs, Scratch& scratch) {
    const LaneVector& delay = departure_delay(engine, match, scratch);
    Received of{.time = match.send_time + match.send_noise + match.place * costs.sends,
                .flight = costs.flight,
                .takes = costs.takes,
                .node = match.send_noise > 0 ? match.departure_node : match.send_node,
                .notice = &match,
                .arrives = engine.lane_pool().take()};
    for (size_t i = 0; i < engine.lanes().count; ++i) of.arrives[i] = of.time - delay[i] + costs.flight.mid;
    return of;
}

// An access that the completion does not wait for, as the call comes first in the scenario "all".
Received let_pass(Engine& engine, const Thread& thread, const AccessWait& wait) {
    Received of{.time = wait.until,
                .flight = wait.transfer,
                .takes = wait.takes,
                .node = thread.enter_node,
                .measured = wait.margin >= 0,
                .arrives = delay_if_first(engine, thread, wait)};
    for (size_t i = 0; i < engine.lanes().count; ++i)
        of.arrives[i] = of.measured && of.arrives[i] != never ? of.time - of.arrives[i] + wait.transfer.mid : Order::absent;
    return of;
}

// Where notices' costs are not known: they have those of calls of their kind, and data comes as it comes.
void wait_as_usual(Engine& engine, const Thread& thread, Scratch& scratch) {
    if (!engine.faults().completions_as_usual) {
        const int64_t own = scratch.own.low;
        scratch.own = {own, own, own, true};
        for (Constraint& constraint : scratch.constraints)
            if (!constraint.cost.known) constraint.cost.mid = std::min(constraint.cost.mid, own);
    }
    for (const Dependency& dependency : thread.dependencies) {
        if (!dependency.access || !dependency.access->incoming || !dependency.match) continue;
        const Match& match = *dependency.match;
        const AccessWait& wait = *dependency.access;
        const LaneVector& delay = departure_delay(engine, match, scratch);
        Cost cost = wait.transfer;
        for (int64_t* each : {&cost.low, &cost.mid, &cost.high}) *each += wait.takes;
        scratch.constraints.push_back(
            {match.send_time + match.send_noise + wait.begins, delay, cost, match.send_noise > 0 ? match.departure_node : match.send_node});
    }
}

}  // namespace

void constrain_incoming(Engine& engine, Thread& thread, Scratch& scratch) {
    Accesses* accesses = of(engine).accesses.get();
    if (!accesses) return;
    const auto incoming = [](const Dependency& of) { return of.access && of.access->incoming; };
    const auto first = std::find_if(thread.dependencies.begin(), thread.dependencies.end(), incoming);
    if (first == thread.dependencies.end()) return;
    const bool completing = thread.kind == CallKind::win_complete;
    const auto told =
        std::find_if(thread.dependencies.begin(), thread.dependencies.end(), [](const auto& of) { return of.notice && of.match; });
    if (!completing && told == thread.dependencies.end()) return;
    const uint32_t window = completing ? accesses->completed_last(thread.rank) : window_of(told->match->comm);
    Accesses::Looked& looked = accesses->looked(thread, window);
    std::vector<Received> received;
    int64_t own = first->access->own;
    if (completing) {
        if (engine.faults().completions_as_usual) own = std::max(own, scratch.own.mid);
        // Also where their cost was taken from what was learned of such calls.
        for (Constraint& constraint : scratch.constraints)
            if (!constraint.cost.known) constraint.cost.mid = std::min(constraint.cost.mid, own);
        look(engine, thread, own, scratch, looked);
    } else {
        const NoticeCosts* costs = accesses->notice_costs(window);
        if (!costs || looked.time == INT64_MIN) return wait_as_usual(engine, thread, scratch);
        scratch.constraints.clear();
        own = 0;
        for (const Dependency& dependency : thread.dependencies)
            if (dependency.notice && !dependency.access && dependency.match && dependency.match->sent)
                received.push_back(notice_of(engine, *dependency.match, *costs, scratch));
    }
    for (const Dependency& dependency : thread.dependencies) {
        if (!incoming(dependency)) continue;
        if (dependency.match)
            received.push_back(access_of(engine, dependency, looked, completing, scratch));
        else if (completing && !engine.faults().first_access_as_measured)
            received.push_back(let_pass(engine, thread, *dependency.access));
    }
    if (engine.faults().received_at_once)
        for (Received& of : received) of.takes = 0;
    receive(engine, thread, own, received, scratch);
}

}  // namespace rules

}  // namespace polter::replay
