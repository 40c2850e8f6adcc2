// SPDX-License-Identifier: BSD-3-Clause
// In words: a member does its steps in order. A send takes its own work, and the message arrives a hop later; a receive waits for its
// message and takes its own work. Noise counts in the step that it prolonged in the measured run, and there only: noise while a
// message was awaited counts for what it lasted longer than the wait.
#include "instance.hpp"

#include <algorithm>

namespace polter::replay {

void Instance::begin(const Structure& structure, uint32_t members, uint32_t root, const Lanes& lanes, LanePool& pool) {
    structure_ = structure;
    root = root < members ? root : 0;
    schedule_ = &schedule(structure.pattern, members, root);
    lanes_ = &lanes;
    pool_ = &pool;
    members_ = members;
    first_ = first_member(structure.pattern, root);
    if (clocks_.size() < members) clocks_.resize(members);
    for (Clock& clock : clocks_) {
        clock.noise.clear();
        clock.time = nullptr;
        clock.at = 0;
        clock.held = clock.done = false;
    }
    messages_.assign(schedule_->messages, {});
}

void Instance::set_noise(Clock& clock, const std::vector<NoisePiece>& noise) {
    clock.noise.assign(noise.begin(), noise.end());
    std::sort(clock.noise.begin(), clock.noise.end(), [](const NoisePiece& a, const NoisePiece& b) { return a.begin < b.begin; });
}

const std::vector<uint32_t>& Instance::arrive(uint32_t member, int64_t enter, const int64_t* arrival, const std::vector<NoisePiece>& noise,
                                              bool held) {
    Clock& clock = clocks_[place(member)];
    set_noise(clock, noise);
    clock.clock.start(enter, &clock.noise);
    clock.time = pool_->take();
    copy_lanes(clock.time, arrival, lanes_->count);
    clock.held = held;
    run(place(member));
    return ended_;
}

const std::vector<uint32_t>& Instance::resume(uint32_t member, int64_t enter, const int64_t* arrival,
                                              const std::vector<NoisePiece>& noise) {
    Clock& clock = clocks_[place(member)];
    set_noise(clock, noise);
    clock.clock.start(std::max(enter, clock.clock.now), &clock.noise);
    raise_to(clock.time, arrival, lanes_->count);
    clock.held = false;
    run(place(member));
    return ended_;
}

void Instance::run(uint32_t place) {
    ended_.clear();
    ready_.push_back(place);
    while (!ready_.empty()) {
        const uint32_t next = ready_.back();
        ready_.pop_back();
        go_on(next);
    }
}

void Instance::work(Clock& clock) {
    clock.clock.work(structure_.own, [&](const NoisePiece& piece, int64_t ns) {
        const int64_t* mask = lanes_->masks[piece.account].data();
        for (size_t i = 0; i < lanes_->count; ++i) clock.time[i] += ns & ~mask[i];
    });
    for (size_t i = 0; i < lanes_->count; ++i) clock.time[i] += structure_.own;
}

void Instance::receive(Clock& clock, Message& message) {
    raise_to(clock.time, message.time, lanes_->count);
    clock.clock.wait(message.arrival, [&](const NoisePiece& piece, int64_t ns) {
        const int64_t* mask = lanes_->masks[piece.account].data();
        for (size_t i = 0; i < lanes_->count; ++i) clock.time[i] += ns & ~mask[i];
    });
    pool_->give(message.time);
    message.time = nullptr;
    work(clock);
}

// Messages that are taken as they come may come in another order without the noise. How much sooner all of them are taken then than in
// the measured order, from `begin` on.
int64_t Instance::gained_by_order(int64_t begin, size_t lane) {
    coming_.clear();
    int64_t measured_order = begin, order = begin;
    bool same = true;
    for (const uint32_t number : order_) {
        const int64_t arrival = messages_[number].time[lane];
        same = same && (coming_.empty() || arrival >= coming_.back());
        coming_.push_back(arrival);
    }
    if (same) return 0;
    for (const int64_t arrival : coming_) measured_order = std::max(measured_order, arrival) + structure_.own;
    std::sort(coming_.begin(), coming_.end());
    for (const int64_t arrival : coming_) order = std::max(order, arrival) + structure_.own;
    return measured_order - order;
}

void Instance::go_on(uint32_t place) {
    Clock& clock = clocks_[place];
    if (!clock.time || clock.done) return;
    const auto& steps = schedule_->steps[place];
    const auto arrival = [&](uint32_t message) { return messages_[message].arrival; };
    while (clock.at < steps.size()) {
        const Schedule::Step& step = steps[clock.at];
        if (!step.receive) {
            work(clock);
            Message& message = messages_[step.message];
            message.arrival = clock.clock.now + structure_.hop;
            message.time = pool_->take();
            for (size_t i = 0; i < lanes_->count; ++i) message.time[i] = clock.time[i] + structure_.hop;
            ready_.push_back(step.peer);
            ++clock.at;
            continue;
        }
        if (clock.held || !arrived_in_order(&step, arrival, &order_)) return;
        gained_.clear();
        if (order_.size() > 1) {
            gained_.assign(lanes_->count, 0);
            // Where noise struck among them it is not known which of them it would have held up: for the lower bound alone.
            const bool struck = clock.clock.strikes_later();
            for (size_t i = struck && lanes_->bounded() ? lanes_->low : 0; i < lanes_->count; ++i)
                if (!struck || i == lanes_->low) gained_[i] = gained_by_order(clock.time[i], i);
        }
        for (const uint32_t number : order_) receive(clock, messages_[number]);
        for (size_t i = 0; i < gained_.size(); ++i) clock.time[i] -= gained_[i];
        clock.at += order_.size();
    }
    if (clock.held) return;
    clock.done = true;
    ended_.push_back((place + first_) % members_);
}

void Instance::clear() {
    if (!lanes_) return;
    for (Clock& clock : clocks_) {
        pool_->give(clock.time);
        clock.time = nullptr;
    }
    for (Message& message : messages_) pool_->give(message.time);
    messages_.clear();
    lanes_ = nullptr;
}

}  // namespace polter::replay
