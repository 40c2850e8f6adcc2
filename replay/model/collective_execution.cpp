// SPDX-License-Identifier: BSD-3-Clause
// In words: a member does its steps in order. A send takes its own work, and the message arrives a hop later; a receive waits for its
// message and takes its own work. Noise counts in the step that it prolonged in the measured run, and there only: noise while a
// message was awaited counts for what it lasted longer than the wait.
#include "collective_execution.hpp"

#include <algorithm>
#include <numeric>

#include "replay/graph/recorder.hpp"
#include "replay/scenario/injection.hpp"

namespace polter::replay {

void Instance::begin(const Structure& structure, uint32_t members, uint32_t root, const Lanes& lanes, LanePool& pool, Recorder* recorder) {
    recorder_ = recorder;
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
        clock.time.reset();
        clock.at = 0;
        clock.held = clock.done = false;
    }
    messages_.clear();
    messages_.resize(schedule_->messages);
}

void Instance::set_noise(Clock& clock, const std::vector<NoisePiece>& noise) {
    clock.noise.assign(noise.begin(), noise.end());
    std::sort(clock.noise.begin(), clock.noise.end(), [](const NoisePiece& a, const NoisePiece& b) { return a.begin < b.begin; });
}

const std::vector<uint32_t>& Instance::arrive(const Participant& member, int64_t enter, const int64_t* arrival,
                                              const std::vector<NoisePiece>& noise, bool held) {
    Clock& clock = clocks_[place(member.number)];
    clock.thread = member.thread;
    clock.where = member.place;
    clock.node = member.node;
    clock.injected = member.injected;
    set_noise(clock, noise);
    clock.clock.start(enter, &clock.noise);
    clock.time = pool_->copy(arrival);
    clock.held = held;
    run(place(member.number));
    return ended_;
}

const std::vector<uint32_t>& Instance::resume(const Participant& member, int64_t enter, const int64_t* arrival,
                                              const std::vector<NoisePiece>& noise) {
    Clock& clock = clocks_[place(member.number)];
    set_noise(clock, noise);
    clock.clock.start(std::max(enter, clock.clock.now), &clock.noise);
    if (recorder_) {
        recorder_->start();
        candidate(clock.node, clock.time, clock.clock.now);
        candidate(member.node, arrival, clock.clock.now);
    }
    raise_to(clock.time, arrival, lanes_->count);
    clock.held = false;
    clock.where = member.place;
    write(clock);
    run(place(member.number));
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

void Instance::candidate(uint64_t from, const int64_t* time, int64_t base) {
    recorder_->candidate_by(from, [&](size_t lane) { return base - time[lane]; });
}

void Instance::write(Clock& clock) {
    if (!recorder_) return;
    const int64_t now = clock.clock.now;
    clock.node = recorder_->write(clock.thread, clock.where, now, now - clock.time[recorder_->lane(1)], clock.held);
}

void Instance::work(Clock& clock) {
    clock.clock.work(structure_.own, [&](const NoisePiece& piece, int64_t ns) {
        if (recorder_) recorder_->noise(clock.thread, piece, clock.where, ns);
        const int64_t* mask = lanes_->masks[piece.account].data();
        keep_noise(clock.time, mask, ns, lanes_->count);
    });
    for (size_t i = 0; i < lanes_->count; ++i)
        clock.time[i] = clock.injected ? (*clock.injected)[i].finish(clock.time[i], structure_.own) : clock.time[i] + structure_.own;
}

void Instance::receive(Clock& clock, Message& message, bool recorded) {
    if (recorder_ && recorded) {
        const int64_t base = std::max(clock.clock.now, message.arrival);
        recorder_->start();
        candidate(message.node, message.time, base);
        candidate(clock.node, clock.time, base);
    }
    raise_to(clock.time, message.time, lanes_->count);
    clock.clock.wait(message.arrival, [&](const NoisePiece& piece, int64_t ns) {
        if (recorder_) recorder_->noise(clock.thread, piece, clock.where, ns);
        const int64_t* mask = lanes_->masks[piece.account].data();
        keep_noise(clock.time, mask, ns, lanes_->count);
    });
    message.time.reset();
    work(clock);
    if (recorded) write(clock);
}

bool Instance::reorders_watched() const {
    for (size_t w = 0; w < recorder_->watched(); ++w)
        if (gained_[recorder_->lane(w)] != 0) return true;
    return false;
}

// Where messages come in another order in some scenario, taking them all is one event: the k-th of n ends it by its own time and that of
// taking it and those behind it.
void Instance::candidates_by_order(const Clock& clock) {
    const auto n = static_cast<int64_t>(order_.size());
    const auto time = [&](size_t i, size_t lane) { return messages_[order_[i]].time[lane]; };
    std::vector<std::vector<int64_t>> behind(recorder_->watched(), std::vector<int64_t>(order_.size()));  // it and those behind it
    std::vector<size_t> sorted(order_.size());
    for (size_t w = 0; w < behind.size(); ++w) {
        std::iota(sorted.begin(), sorted.end(), size_t{0});
        std::stable_sort(sorted.begin(), sorted.end(),
                         [&](size_t a, size_t b) { return time(a, recorder_->lane(w)) < time(b, recorder_->lane(w)); });
        for (size_t k = 0; k < sorted.size(); ++k) behind[w][sorted[k]] = (n - static_cast<int64_t>(k)) * structure_.own;
    }
    int64_t end = clock.clock.now;  // measured
    for (const uint32_t number : order_) end = std::max(end, messages_[number].arrival) + structure_.own;
    recorder_->start();
    for (size_t i = 0; i < order_.size(); ++i)
        recorder_->candidate_at(messages_[order_[i]].node, [&](size_t w) { return end - time(i, recorder_->lane(w)) - behind[w][i]; });
    candidate(clock.node, clock.time, end - n * structure_.own);
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
            if (recorder_) {
                recorder_->start();
                candidate(clock.node, clock.time, clock.clock.now);
            }
            work(clock);
            write(clock);
            Message& message = messages_[step.message];
            message.node = clock.node;
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
            // Where noise hit among them it is not known which of them it would have delayed: for the lower bound alone.
            const bool noise_follows = clock.clock.hits_later();
            for (size_t i = noise_follows && lanes_->bounded() ? lanes_->low : 0; i < lanes_->count; ++i)
                if (!noise_follows || i == lanes_->low) gained_[i] = gained_by_order(clock.time[i], i);
        }
        const bool reordered = !gained_.empty() && recorder_ && reorders_watched();
        if (reordered) candidates_by_order(clock);
        for (const uint32_t number : order_) receive(clock, messages_[number], !reordered);
        for (size_t i = 0; i < gained_.size(); ++i) clock.time[i] -= gained_[i];
        if (reordered) write(clock);
        clock.at += order_.size();
    }
    if (clock.held) return;
    clock.done = true;
    ended_.push_back((place + first_) % members_);
}

std::vector<uint8_t> Instance::waited_for(uint32_t member) const {
    std::vector<uint8_t> of = replay::waited_for(*schedule_, place(member));
    std::rotate(of.begin(), of.begin() + (members_ - first_) % members_, of.end());  // from places to members
    return of;
}

void Instance::clear() {
    if (!lanes_) return;
    for (Clock& clock : clocks_) clock.time.reset();
    messages_.clear();
    lanes_ = nullptr;
}

}  // namespace polter::replay
