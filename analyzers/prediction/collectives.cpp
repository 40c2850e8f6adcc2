// SPDX-License-Identifier: BSD-3-Clause
// In words: as the replay does it (replay/model/collective_execution.cpp), for one timeline: a send takes its own work, and the message
// arrives a hop later; a receive waits for its message and takes its own work; a rendezvous begins when both are there. Noise prolongs
// work, and in waits costs what lasts beyond them.
#include "collectives.hpp"

#include <otf2/otf2.h>

#include <algorithm>

#include "mutations.hpp"

namespace polter::prediction {

namespace {

// All data of the operation is the sum over the members of what stays as large for each.
bool grows_with_members(uint8_t operation) {
    switch (operation) {
        case OTF2_COLLECTIVE_OP_ALLGATHER:
        case OTF2_COLLECTIVE_OP_ALLGATHERV:
        case OTF2_COLLECTIVE_OP_ALLTOALL:
        case OTF2_COLLECTIVE_OP_ALLTOALLV:
        case OTF2_COLLECTIVE_OP_ALLTOALLW:
        case OTF2_COLLECTIVE_OP_GATHER:
        case OTF2_COLLECTIVE_OP_GATHERV:
        case OTF2_COLLECTIVE_OP_SCATTER:
        case OTF2_COLLECTIVE_OP_SCATTERV:
            return true;
        default:
            return false;
    }
}

void end_of_constant(const CollectiveCall& call, uint32_t root, const std::vector<int64_t>& enter, std::vector<int64_t>* end) {
    *end = enter;
    const int64_t last = *std::max_element(enter.begin(), enter.end());
    int64_t latest = INT64_MIN;
    for (uint32_t member = 0; member < enter.size(); ++member) {
        latest = std::max(latest, enter[member]);
        switch (call.waits) {
            case replay::Waits::n_to_n:
                (*end)[member] = last;
                break;
            case replay::Waits::n_to_n_likely:
                if (call.for_all) (*end)[member] = last;
                break;
            case replay::Waits::one_to_n:
                (*end)[member] = std::max(enter[member], enter[root]);
                break;
            case replay::Waits::n_to_one:
                if (member == root) (*end)[member] = last;
                break;
            case replay::Waits::prefix:
                (*end)[member] = latest;
                break;
            case replay::Waits::for_nobody:
                break;
        }
    }
}

}  // namespace

void CollectiveRun::run(const CollectiveCall& call, uint32_t root, uint32_t measured, const std::vector<int64_t>& enter,
                        const std::vector<DrawnClock*>& clocks, std::vector<int64_t>* end) {
    const auto count = static_cast<uint32_t>(enter.size());
    root = root < count ? root : 0;
    if (!call.structure || count < 2 || mutated(Mutation::no_algorithm)) return end_of_constant(call, root, enter, end);
    structure_ = *call.structure;
    if (grows_with_members(call.operation)) {
        structure_.hop_data = structure_.hop_data * count / measured;
        structure_.own_data = structure_.own_data * count / measured;
    }
    if (call.waits == replay::Waits::n_to_n || call.waits == replay::Waits::n_to_n_likely || call.waits == replay::Waits::prefix) root = 0;
    schedule_ = &replay::schedule(structure_.pattern, count, root, structure_.any_rendezvous());
    const uint32_t first = replay::first_member(structure_.pattern, root);
    members_.assign(count, {});
    messages_.assign(schedule_->shares.size(), {});
    for (uint32_t place = 0; place < count; ++place) {
        const uint32_t member = (place + first) % count;
        members_[place].now = enter[member];
        members_[place].clock = clocks.empty() ? nullptr : clocks[member];
    }
    for (uint32_t place = 0; place < count; ++place) ready_.push_back(place);
    while (!ready_.empty()) {
        const uint32_t place = ready_.back();
        ready_.pop_back();
        go_on(place);
    }
    end->resize(count);
    for (uint32_t place = 0; place < count; ++place) (*end)[(place + first) % count] = members_[place].now;
}

void CollectiveRun::settle(Message& message, double share, uint32_t peer) {
    if (message.ready == INT64_MIN || message.posted == INT64_MIN || message.arrival != INT64_MIN) return;
    message.arrival = std::max(message.ready, message.posted) + structure_.flight(share);
    ready_.push_back(peer);
}

bool CollectiveRun::receive(Member& member, const replay::Schedule::Step* step) {
    for (uint32_t i = 0; i < step->together; ++i) {
        Message& message = messages_[step[i].message];
        const double share = schedule_->shares[step[i].message];
        if (!structure_.rendezvous(share) || message.posted != INT64_MIN) continue;
        message.posted = member.now;
        settle(message, share, step[i].peer);
    }
    if (!replay::arrived_in_order(step, [&](uint32_t message) { return messages_[message].arrival; }, &order_)) return false;
    for (const uint32_t number : order_) {
        const double share = schedule_->shares[number];
        member.wait(messages_[number].arrival);
        member.work(structure_.rendezvous(share) ? 0 : structure_.work(share));
    }
    return true;
}

void CollectiveRun::go_on(uint32_t place) {
    using Kind = replay::Schedule::Kind;
    Member& member = members_[place];
    const auto& steps = schedule_->steps[place];
    while (member.at < steps.size()) {
        const replay::Schedule::Step& step = steps[member.at];
        Message& message = messages_[step.message];
        const double share = schedule_->shares[step.message];
        if (step.kind == Kind::send) {
            member.work(structure_.work(share));
            if (structure_.rendezvous(share)) {
                message.ready = member.now;
                settle(message, share, step.peer);
            } else {
                message.arrival = member.now + structure_.flight(share);
                ready_.push_back(step.peer);
            }
        } else if (step.kind == Kind::receive) {
            if (!receive(member, &step)) return;
        } else if (structure_.rendezvous(share)) {
            if (step.kind == Kind::post && message.posted == INT64_MIN) {
                message.posted = member.now;
                settle(message, share, step.peer);
            } else if (step.kind == Kind::complete) {
                if (message.arrival == INT64_MIN) return;
                member.wait(message.arrival);
                member.work(0);
            }
        }
        member.at += step.kind == Kind::receive ? step.together : 1;
    }
}

}  // namespace polter::prediction
