// SPDX-License-Identifier: BSD-3-Clause
// In words: each member does its steps in order as far as the messages have come that it receives; what it sends lets others go on.
// When messages come does not depend on who is asked first. Fitting costs asks for this some hundred times a class of collectives.
#include <algorithm>
#include <numeric>

#include "collective_algorithm.hpp"

namespace polter::replay {

namespace {

constexpr auto nothing = [](const NoisePiece&, int64_t) {};
constexpr uint32_t nobody = UINT32_MAX;

struct Member {
    MemberClock clock;
    size_t at = 0;       // its next step
    uint32_t known = 0;  // of the receives that belong together there: so many have their messages
    bool resumed = false;
};

struct Message {
    Prediction way{INT64_MIN, 0, 0};
    uint32_t awaited_by = nobody;  // a member that can do nothing until it has come
};

// Kept from call to call for its memory.
struct Followed {
    std::vector<Member> members;
    std::vector<Message> messages;
    std::vector<uint32_t> ready, order;
};

// Whether all messages of the receives at this step have come; if not, the member is called for the first that has not.
bool all_came(Followed& f, const Schedule::Step* step, uint32_t number) {
    Member& member = f.members[number];
    for (; member.known < step->together; ++member.known) {
        Message& message = f.messages[step[member.known].message];
        if (message.way.leave == INT64_MIN) {
            message.awaited_by = number;
            return false;
        }
    }
    member.known = 0;
    return true;
}

}  // namespace

void predict(const Structure& structure, const InstanceSample& sample, std::vector<Prediction>* ways) {
    static thread_local Followed f;
    const auto count = static_cast<uint32_t>(sample.enter.size());
    const Schedule& programme = schedule(structure.pattern, count, sample.root);
    const uint32_t first = first_member(structure.pattern, sample.root);
    f.members.assign(count, {});
    f.messages.assign(programme.messages, {});
    ways->assign(count, {});  // by place, at first
    f.ready.resize(count);
    std::iota(f.ready.begin(), f.ready.end(), 0u);
    for (uint32_t place = 0; place < count; ++place) {
        const uint32_t member = (place + first) % count;
        f.members[place].clock.start(sample.enter[member], &sample.noise[member]);
    }
    const auto arrival = [&](uint32_t message) { return f.messages[message].way.leave; };
    while (!f.ready.empty()) {
        const uint32_t place = f.ready.back();
        f.ready.pop_back();
        Member& member = f.members[place];
        MemberClock& clock = member.clock;
        Prediction& way = (*ways)[place];
        const auto& steps = programme.steps[place];
        while (member.at < steps.size()) {
            const Schedule::Step& step = steps[member.at];
            if (!step.receive) {
                clock.work(structure.own, nothing);
                ++way.works;
                Message& message = f.messages[step.message];
                message.way = {clock.now + structure.hop, way.works, way.hops + 1};
                if (message.awaited_by != nobody) f.ready.push_back(message.awaited_by);
                ++member.at;
                continue;
            }
            if (!all_came(f, &step, place)) break;
            arrived_in_order(&step, arrival, &f.order);
            if (!sample.resume.empty() && !member.resumed) {
                const int64_t resume = sample.resume[(place + first) % count];
                if (resume > clock.now) way = {0, 0, 0};
                clock.skip(resume);
                member.resumed = true;
            }
            for (const uint32_t message : f.order) {
                if (arrival(message) > clock.now) way = f.messages[message].way;
                clock.wait(arrival(message), nothing);
                clock.work(structure.own, nothing);
                ++way.works;
            }
            member.at += f.order.size();
        }
    }
    for (uint32_t place = 0; place < count; ++place) (*ways)[place].leave = f.members[place].clock.now;
    std::rotate(ways->begin(), ways->begin() + (count - first) % count, ways->end());  // from places to members
}

}  // namespace polter::replay
