// SPDX-License-Identifier: BSD-3-Clause
// In words: each rank goes on until it waits for a message that has not been sent, or for the other members of a collective. A call ends
// at the latest of its waits. Drawn noise prolongs work; while a rank waits it costs what lasts beyond the wait.
#include "simulation.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "mutations.hpp"

namespace polter::prediction {

namespace {

using What = replay::ProgramWait::What;

CollectiveCall call_of(const replay::Programs& programs, const replay::ProgramCollective& collective, bool for_all) {
    const bool known = collective.structure >= 0 && !programs.structures.empty();
    return {collective.operation, collective.waits, known ? &programs.structures[static_cast<size_t>(collective.structure)] : nullptr,
            for_all};
}

}  // namespace

Residuals residuals_of(const replay::Programs& programs) {
    Residuals residuals(programs.ranks.size());
    struct Members {
        std::vector<const replay::ProgramCollective*> calls;
        std::vector<Residual*> residuals;
    };
    std::map<std::pair<uint32_t, uint32_t>, Members> instances;
    for (size_t rank = 0; rank < programs.ranks.size(); ++rank) {
        const auto& collectives = programs.ranks[rank].collectives;
        residuals[rank].resize(collectives.size());
        std::map<uint32_t, uint32_t> number;
        for (size_t i = 0; i < collectives.size(); ++i) {
            const auto& members = programs.communicators.at(collectives[i].comm);
            const auto found = std::find(members.begin(), members.end(), static_cast<int32_t>(rank));
            Members& instance = instances[{collectives[i].comm, number[collectives[i].comm]++}];
            instance.calls.resize(members.size());
            instance.residuals.resize(members.size());
            instance.calls[static_cast<size_t>(found - members.begin())] = &collectives[i];
            instance.residuals[static_cast<size_t>(found - members.begin())] = &residuals[rank][i];
        }
    }
    CollectiveRun run;
    std::vector<int64_t> enter, end;
    for (auto& [key, instance] : instances) {
        if (std::any_of(instance.calls.begin(), instance.calls.end(), [](const auto* call) { return !call; })) continue;
        int64_t last = INT64_MIN, first_leave = INT64_MAX;
        for (const auto* call : instance.calls) {
            last = std::max(last, call->enter);
            first_leave = std::min(first_leave, call->leave);
        }
        const bool for_all = last <= first_leave;
        const CollectiveCall call = call_of(programs, *instance.calls.front(), for_all);
        const auto members = static_cast<uint32_t>(instance.calls.size());
        for (const bool quiet : {false, true}) {
            enter.clear();
            for (const auto* one : instance.calls) enter.push_back(quiet ? one->approximated_enter : one->enter);
            run.run(call, instance.calls.front()->root, members, enter, {}, &end);
            for (size_t i = 0; i < members; ++i) {
                const auto* one = instance.calls[i];
                Residual& residual = *instance.residuals[i];
                residual.for_all = for_all;
                (quiet ? residual.quiet : residual.recorded) = (quiet ? one->approximated_leave : one->leave) - end[i];
            }
        }
    }
    return residuals;
}

Simulation::Simulation(const replay::Programs& programs, const Layout& layout, const Residuals& residuals)
    : programs_(programs), layout_(layout), residuals_(residuals) {}

Outcome Simulation::quiet() {
    return run(Mode::quiet, nullptr);
}

Outcome Simulation::recorded() {
    return run(Mode::recorded, nullptr);
}

Outcome Simulation::drawn(const NoiseDraw& draw) {
    return run(Mode::drawn, &draw);
}

Outcome Simulation::run(Mode mode, const NoiseDraw* draw) {
    mode_ = mode;
    ranks_.assign(static_cast<size_t>(layout_.ranks()), {});
    queues_.clear();
    queues_.resize(layout_.queues());
    counters_.assign(layout_.links(), 0);
    came_.clear();
    instances_.clear();
    open_ = most_open_ = 0;
    for (int32_t rank = layout_.ranks(); rank-- > 0;) {
        Rank& at = ranks_[static_cast<size_t>(rank)];
        at.now = program(rank).first - programs_.first;
        if (draw) at.clock = DrawnClock(*draw, rank);
        ready_.push_back(rank);
    }
    while (!ready_.empty()) {
        const int32_t rank = ready_.back();
        ready_.pop_back();
        go_on(rank);
    }
    Outcome outcome;
    for (const Rank& rank : ranks_) {
        if (!rank.done) throw std::logic_error("predict: virtual ranks wait for each other; this is a defect of polter, please report it");
        outcome.end = std::max(outcome.end, rank.now);
        outcome.local_ns += static_cast<double>(rank.clock.noise_ns());
    }
    outcome.local_ns /= static_cast<double>(ranks_.size());
    outcome.most_open = most_open_;
    return outcome;
}

int64_t Simulation::work(Rank& rank, int64_t ns, int64_t noise) {
    if (mode_ == Mode::drawn) return rank.clock.finish(rank.now, ns);
    return rank.now + ns + (mode_ == Mode::recorded ? noise : 0);
}

void Simulation::go_on(int32_t number) {
    Rank& rank = ranks_[static_cast<size_t>(number)];
    const replay::Program& program = this->program(number);
    while (rank.call < program.calls.size()) {
        if (!rank.in_call) begin_call(number);
        if (!(program.calls[rank.call].collective >= 0 ? take_part(number) : end_call(number))) return;
        rank.in_call = false;
        ++rank.call;
    }
    if (rank.done) return;
    rank.now = work(rank, program.rest, program.rest_noise);
    rank.done = true;
}

void Simulation::begin_call(int32_t number) {
    Rank& rank = ranks_[static_cast<size_t>(number)];
    const replay::Program& program = this->program(number);
    const replay::ProgramCall& call = program.calls[rank.call];
    rank.in_call = true;
    rank.enter = rank.now = work(rank, call.work, call.work_noise);
    const size_t links = layout_.first_link(number);
    for (uint32_t i = 0; i < call.sends; ++i) {
        const replay::ProgramSend& send = program.sends[rank.send++];
        Queue& queue = queues_[layout_.queue(number, send.link)];
        Message& sent = message(queue, counters_[links + send.link]++);
        sent.departure = rank.enter;
        if (mode_ == Mode::drawn) {
            DrawnClock ahead = rank.clock;
            sent.departure = ahead.finish(rank.enter, send.own) - send.own;
        }
        sent.users = static_cast<uint8_t>(sent.users + send.awaited);
        if (queue.receiver_waits >= 0) ready_.push_back(std::exchange(queue.receiver_waits, -1));
    }
    for (uint32_t i = 0; i < call.posts; ++i) {
        const uint32_t link = program.posts[rank.post++];
        Queue& queue = queues_[layout_.queue(number, link)];
        message(queue, counters_[links + link]++).posted = rank.enter;
        if (queue.sender_waits >= 0) ready_.push_back(std::exchange(queue.sender_waits, -1));
    }
}

Simulation::Message& Simulation::message(Queue& queue, uint32_t number) {
    while (queue.first + queue.messages.size() <= number) {
        queue.messages.emplace_back();
        most_open_ = std::max(most_open_, ++open_);
    }
    return queue.messages[number - queue.first];
}

// The latest of the call's waits; false where one is not known yet.
bool Simulation::latest(int32_t number, int64_t* end) {
    const Rank& rank = ranks_[static_cast<size_t>(number)];
    const replay::Program& program = this->program(number);
    *end = rank.enter;
    for (uint32_t i = 0; i < program.calls[rank.call].waits; ++i) {
        const replay::ProgramWait& wait = program.waits[rank.wait + i];
        int64_t since = rank.enter;
        if (wait.what != What::enter) {
            Queue& queue = queues_[layout_.queue(number, wait.link)];
            const Message& of = message(queue, wait.message);
            since = wait.what == What::sending ? of.departure : of.posted;
            if (since == INT64_MIN) {
                (program.links[wait.link].out ? queue.sender_waits : queue.receiver_waits) = number;
                return false;
            }
        }
        *end = std::max(*end, since + wait.cost + (mode_ == Mode::recorded ? wait.held : 0));
    }
    return true;
}

bool Simulation::end_call(int32_t number) {
    Rank& rank = ranks_[static_cast<size_t>(number)];
    const replay::ProgramCall& call = program(number).calls[rank.call];
    int64_t end = 0;
    if (!latest(number, &end)) return false;
    if (mode_ == Mode::drawn) {
        const int64_t begin = std::max(rank.enter, end - call.tail);
        rank.now = rank.clock.finish(begin, end - begin);
    } else {
        rank.now = end + (mode_ == Mode::recorded ? call.tail_noise : 0);
    }
    forget(number);
    rank.wait += call.waits;
    return true;
}

// What this call has asked for, nobody of this side asks for again.
void Simulation::forget(int32_t number) {
    const Rank& rank = ranks_[static_cast<size_t>(number)];
    const replay::Program& program = this->program(number);
    for (uint32_t i = 0; i < program.calls[rank.call].waits; ++i) {
        const replay::ProgramWait& wait = program.waits[rank.wait + i];
        if (wait.what == What::enter) continue;
        // A receive waits for the sending of each message once, an awaited send for its posting.
        if (wait.what != (program.links[wait.link].out ? What::posting : What::sending)) continue;
        Queue& queue = queues_[layout_.queue(number, wait.link)];
        --message(queue, wait.message).users;
        while (!queue.messages.empty() && queue.messages.front().users == 0) {
            queue.messages.pop_front();
            ++queue.first;
            --open_;
        }
    }
}

bool Simulation::take_part(int32_t number) {
    Rank& rank = ranks_[static_cast<size_t>(number)];
    const replay::Program& program = this->program(number);
    const auto index = static_cast<size_t>(program.calls[rank.call].collective);
    const replay::ProgramCollective& collective = program.collectives[index];
    const Layout::Place place = layout_.place(number, collective.comm);
    const uint32_t sequence = came_[{static_cast<uint32_t>(number), place.instance}]++;
    Instance& instance = instances_[{place.instance, sequence}];
    if (instance.ranks.empty()) {
        instance.ranks.assign(place.members, -1);
        instance.enter.assign(place.members, 0);
    }
    instance.ranks[place.member] = number;
    instance.enter[place.member] = rank.enter;
    if (++instance.came < place.members) return false;
    std::vector<DrawnClock*> clocks;
    if (mode_ == Mode::drawn)
        for (const int32_t member : instance.ranks) clocks.push_back(&ranks_[static_cast<size_t>(member)].clock);
    std::vector<int64_t> end;
    const auto measured = static_cast<uint32_t>(programs_.communicators.at(collective.comm).size());
    const Residual& own = residuals_[static_cast<size_t>(layout_.parent(number))][index];
    collective_.run(call_of(programs_, collective, own.for_all), layout_.root(collective.comm, collective.root), measured, instance.enter,
                    clocks, &end);
    for (size_t i = 0; i < instance.ranks.size(); ++i) {
        Rank& member = ranks_[static_cast<size_t>(instance.ranks[i])];
        const replay::Program& of = this->program(instance.ranks[i]);
        const auto& residuals = residuals_[static_cast<size_t>(layout_.parent(instance.ranks[i]))];
        const Residual& residual = residuals[static_cast<size_t>(of.calls[member.call].collective)];
        int64_t rest = mode_ == Mode::recorded ? residual.recorded : residual.quiet;
        if (mutated(Mutation::no_residual)) rest = 0;
        // Without an algorithm it is the call's own work.
        const bool works = mode_ == Mode::drawn && rest > 0 && of.collectives[static_cast<size_t>(of.calls[member.call].collective)].structure < 0;
        member.now = works ? member.clock.finish(end[i], rest) : std::max(member.enter, end[i] + rest);
        if (instance.ranks[i] == number) continue;
        member.in_call = false;
        ++member.call;
        ready_.push_back(instance.ranks[i]);
    }
    instances_.erase({place.instance, sequence});
    return true;
}

}  // namespace polter::prediction
