// SPDX-License-Identifier: BSD-3-Clause
// Reassignment of tasks.
//
// In words: at each request that a master takes from any source, each lane serves the worker that asked first in that lane; the others keep
// waiting. What follows an answer in the trace belongs to the assigned task, not to the worker that happened to get it. So in that lane two
// workers change places: the worker whose request was recorded continues from the time at which the other one asked, and vice versa. A
// worker's place is its delay. Requests carry delays to the master, which exchanges them; answers carry the change to the workers. Only
// workers that wait with the same communicator and tag can be exchanged.
//
// The master takes a request in the call that finds it: a receive from any source, a probe for any source (followed by a receive of that
// message), or a wait for any of several receives.
//
// Identity: the master's measured order counts. Where it differs from the order of sending (another distance, another queue), a worker
// taken later counts as having asked no earlier, so without a change of delays nothing is exchanged. A wait for any of several receives
// takes the first complete one in its list, not the earliest. Where it found two requests, either could have been taken; a lane in which it
// finds the recorded one when it looks takes that one.
//
// Before the master takes a request, it waits for the requests of all workers that will ask again: a worker that still computes in the
// measured run may ask first without the noise. A worker can always get there, unless it waits for something that the master does later.
// Then no thread can continue, and the requests known so far are taken for all.
#include <algorithm>

#include "replay/rules/internal.hpp"

namespace polter::replay {

struct Farms::Worker {
    FarmWorker plan;
    Master* master = nullptr;
    int64_t left = 0;             // requests that have not been taken yet
    bool in_service = false;      // its request has been taken, the answer not yet sent
    bool synchronous = false;     // … and it was blocked in a synchronous send until then
    std::vector<Match*> waiting;  // its messages that have arrived and are in use, in order of sending
    LaneVector moved = {};        // by lane: change of its delay since its request; null: none
    const Match* looked_at = nullptr;
    int64_t earliest = 0;  // least departure time of `looked_at` over all lanes

    int64_t earliest_departure(const Match& match, size_t lanes);
};

struct Farms::Master {
    std::vector<Worker> workers;
    size_t missing = 0;  // workers that have a task and will ask again
    Thread* waits = nullptr;
};

namespace {

// The latest time at which the message can have left: noise in the sending call may have hit before that.
int64_t departure(const Match& match) {
    return match.send_time + match.send_noise;
}

int64_t departure(const Match& match, size_t lane) {
    return departure(match) - match.send_delay[lane] - (match.send_noise_removed ? match.send_noise_removed[lane] : 0);
}

// By how much longer `other` is under way than `request`.
int64_t farther(Engine& engine, const Match& other, const Match& request) {
    if (other.same_host == request.same_host && other.synchronous_mode == request.synchronous_mode && other.size == request.size) return 0;
    const auto latency = [&](const Match& match) -> const Cost& {
        return engine.model().cost(rules::message_class(CostKind::receive_after_send, match));
    };
    const Cost &its = latency(other), own = latency(request);
    return its.known && own.known ? its.mid - own.mid : 0;
}

// Latency of the message; 0 if it is not known.
int64_t under_way(Engine& engine, const Match& match) {
    const Cost& latency = engine.model().cost(rules::message_class(CostKind::receive_after_send, match));
    return latency.known ? latency.mid : 0;
}

}  // namespace

int64_t Farms::Worker::earliest_departure(const Match& match, size_t lanes) {
    if (looked_at != &match) {
        looked_at = &match;
        earliest = INT64_MAX;
        for (size_t lane = 0; lane < lanes; ++lane) earliest = std::min(earliest, departure(match, lane));
    }
    return earliest;
}

Farms::Farms(Engine& engine, const FarmPlan& plan)
    : engine_(engine), own_(engine.lanes().count), best_(engine.lanes().count), looks_(engine.lanes().count), first_(engine.lanes().count) {
    for (const auto& [rank, workers] : plan) {
        auto master = std::make_unique<Master>();
        for (const FarmWorker& worker : workers) master->workers.push_back({.plan = worker, .left = worker.requests, .waiting = {}});
        for (Worker& worker : master->workers) {
            worker.master = master.get();
            workers_[{rank, worker.plan.rank}] = &worker;
        }
        master->missing = master->workers.size();
        masters_[rank] = std::move(master);
    }
}

Farms::~Farms() = default;

Farms::Worker* Farms::find(int32_t master, int32_t worker) const {
    const auto found = workers_.find({master, worker});
    return found == workers_.end() ? nullptr : found->second;
}

bool Farms::missing(const Worker& worker) {
    return !worker.in_service && worker.left > 0 && worker.waiting.empty();
}

void Farms::arrived(Match& match) {
    Worker* worker = find(match.destination, match.source);
    if (!worker || match.refused) return;
    Master& master = *worker->master;
    master.missing -= missing(*worker);
    worker->waiting.push_back(&match);
    match.of_farm = true;
    if (worker->moved)
        for (size_t lane = 0; lane < engine_.lanes().count; ++lane) match.send_delay[lane] += worker->moved[lane];
    if (master.missing > 0 || !master.waits) return;
    Thread* waits = master.waits;
    master.waits = nullptr;
    engine_.wake(waits);
}

bool Farms::asks(const Thread& thread, int32_t source) const {
    const Worker* worker = thread.carries_rank ? find(thread.rank, source) : nullptr;
    return worker && !worker->in_service && (worker->left > 1 || (worker->left == 1 && !worker->plan.last_unanswered));
}

bool Farms::taking(Thread& thread, const Match& match) {
    Worker* worker = thread.carries_rank ? find(thread.rank, match.source) : nullptr;
    if (!worker || worker->in_service || worker->left == 0) return false;
    worker->master->missing -= missing(*worker);
    worker->in_service = true;
    --worker->left;
    return worker->left > 0 || !worker->plan.last_unanswered;
}

void Farms::answering(const Thread& thread, Match& match, int32_t to) {
    Worker* worker = thread.carries_rank ? find(thread.rank, to) : nullptr;
    if (!worker || !worker->in_service) return;
    worker->in_service = false;
    worker->master->missing += missing(*worker);
    match.moved = std::move(worker->moved);
    if (match.moved && worker->synchronous)  // it was blocked until its request was taken, so it is no later than the answer
        for (size_t lane = 0; lane < engine_.lanes().count; ++lane) match.moved[lane] = std::max<int64_t>(match.moved[lane], 0);
}

bool Farms::ready(const Thread& master) const {
    return masters_.at(master.rank)->missing == 0;
}

void Farms::wait(Thread& master) {
    masters_.at(master.rank)->waits = &master;
}

const Match* Farms::rival(const Worker& worker, const Match& request) const {
    if (worker.in_service || worker.left == 0 || (worker.left == 1 && worker.plan.last_unanswered)) return nullptr;
    for (const Match* match : worker.waiting)
        if (match->comm == request.comm && match->tag == request.tag) return match;
    return nullptr;
}

void Farms::move(Worker& worker, size_t lane, int64_t by) {
    if (!worker.moved) worker.moved = engine_.lane_pool().filled(0);
    worker.moved[lane] += by;
    worker.looked_at = nullptr;
    for (Match* match : worker.waiting) match->send_delay[lane] += by;
}

// When a wait for any of several receives last looked for requests: at its begin, or after the last noise in it. By lane in `looks_`.
int64_t Farms::looked(const Thread& thread) {
    int64_t time = thread.enter;
    std::copy_n(thread.delay.get(), looks_.size(), looks_.begin());
    for (const NoisePiece& piece : thread.pieces) {
        if (piece.end > thread.leave) continue;
        time = std::max(time, piece.end);
        remove_noise(looks_.data(), engine_.lanes().masks[piece.account].data(), piece.end - piece.begin, looks_.size());
    }
    for (int64_t& look : looks_) look = time - look;
    return time;
}

void Farms::assign_task(const Thread& thread, Match& request) {
    const size_t lanes = engine_.lanes().count;
    const Faults& faults = engine_.faults();
    Worker& served = *find(thread.rank, request.source);
    served.master->waits = nullptr;
    served.synchronous = request.synchronous;
    if (faults.tasks_as_measured) return;
    const bool picks = !faults.as_picked && (thread.kind == CallKind::wait_any || thread.kind == CallKind::poll_any);
    const int64_t look = picks ? looked(thread) : 0, travels = picks ? under_way(engine_, request) : 0;
    const bool there = picks && departure(request) + travels <= look;
    int64_t latest = INT64_MIN;
    for (size_t lane = 0; lane < lanes; ++lane) {
        own_[lane] = best_[lane] = departure(request, lane);
        first_[lane] = nullptr;
        latest = std::max(latest, own_[lane]);
    }
    for (Worker& worker : served.master->workers) {
        const Match* other = &worker == &served ? nullptr : rival(worker, request);
        if (!other) continue;
        const int64_t way = farther(engine_, *other, request);
        if (worker.earliest_departure(*other, lanes) + std::min<int64_t>(way, 0) >= latest) continue;
        const int64_t before = departure(request) - departure(*other);  // left earlier, and was taken later all the same
        const bool either = there && departure(*other) + under_way(engine_, *other) <= look;
        const int64_t later = faults.as_asked || either ? way : std::max(way, before);
        for (size_t lane = 0; lane < lanes; ++lane) {
            if (either && own_[lane] + travels <= looks_[lane]) continue;
            const int64_t came = departure(*other, lane) + later;
            if (came >= best_[lane]) continue;
            best_[lane] = came;
            first_[lane] = &worker;
        }
    }
    for (size_t lane = 0; lane < lanes; ++lane) {
        Worker* first = first_[lane];
        if (!first) continue;
        const int64_t earlier = own_[lane] - departure(*rival(*first, request), lane);
        move(served, lane, earlier);
        if (!faults.keep_place) move(*first, lane, -earlier);
    }
}

void Farms::forget(Match& match) {
    Worker* worker = find(match.destination, match.source);
    Master& master = *worker->master;
    master.missing -= missing(*worker);
    std::erase(worker->waiting, &match);
    worker->looked_at = nullptr;  // match records are reused
    master.missing += missing(*worker);
}

namespace rules {

namespace {

Match* found(const Channel& channel) {
    return channel.holds_messages ? channel.head : nullptr;
}

}  // namespace

void go_on_elsewhere(Engine& engine, Thread& thread) {
    const auto add = [&](int64_t* to, const int64_t* moved) {
        for (size_t lane = 0; lane < engine.lanes().count; ++lane) to[lane] += moved[lane];
    };
    for (const Dependency& dependency : thread.dependencies) {
        Match* match = nullptr;
        if (dependency.kind == Dependency::Kind::request)
            if (Match* request = dependency.channel ? found(*dependency.channel) : dependency.match)
                of(engine).farms->assign_task(thread, *request);
        if (dependency.kind == Dependency::Kind::message) match = dependency.match;
        if (dependency.kind == Dependency::Kind::probe && dependency.channel) match = dependency.channel->head;
        if (!match || !match->moved) continue;
        add(thread.delay, match->moved);
        if (thread.polling.active) add(thread.polling.delay, match->moved);
        if (thread.polling.whole.active) add(thread.polling.whole.delay, match->moved);
        if (match->post_delay) add(match->post_delay, match->moved);
        match->moved.reset();
    }
}

}  // namespace rules

}  // namespace polter::replay
