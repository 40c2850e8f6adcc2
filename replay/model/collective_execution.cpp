// SPDX-License-Identifier: BSD-3-Clause
// In words: a member does its steps in order. A send takes its own work, and the message arrives a hop later; a receive waits for its
// message and takes its own work. A rendezvous begins when both are there, and its sender waits for its end. Noise counts in the step that
// it prolonged in the measured run, and there only: noise while a message was awaited counts for what it lasted longer than the wait, or
// where the network goes on by itself, for what it lasted longer than the call or into the next work.
#include "collective_execution.hpp"

#include <algorithm>
#include <numeric>

#include "replay/graph/recorder.hpp"
#include "replay/scenario/injection.hpp"

namespace polter::replay {

void Instance::begin(const Structure& structure, uint32_t members, uint32_t root, const Lanes& lanes, LanePool& pool, Recorder* recorder,
                     const Partition* partition, BlockSizes sizes) {
    recorder_ = recorder;
    sizes_ = std::move(sizes);
    structure_ = structure;
    root = root < members ? root : 0;
    schedule_ = &schedule(structure.pattern, members, root, structure.any_rendezvous(), partition);
    uniform_ = schedule_->uniform && !sizes_.known() && !schedule_->shares.empty();
    if (uniform_) cost_ = MessageCost(structure_, schedule_->shares.front());
    lanes_ = &lanes;
    pool_ = &pool;
    members_ = members;
    first_ = first_member(structure.pattern, root);
    if (clocks_.size() < members) clocks_.resize(members);
    for (Clock& clock : clocks_) {
        clock.noise.clear();
        clock.time.reset();
        clock.at = clock.shared_upto = 0;
        clock.held = clock.done = false;
    }
    messages_.clear();
    messages_.resize(schedule_->shares.size());
    transfers_.clear();
    at_link_.clear();
    bursts_.clear();
    if (structure_.link && structure_.own_data > 0 && structure_.any_rendezvous())
        bursts_.find(*schedule_, [&](uint32_t message) { return rendezvous(message); });
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
    work(clock, structure_.call);
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
    work(clock, structure_.call);
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

void Instance::count(Clock& clock, const NoisePiece& piece, int64_t ns) {
    if (recorder_ && keep_among_) among_.push_back({piece, ns});
    if (recorder_ && !keep_among_) recorder_->noise(clock.thread, piece, clock.where, ns);
    keep_noise(clock.time, lanes_->masks[piece.account].data(), ns, lanes_->count);
}

void Instance::work_measured(Clock& clock, int64_t length) {
    if (length > 0 || !structure_.link) clock.clock.work(length, [&](const NoisePiece& piece, int64_t ns) { count(clock, piece, ns); });
}

void Instance::work(Clock& clock, int64_t length) {
    work_measured(clock, length);
    int64_t* const time = clock.time;
    const size_t lanes = lanes_->count;  // not read again at each lane
    if (clock.injected)
        for (size_t i = 0; i < lanes; ++i) time[i] = (*clock.injected)[i].finish(time[i], length);
    else
        for (size_t i = 0; i < lanes; ++i) time[i] += length;
}

void Instance::wait(Clock& clock, Message& message, bool recorded, int64_t behind) {
    const int64_t until = std::max(clock.clock.now, message.arrival);
    if (recorder_ && recorded) {
        const int64_t base = until;
        recorder_->start();
        candidate(message.node, message.posted ? message.sent : message.time, base);
        if (message.posted) candidate(message.posted_node, message.posted, base);
        candidate(clock.node, clock.time, base);
    }
    raise_and_add(clock.time, message.time, behind, lanes_->count);
    if (structure_.link)
        clock.clock.pass(until);
    else
        clock.clock.wait(until, [&](const NoisePiece& piece, int64_t ns) { count(clock, piece, ns); });
    if (message.uses > 0 && --message.uses > 0) return;
    message.time.reset();
    message.sent.reset();
    message.posted.reset();
}

bool Instance::only_removed_follows(const Clock& clock, size_t lane) const {
    return std::all_of(clock.noise.begin(), clock.noise.end(),
                       [&](const NoisePiece& piece) { return piece.end <= clock.clock.now || lanes_->masks[piece.account][lane] != 0; });
}

// Where noise that stays hit among them it is not known which of them it would have delayed: only the lower bound takes the other order,
// and the upper one the measured order wherever there was noise.
void Instance::find_gains(const Clock& clock) {
    gained_.assign(lanes_->count, 0);
    const bool noise_follows = clock.clock.hits_later();
    const bool known = !noise_follows || !recorder_ || only_removed_follows(clock, recorder_->lane(1));
    for (size_t i = 0; i < lanes_->count; ++i) {
        const bool low = lanes_->bounded() && i == lanes_->low, high = lanes_->bounded() && i == lanes_->high;
        if (!noise_follows || low || (known && !high && only_removed_follows(clock, i))) gained_[i] = gained_by_order(clock.time[i], i);
    }
}

bool Instance::reorders_watched() const {
    for (size_t w = 0; w < recorder_->watched(); ++w)
        if (gained_[recorder_->lane(w)] != 0) return true;
    return false;
}

// Where messages come in another order in some scenario, taking them all is one event: the k-th of n ends it by its own time and that of
// taking it and those behind it. Returns when it would have ended in the measured run without noise.
int64_t Instance::candidates_by_order(const Clock& clock) {
    const auto time = [&](size_t i, size_t lane) { return messages_[order_[i]].time[lane]; };
    std::vector<std::vector<int64_t>> behind(recorder_->watched(), std::vector<int64_t>(order_.size()));  // it and those behind it
    std::vector<size_t> sorted(order_.size());
    for (size_t w = 0; w < behind.size(); ++w) {
        std::iota(sorted.begin(), sorted.end(), size_t{0});
        std::stable_sort(sorted.begin(), sorted.end(),
                         [&](size_t a, size_t b) { return time(a, recorder_->lane(w)) < time(b, recorder_->lane(w)); });
        int64_t taken = 0;
        for (auto last = sorted.rbegin(); last != sorted.rend(); ++last) {
            taken += taking(order_[*last]);
            behind[w][*last] = taken;
        }
    }
    int64_t end = clock.clock.now, all = 0;  // measured
    for (const uint32_t number : order_) {
        end = std::max(end, messages_[number].arrival) + taking(number);
        all += taking(number);
    }
    recorder_->start();
    for (size_t i = 0; i < order_.size(); ++i)
        recorder_->candidate_at(messages_[order_[i]].node, [&](size_t w) { return end - time(i, recorder_->lane(w)) - behind[w][i]; });
    candidate(clock.node, clock.time, end - all);
    return end;
}

// The noise among them prolonged it by what it ended later: the last pieces, as waiting may have swallowed earlier ones.
void Instance::record_reordered(Clock& clock, int64_t end_without_noise) {
    int64_t left = clock.clock.now - end_without_noise;
    for (auto one = among_.rbegin(); one != among_.rend() && left > 0; ++one) {
        const int64_t counted = std::min(left, one->ns);
        recorder_->noise(clock.thread, one->piece, clock.where, counted);
        left -= counted;
    }
    among_.clear();
    write(clock);
}

// Messages that are taken as they come may come in another order without the noise. How much sooner all of them are taken then than in
// the measured order, from `begin` on.
int64_t Instance::gained_by_order(int64_t begin, size_t lane) {
    coming_.clear();
    bool same = true;
    for (const uint32_t number : order_) {
        const Coming message{messages_[number].time[lane], taking(number)};
        same = same && (coming_.empty() || message.arrival >= coming_.back().arrival);
        coming_.push_back(message);
    }
    if (same) return 0;
    const auto taken_from = [&](int64_t time) {
        for (const Coming& message : coming_) time = std::max(time, message.arrival) + message.taking;
        return time;
    };
    const int64_t measured_order = taken_from(begin);
    std::sort(coming_.begin(), coming_.end(), [](const Coming& a, const Coming& b) { return a.arrival < b.arrival; });
    return measured_order - taken_from(begin);
}

void Instance::send(Clock& clock, const Schedule::Step& step) {
    if (recorder_) {
        recorder_->start();
        candidate(clock.node, clock.time, clock.clock.now);
    }
    const MessageCost cost = this->cost(step.message);
    const auto sender = static_cast<uint32_t>(&clock - clocks_.data());
    if (!cost.by_link || !schedule_->send_blocks(sender, clock.at)) work(clock, cost.work);
    write(clock);
    Message& message = messages_[step.message];
    message.node = clock.node;
    LaneVector& time = cost.rendezvous ? message.sent : message.time;
    time = pool_->take();
    {
        const int64_t* const from = clock.time;
        int64_t* const to = time;
        for (size_t i = 0, lanes = lanes_->count; i < lanes; ++i) to[i] = from[i] + cost.flight;
    }
    if (cost.rendezvous) {
        message.ready = clock.clock.now;
        settle(step.message);
    } else if (cost.shares_links && structure_.own_data > 0) {
        message.ready = clock.clock.now + cost.flight;
        message.sent = pool_->copy(message.time);
        return share_out(schedule_->steps[sender], step);
    } else {
        message.arrival = clock.clock.now + cost.flight;
    }
    go_on_if_waiting(step.peer);
}

// `alone(message, lane)`: when it would be there alone; `later(message, lane, ns)`. Lane `lanes_->count`: measured.
template <class Alone, class Later>
void Instance::share_as(const std::vector<uint32_t>& messages, Alone alone, Later later) {
    for (size_t lane = 0; lane <= lanes_->count; ++lane) {
        link_.start();
        for (const uint32_t number : messages) {
            const MessageCost its = cost(number);
            link_.add(alone(messages_[number], lane) - its.flight, its.by_length);
        }
        const std::vector<int64_t>& by = link_.later();
        for (size_t i = 0; i < messages.size(); ++i) later(messages_[messages[i]], lane, by[i]);
    }
}

// Each of them is there later for the others' sake, if it is not later than that anyway.
void Instance::share(const std::vector<uint32_t>& messages) {
    const size_t measured = lanes_->count;
    const auto alone = [=](const Message& message, size_t lane) { return lane == measured ? message.ready : message.sent[lane]; };
    share_as(messages, alone, [&](Message& message, size_t lane, int64_t later) {
        int64_t& there = lane == measured ? message.arrival : message.time[lane];
        there = std::max(there, alone(message, lane) + later);
    });
}

// At one end of their links; the slower end counts.
void Instance::share_burst(const std::vector<uint32_t>& messages) {
    const size_t measured = lanes_->count;
    for (const uint32_t number : messages)
        if (!messages_[number].later_in) messages_[number].later_in = pool_->filled(0);
    share_as(
        messages,
        [&](const Message& message, size_t lane) {
            if (lane != measured) return std::max(message.sent[lane], message.posted[lane]);
            return std::max(message.ready, message.receivable) + cost(static_cast<uint32_t>(&message - messages_.data())).flight;
        },
        [&](Message& message, size_t lane, int64_t later) {
            int64_t& most = lane == measured ? message.later : message.later_in[lane];
            most = std::max(most, later);
        });
}

void Instance::share_out(const std::vector<Schedule::Step>& steps, const Schedule::Step& step) {
    sent_.push_back(step.message);
    if (goes_on_sending(steps, static_cast<size_t>(&step - steps.data()), [&](uint32_t message) { return !rendezvous(message); })) return;
    share(sent_);
    for (const uint32_t message : sent_) go_on_if_waiting(schedule_->ends[message].second);
    sent_.clear();
}

bool Instance::share_in(Clock& clock) {
    if (!structure_.link || structure_.own_data == 0 || clock.at < clock.shared_upto) return true;
    const auto receiver = static_cast<size_t>(&clock - clocks_.data());
    const size_t behind = receives_on(
        schedule_->steps[receiver], clock.at, [&](uint32_t message) { return !rendezvous(message); }, &sharing_);
    if (std::any_of(sharing_.begin(), sharing_.end(), [&](uint32_t number) { return messages_[number].arrival == INT64_MIN; }))
        return false;
    clock.shared_upto = behind;
    if (sharing_.size() > 1) share(sharing_);
    return true;
}

void Instance::post(Clock& clock, const Schedule::Step& step) {
    Message& message = messages_[step.message];
    const double share = share_of(step.message);
    if (message.receivable != INT64_MIN || !structure_.rendezvous(share)) return;
    message.receivable = clock.clock.now;
    message.posted_node = clock.node;
    message.posted = pool_->take();
    const int64_t flight = structure_.flight(share);
    for (size_t i = 0; i < lanes_->count; ++i) message.posted[i] = clock.time[i] + flight;
    settle(step.message);
}

// A rendezvous is under way once both are there; it comes once all those of its bursts are.
void Instance::settle(uint32_t number) {
    const Message& message = messages_[number];
    if (message.ready == INT64_MIN || message.receivable == INT64_MIN) return;
    bursts_.begin(
        number, [&](const std::vector<uint32_t>& burst) { share_burst(burst); }, [&](uint32_t other) { come(other); });
}

void Instance::come(uint32_t number) {
    Message& message = messages_[number];
    for (size_t i = 0; message.later_in && i < lanes_->count; ++i) {
        message.sent[i] += message.later_in[i];
        message.posted[i] += message.later_in[i];
    }
    message.later_in.reset();
    message.arrival = std::max(message.ready, message.receivable) + cost(number).flight + message.later;
    message.time = pool_->copy(message.sent);
    raise_to(message.time, message.posted, lanes_->count);
    message.uses = 2;
    for (const uint32_t end : {schedule_->ends[number].first, schedule_->ends[number].second}) go_on_if_waiting(end);
}

bool Instance::receive(Clock& clock, const Schedule::Step* step) {
    if (structure_.any_rendezvous())
        for (uint32_t i = 0; i < step->together; ++i) post(clock, step[i]);
    const auto arrival = [&](uint32_t message) { return messages_[message].arrival; };
    if (clock.held || !share_in(clock)) return false;
    const auto take = [&](uint32_t number, bool recorded) {
        const int64_t length = taking(number);
        wait(clock, messages_[number], recorded, clock.injected ? 0 : length);
        clock.injected ? work(clock, length) : work_measured(clock, length);
    };
    if (step->together == 1) {  // mostly
        if (arrival(step->message) == INT64_MIN) return false;
        take(step->message, true);
        write(clock);
        return true;
    }
    if (!arrived_in_order(step, arrival, &order_)) return false;
    find_gains(clock);
    const bool reordered = recorder_ && reorders_watched();
    const int64_t end_without_noise = reordered ? candidates_by_order(clock) : 0;
    keep_among_ = reordered;
    for (const uint32_t number : order_) {
        take(number, !reordered);
        if (!reordered) write(clock);
    }
    keep_among_ = false;
    for (size_t i = 0; i < gained_.size(); ++i) clock.time[i] -= gained_[i];
    if (reordered) record_reordered(clock, end_without_noise);
    return true;
}

bool Instance::complete(Clock& clock, const Schedule::Step& step) {
    if (!rendezvous(step.message)) return true;
    Message& message = messages_[step.message];
    if (clock.held || message.arrival == INT64_MIN) return false;
    wait(clock, message, true);
    write(clock);
    return true;
}

void Instance::add(StartedTransfer transfer) {
    const auto number = static_cast<uint32_t>(transfers_.size());
    at_link_.resize(members_);
    at_link_[transfer.from][0].push_back(number);
    at_link_[transfer.to][1].push_back(number);
    transfers_.push_back(std::move(transfer));
}

// `begin(transfer)`. INT64_MIN: it has none.
template <class Begin>
int64_t Instance::transfers_over(uint32_t member, Begin begin) {
    awaited_.clear();
    for (const bool leave : {true, false}) {
        of_link_.clear();
        for (const uint32_t number : at_link_[member][leave ? 0 : 1])
            of_link_.push_back({begin(transfers_[number]), transfers_[number].share});
        add_awaited(of_link_, leave, &awaited_);
    }
    int64_t last = INT64_MIN;
    for (const AwaitedTransfer& one : awaited_)
        if (structure_.awaits(one)) last = std::max(last, structure_.over(one));
    return last;
}

void Instance::await_transfers(Clock& clock, uint32_t member) {
    const int64_t measured = transfers_over(member, [](const StartedTransfer& one) { return one.begin; });
    if (measured == INT64_MIN) return;
    const auto come = static_cast<uint32_t>(at_link_[member][1].size());
    double share = 0;
    for (const uint32_t number : at_link_[member][1]) share += transfers_[number].share;
    const int64_t taking = structure_.taking(come, share);
    if (come > 1) {  // those that were there
        if (recorder_) {
            recorder_->start();
            candidate(clock.node, clock.time, clock.clock.now);
        }
        for (uint32_t i = 1; i < come; ++i) work(clock, taking);
        write(clock);
    }
    const int64_t until = std::max(clock.clock.now, measured);
    over_.resize(lanes_->count);
    for (size_t i = 0; i < over_.size(); ++i) over_[i] = transfers_over(member, [i](const StartedTransfer& one) { return one.time[i]; });
    if (recorder_) {
        recorder_->start();
        candidate(clock.node, clock.time, until);
        for (const bool leave : {true, false})
            for (const uint32_t number : at_link_[member][leave ? 0 : 1]) candidate(transfers_[number], leave, until);
    }
    raise_to(clock.time, over_.data(), lanes_->count);
    clock.clock.wait(until, [&](const NoisePiece& piece, int64_t ns) { count(clock, piece, ns); });
    if (come > 0) work(clock, taking);
    write(clock);
}

// With those behind it on one link.
void Instance::candidate(const StartedTransfer& transfer, bool leaves, int64_t base) {
    if (!structure_.awaits({.length = transfer.share, .leaves = leaves})) return;
    const std::vector<uint32_t>& at_link = at_link_[leaves ? transfer.from : transfer.to][leaves ? 0 : 1];
    recorder_->candidate_by(transfer.node, [&](size_t lane) {
        AwaitedTransfer awaited{.begin = transfer.time[lane], .length = transfer.share, .leaves = leaves};
        for (const uint32_t other : at_link)
            if (transfers_[other].time[lane] >= transfer.time[lane]) awaited.share += transfers_[other].share;
        return base - structure_.over(awaited);
    });
}

void Instance::go_on(uint32_t place) {
    using Kind = Schedule::Kind;
    Clock& clock = clocks_[place];
    if (!clock.time || clock.done) return;
    const auto& steps = schedule_->steps[place];
    while (clock.at < steps.size()) {
        const Schedule::Step& step = steps[clock.at];
        if (step.kind == Kind::send) send(clock, step);
        if (step.kind == Kind::post) post(clock, step);
        if (step.kind == Kind::receive && !receive(clock, &step)) return;
        if (step.kind == Kind::complete && !complete(clock, step)) return;
        if (step.kind == Kind::transfers && !at_link_.empty()) await_transfers(clock, (place + first_) % members_);
        clock.at += step.kind == Kind::receive ? step.together : 1;
    }
    if (clock.held) return;
    if (structure_.link && clock.clock.hits_later()) {
        clock.clock.end([&](const NoisePiece& piece, int64_t ns) { count(clock, piece, ns); });
        write(clock);
    }
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
    transfers_.clear();
    lanes_ = nullptr;
}

}  // namespace polter::replay
