// SPDX-License-Identifier: BSD-3-Clause
#include "links.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "hosts.hpp"
#include "replay/rules/internal.hpp"
#include "shared_links.hpp"

namespace polter::replay {

namespace {

constexpr size_t most_times = 16'000'000;  // of all lanes

size_t most_begun(const Lanes& lanes) {
    return most_times / lanes.count;
}

// Not all of the change at once: two transfers of which each would make way for the other would do so in turns, pass by pass.
int32_t in_lane_after(int64_t before, int64_t now) {
    return static_cast<int32_t>(before + (now - before) * 3 / 5);
}

}  // namespace

Links::Links(std::shared_ptr<const LinkPlan> plan, const Lanes& lanes) : plan_(std::move(plan)), lanes_(lanes) {}

uint32_t Links::number(const Thread& sender) {
    if (sender.index >= numbers_.size()) numbers_.resize(sender.index + 1);
    const uint32_t number = ++numbers_[sender.index];
    return plan_ && number > plan_->count(sender.index) ? 0 : number;
}

void Links::learn(const Thread& receiver, const Match& match) {
    if (!plan_) learning_.learn(receiver, match);
}

void Links::learn_call(const Thread& thread) {
    if (!plan_) learning_.learn_call(thread);
}

void Links::passes_by(const Operation& operation) {
    using Kind = Operation::Kind;
    constexpr uint64_t counts = 16 * least_bytes;  // of all its messages
    const bool data = operation.kind == Kind::collective || operation.kind == Kind::collective_complete || operation.kind == Kind::rma_data;
    others_ = others_ || (data && operation.size >= counts);
}

void Links::begins(const Thread& receiver, const Match& match, const Scratch& scratch, size_t from) {
    if (!plan_ || from >= scratch.constraints.size()) return;
    too_many_ = too_many_ || begun_.size() == most_begun(lanes_);
    if (too_many_) return;
    begun_.push_back({match.sender->index, match.transfer, match.sender->host, receiver.host, match.size});
    for (size_t lane = 0; lane < lanes_.count; ++lane) {
        int64_t begin = INT64_MIN;
        for (size_t i = from; i < scratch.constraints.size(); ++i)
            begin = std::max(begin, scratch.constraints[i].time - scratch.constraints[i].delay[lane]);
        begins_.push_back(begin);
    }
}

int64_t Links::measured(const Match& match) const {
    return plan_ ? plan_->measured[plan_->place(match.sender->index, match.transfer)] : 0;
}

void Links::delay(Engine& engine, Thread& thread, const Match& match, Scratch& scratch, size_t from) const {
    if (!plan_) return;
    const size_t place = plan_->place(match.sender->index, match.transfer);
    const int64_t measured = plan_->measured[place];
    const int32_t* of_lanes = plan_->lanes == &engine.lanes() ? &plan_->in_lanes[place * lanes_.count] : nullptr;
    const bool as_measured = !of_lanes || std::all_of(of_lanes, of_lanes + lanes_.count, [&](int32_t ns) { return ns == measured; });
    for (size_t i = from; i < scratch.constraints.size(); ++i) {
        Constraint& constraint = scratch.constraints[i];
        constraint.time += measured;
        if (as_measured) continue;
        const LaneVector& shared = scratch.vectors.emplace_back(engine.lane_pool().copy(constraint.delay));
        for (size_t lane = 0; lane < lanes_.count; ++lane) shared[lane] += measured - of_lanes[lane];
        if (Recorder* recorder = engine.recorder()) {
            recorder->start();
            recorder->candidate_by(constraint.node, [&](size_t lane) { return shared[lane]; });
            constraint.node = recorder->write(thread.index, thread.place(), constraint.time, shared[recorder->lane(1)], true);
        }
        constraint.delay = shared;
    }
}

void Links::write(Bytes& to) const {
    to.put(too_many_ || learning_.too_many());
    to.put(others_);
    to.put(learning_.transfers());
    to.put(begun_);
    to.put(begins_);
    to.put(numbers_);
}

void Links::merge(Input& from) {
    too_many_ = from.get<bool>() || too_many_;
    others_ = from.get<bool>() || others_;
    learned_elsewhere_ += from.get<uint64_t>();
    const auto append = [&]<class T>(std::vector<T>& all) {
        std::vector<T> more;
        from.get(more);
        all.insert(all.end(), more.begin(), more.end());
    };
    append(begun_);
    append(begins_);
    std::vector<uint32_t> numbers;
    from.get(numbers);
    if (numbers_.size() < numbers.size()) numbers_.resize(numbers.size());
    for (size_t thread = 0; thread < numbers.size(); ++thread) numbers_[thread] = std::max(numbers_[thread], numbers[thread]);
}

std::shared_ptr<const LinkPlan> Links::plan(const Model& model, size_t threads, const LinkSearch& search) const {
    const uint64_t learned = learning_.transfers() + learned_elsewhere_;
    if (too_many_ || learning_.too_many() || learned == 0 || learned > LinkLearning::most_learned) return nullptr;
    const std::optional<Network> network = learning_.network(model, search);
    if (!network) return nullptr;
    const std::vector<DatedTransfer> order = learning_.all(model, search);
    Hosts hosts;
    std::vector<Flow> transfers;
    transfers.reserve(order.size());
    for (const DatedTransfer& one : order) {
        const uint32_t from = hosts[one.of.from], to = hosts[one.of.to];
        transfers.push_back({from, to, one.at, network->alone(one.of.bytes)});
    }
    const auto later = later_by_sharing(transfers, network->reverse());
    if (!later) return nullptr;
    auto plan = std::make_shared<LinkPlan>();
    plan->network = *network;
    plan->others = others_;
    plan->first.assign(1, 0);
    for (size_t thread = 0; thread < threads; ++thread)
        plan->first.push_back(plan->first.back() + (thread < numbers_.size() ? numbers_[thread] : 0));
    plan->measured.assign(plan->first.back(), 0);
    for (size_t i = 0; i < order.size(); ++i)
        plan->measured[plan->place(order[i].of.thread, order[i].of.number)] =
            static_cast<int32_t>(std::min<int64_t>((*later)[i], INT32_MAX));
    return plan;
}

std::shared_ptr<const LinkPlan> Links::next() const {
    if (too_many_ || begun_.size() > most_begun(lanes_)) return nullptr;
    auto plan = std::make_shared<LinkPlan>(*plan_);
    plan->lanes = &lanes_;
    plan->in_lanes.assign(plan->measured.size() * lanes_.count, 0);
    for (size_t at = 0; at < plan->measured.size(); ++at)
        std::fill_n(plan->in_lanes.begin() + static_cast<std::ptrdiff_t>(at * lanes_.count), lanes_.count, plan->measured[at]);
    // The same whichever process noted it; once, if a call was looked at twice.
    const auto which = [&](size_t i) { return std::pair(begun_[i].thread, begun_[i].number); };
    std::vector<size_t> order(begun_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return which(a) < which(b); });
    order.erase(std::unique(order.begin(), order.end(), [&](size_t a, size_t b) { return which(a) == which(b); }), order.end());
    Hosts hosts;
    std::vector<Flow> transfers;
    for (const size_t i : order) transfers.push_back({hosts[begun_[i].from], hosts[begun_[i].to], 0, plan->network.alone(begun_[i].bytes)});
    for (size_t lane = 0; lane < lanes_.count; ++lane) {
        for (size_t at = 0; at < order.size(); ++at) transfers[at].begin = begins_[order[at] * lanes_.count + lane];
        const auto later = later_by_sharing(transfers, plan->network.reverse());
        if (!later) return nullptr;
        for (size_t at = 0; at < order.size(); ++at) {
            const size_t place = plan->place(begun_[order[at]].thread, begun_[order[at]].number);
            const auto ns = static_cast<int32_t>(std::min<int64_t>((*later)[at], INT32_MAX));
            int32_t& in_lane = plan->in_lanes[place * lanes_.count + lane];
            const bool first = plan_->in_lanes.empty() || lane == 0;
            in_lane = first ? ns : in_lane_after(plan_->in_lanes[place * lanes_.count + lane], ns);
            if (lane == 0) plan->measured[place] = ns;  // nothing is removed in it: what was measured, with what noise did to beginnings
        }
    }
    return plan;
}

}  // namespace polter::replay
