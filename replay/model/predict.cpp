// SPDX-License-Identifier: BSD-3-Clause
// In words: each member does its steps in order as far as the messages have come that it receives; what it sends lets others go on.
// When messages come does not depend on who is asked first. Fitting costs asks for this some hundred times a class of collectives.
#include <algorithm>
#include <numeric>

#include "collective_algorithm.hpp"

namespace polter::replay {

namespace {

using Kind = Schedule::Kind;

constexpr auto nothing = [](const NoisePiece&, int64_t) {};
constexpr uint32_t nobody = UINT32_MAX;

struct Member {
    MemberClock clock;
    size_t at = 0;       // its next step
    uint32_t known = 0;  // of the receives that belong together there: so many have their messages
    bool resumed = false;
    Prediction sent{INT64_MIN, 0, 0, 0, 0};  // what its link carried last
};

struct Message {
    Prediction way{INT64_MIN, 0, 0, 0, 0};
    uint32_t awaited_by = nobody;  // a member that can do nothing until it has come
};

struct Rendezvous {
    Prediction ready{INT64_MIN, 0, 0, 0, 0}, posted{INT64_MIN, 0, 0, 0, 0};  // of the sender, of the receiver
    uint32_t sender_waits = nobody;                                          // … for the end
};

class Followed {
  public:
    void run(const Structure& structure, const InstanceSample& sample, std::vector<Prediction>* ways);

  private:
    void wait(MemberClock& clock, int64_t until) const { structure_->link ? clock.pass(until) : clock.wait(until, nothing); }
    void work(MemberClock& clock, int64_t ns) const {
        if (ns > 0 || !structure_->link) clock.work(ns, nothing);
    }
    bool all_came(const Schedule::Step* step, uint32_t number);
    void depart(Message& message, const Prediction& from, double share);
    void settle(uint32_t number, double share);
    void share_link(Prediction& last, Prediction& ready, double share) const;
    void post(uint32_t message, uint32_t place);
    bool send(const Schedule::Step& step, uint32_t place);
    bool receive(const Schedule::Step* step, uint32_t place);
    bool complete(const Schedule::Step& step, uint32_t place);
    void resume(uint32_t place);
    double share_of(uint32_t message) const { return sample_->sizes.share(*schedule_, message); }
    int64_t arrival(uint32_t message) const { return messages_[message].way.leave; }

    const Structure* structure_ = nullptr;
    const InstanceSample* sample_ = nullptr;
    const Schedule* schedule_ = nullptr;
    std::vector<Prediction>* ways_ = nullptr;
    uint32_t first_ = 0;
    // Kept from call to call for their memory.
    std::vector<Member> members_;
    std::vector<Message> messages_;
    std::vector<Rendezvous> rendezvous_;  // by message; none where all are eager
    std::vector<uint32_t> ready_, order_;
};

// Whether all messages of the receives at this step have come; if not, the member is called for the first that has not.
bool Followed::all_came(const Schedule::Step* step, uint32_t number) {
    Member& member = members_[number];
    for (; member.known < step->together; ++member.known) {
        Message& message = messages_[step[member.known].message];
        if (message.way.leave == INT64_MIN) {
            message.awaited_by = number;
            return false;
        }
    }
    member.known = 0;
    return true;
}

void Followed::depart(Message& message, const Prediction& from, double share) {
    message.way = {from.leave + structure_->flight(share), from.works, from.hops + 1, from.work_data, from.hop_data + share};
    if (message.awaited_by != nobody) ready_.push_back(message.awaited_by);
}

// A rendezvous begins when both are there.
void Followed::settle(uint32_t number, double share) {
    const Rendezvous& both = rendezvous_[number];
    if (both.ready.leave == INT64_MIN || both.posted.leave == INT64_MIN || arrival(number) != INT64_MIN) return;
    depart(messages_[number], both.ready.leave >= both.posted.leave ? both.ready : both.posted, share);
    if (both.sender_waits != nobody) ready_.push_back(both.sender_waits);
}

void Followed::post(uint32_t number, uint32_t place) {
    const double share = share_of(number);
    if (!structure_->rendezvous(share) || rendezvous_[number].posted.leave != INT64_MIN) return;
    Prediction& posted = rendezvous_[number].posted;
    posted = (*ways_)[place];
    posted.leave = members_[place].clock.now;
    settle(number, share);
}

// `ready`: of a message behind `last`, which it becomes.
void Followed::share_link(Prediction& last, Prediction& ready, double share) const {
    if (last.leave != INT64_MIN && last.leave + structure_->by_length(share) >= ready.leave) {
        ready = last;
        ready.leave += structure_->by_length(share);
        ready.work_data += share;
    }
    last = ready;
}

bool Followed::send(const Schedule::Step& step, uint32_t place) {
    MemberClock& clock = members_[place].clock;
    Prediction& way = (*ways_)[place];
    const double share = share_of(step.message);
    const bool own_work = !structure_->by_link(share) || !schedule_->send_blocks(place, members_[place].at);
    if (own_work) work(clock, structure_->work(share));
    way.works += own_work;
    way.work_data += structure_->by_link(share) ? 0 : share;
    way.leave = clock.now;
    if (structure_->rendezvous(share)) {
        Prediction& ready = rendezvous_[step.message].ready;
        ready = way;
        if (structure_->link) share_link(members_[place].sent, ready, share);
        settle(step.message, share);
    } else {
        depart(messages_[step.message], way, share);
    }
    return true;
}

void Followed::resume(uint32_t place) {
    Member& member = members_[place];
    if (sample_->resume.empty() || member.resumed) return;
    const int64_t resume = sample_->resume[(place + first_) % members_.size()];
    if (resume > member.clock.now) (*ways_)[place] = {0, 0, 0, 0, 0};
    member.clock.skip(resume);
    member.clock.work(structure_->call, nothing);
    member.resumed = true;
}

bool Followed::receive(const Schedule::Step* step, uint32_t place) {
    Member& member = members_[place];
    if (structure_->any_rendezvous())
        for (uint32_t i = 0; i < step->together; ++i) post(step[i].message, place);
    if (!all_came(step, place)) return false;
    arrived_in_order(
        step, [&](uint32_t message) { return arrival(message); }, &order_);
    resume(place);
    Prediction& way = (*ways_)[place];
    for (const uint32_t message : order_) {
        const double share = share_of(message);
        const bool first = message == order_.front();
        const int64_t shared = first ? 0 : structure_->behind_another(share), now = member.clock.now;
        const bool came_last = arrival(message) > now + shared;
        if (came_last) way = messages_[message].way;
        wait(member.clock, std::max(arrival(message), now + shared));
        work(member.clock, structure_->taking(share));
        way.works += structure_->rendezvous(share) ? 0 : 1;
        way.work_data += structure_->by_link(share) && (first || came_last) ? 0 : share;
    }
    return true;
}

bool Followed::complete(const Schedule::Step& step, uint32_t place) {
    if (!structure_->rendezvous(share_of(step.message))) return true;
    const Message& message = messages_[step.message];
    if (message.way.leave == INT64_MIN) {
        rendezvous_[step.message].sender_waits = place;
        return false;
    }
    resume(place);
    if (message.way.leave > members_[place].clock.now) (*ways_)[place] = message.way;
    wait(members_[place].clock, message.way.leave);
    return true;
}

void Followed::run(const Structure& structure, const InstanceSample& sample, std::vector<Prediction>* ways) {
    structure_ = &structure;
    sample_ = &sample;
    ways_ = ways;
    const auto count = static_cast<uint32_t>(sample.enter.size());
    first_ = first_member(structure.pattern, sample.root);
    schedule_ = &schedule(structure.pattern, count, sample.root, structure.any_rendezvous(), sample.partition);
    members_.assign(count, {});
    messages_.assign(schedule_->shares.size(), {});
    rendezvous_.assign(structure.any_rendezvous() ? schedule_->shares.size() : 0, {});
    ways->assign(count, {});  // by place, at first
    ready_.resize(count);
    std::iota(ready_.begin(), ready_.end(), 0u);
    for (uint32_t place = 0; place < count; ++place) {
        const uint32_t member = (place + first_) % count;
        members_[place].clock.start(sample.enter[member], &sample.noise[member]);
        if (!sample.resume.empty()) members_[place].clock.work(structure.call, nothing);
    }
    while (!ready_.empty()) {
        const uint32_t place = ready_.back();
        ready_.pop_back();
        Member& member = members_[place];
        const auto& steps = schedule_->steps[place];
        for (bool goes_on = true; goes_on && member.at < steps.size();) {
            const Schedule::Step& step = steps[member.at];
            switch (step.kind) {
                case Kind::send:
                    goes_on = send(step, place);
                    break;
                case Kind::receive:
                    goes_on = receive(&step, place);
                    break;
                case Kind::post:
                    post(step.message, place);
                    break;
                case Kind::complete:
                    goes_on = complete(step, place);
                    break;
            }
            if (goes_on) member.at += step.kind == Kind::receive ? step.together : 1;
        }
    }
    for (uint32_t place = 0; place < count; ++place) {
        if (members_[place].at == schedule_->steps[place].size()) resume(place);  // of one that received nothing
        if (structure.link) members_[place].clock.end(nothing);
        (*ways)[place].leave = members_[place].clock.now;
    }
    std::rotate(ways->begin(), ways->begin() + (count - first_) % count, ways->end());  // from places to members
}

}  // namespace

void predict(const Structure& structure, const InstanceSample& sample, std::vector<Prediction>* ways) {
    static thread_local Followed followed;
    followed.run(structure, sample, ways);
}

}  // namespace polter::replay
