// SPDX-License-Identifier: BSD-3-Clause
// In words: each member does its steps in order as far as the messages have come that it receives; what it sends lets others go on.
// When messages come does not depend on who is asked first.
#include <algorithm>
#include <numeric>
#include <optional>

#include "algorithms/bursts.hpp"
#include "predict_together.hpp"

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
    size_t shared_upto = 0;  // its steps before that: their messages have shared its link
};

struct Message {
    Prediction way{INT64_MIN, 0, 0, 0, 0};
    uint32_t awaited_by = nobody;  // a member that can do nothing until it has come
    // Of one that shares links: how it began; and how it comes, by what is known so far.
    Prediction begin{INT64_MIN, 0, 0, 0, 0}, coming{INT64_MIN, 0, 0, 0, 0};
};

struct Rendezvous {
    Prediction ready{INT64_MIN, 0, 0, 0, 0}, posted{INT64_MIN, 0, 0, 0, 0};  // of the sender, of the receiver
    uint32_t sender_waits = nobody;                                          // … for the end
};

class Followed {
  public:
    void run(const Structure& structure, const InstanceSample& sample, std::vector<Prediction>* ways, bool with_ways);

  private:
    void wait(MemberClock& clock, int64_t until) const { structure_->link ? clock.pass(until) : clock.wait(until, nothing); }
    void work(MemberClock& clock, int64_t ns) const {
        if (ns > 0 || !structure_->link) clock.work(ns, nothing);
    }
    bool all_came(const Schedule::Step* step, uint32_t number);
    void depart(Message& message, const Prediction& from, const MessageCost& cost);
    void settle(uint32_t number, const MessageCost& cost);
    void come(uint32_t number);
    void send_off(uint32_t number, const Prediction& from, const MessageCost& cost);
    void share(const std::vector<uint32_t>& messages);
    const std::vector<LinkSlopes::Slopes>& slopes_of(const std::vector<uint32_t>& messages);
    void find_bursts_by_costs();
    void go_on(uint32_t place);
    void post(uint32_t message, uint32_t place);
    bool shares_links() const { return structure_->link && structure_->own_data > 0; }
    void share_out(const std::vector<Schedule::Step>& steps, const Schedule::Step& step, const Prediction& way);
    bool share_in(uint32_t place);
    bool send(const Schedule::Step& step, uint32_t place);
    bool receive(const Schedule::Step* step, uint32_t place);
    void take(uint32_t message, uint32_t place);
    void begin();
    bool complete(const Schedule::Step& step, uint32_t place);
    void await_transfers(uint32_t place);
    void resume(uint32_t place) {
        if (!sample_->resume.empty() && !members_[place].resumed) resume_now(place);
    }
    void resume_now(uint32_t place);
    void find_schedule();
    void find_costs();
    int64_t arrival(uint32_t message) const { return messages_[message].way.leave; }

    const Structure* structure_ = nullptr;
    const InstanceSample* sample_ = nullptr;
    const Schedule* schedule_ = nullptr;
    std::vector<Prediction>* ways_ = nullptr;
    uint32_t first_ = 0;
    // What the last call was for: one call after another asks for the same algorithm, and for the same costs with other samples.
    struct Asked {
        Pattern pattern;
        uint32_t members = 0, root = 0;
        bool rendezvous = false;
        const Partition* partition = nullptr;
    } asked_;
    struct AskedCosts {
        int64_t hop, own, hop_data, own_data, eager_ppm;
        bool link;
        bool operator==(const AskedCosts&) const = default;
    };
    std::optional<AskedCosts> asked_costs_;
    std::vector<MessageCost> costs_;  // by message
    // Kept from call to call for their memory.
    std::vector<Member> members_;
    std::vector<Message> messages_;
    std::vector<Rendezvous> rendezvous_;  // by message; none where all are eager
    std::vector<uint32_t> ready_, order_, sharing_, sent_;  // sent_: by one member, one after another
    FairLink link_;
    LinkSlopes slopes_;
    bool with_ways_ = true;
    Bursts bursts_;
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

void Followed::depart(Message& message, const Prediction& from, const MessageCost& cost) {
    message.way = {from.leave + cost.flight, from.works, from.hops + 1, from.work_data, from.hop_data + cost.share};
    if (message.awaited_by != nobody) ready_.push_back(message.awaited_by);
}

// A rendezvous begins when both are there.
void Followed::settle(uint32_t number, const MessageCost& cost) {
    const Rendezvous& both = rendezvous_[number];
    if (both.ready.leave == INT64_MIN || both.posted.leave == INT64_MIN || messages_[number].begin.leave != INT64_MIN) return;
    send_off(number, both.ready.leave >= both.posted.leave ? both.ready : both.posted, cost);
    bursts_.begin(
        number, [&](const std::vector<uint32_t>& burst) { share(burst); }, [&](uint32_t message) { come(message); });
}

void Followed::come(uint32_t number) {
    messages_[number].way = messages_[number].coming;
    if (messages_[number].awaited_by != nobody) ready_.push_back(messages_[number].awaited_by);
    if (costs_[number].rendezvous && rendezvous_[number].sender_waits != nobody) ready_.push_back(rendezvous_[number].sender_waits);
}

void Followed::send_off(uint32_t number, const Prediction& from, const MessageCost& cost) {
    messages_[number].begin = from;
    messages_[number].coming = {from.leave + cost.flight, from.works, from.hops + 1, from.work_data, from.hop_data + cost.share};
}

// At one end of theirs; the slower end counts.
void Followed::share(const std::vector<uint32_t>& messages) {
    link_.start();
    for (const uint32_t message : messages) link_.add(messages_[message].begin.leave, costs_[message].by_length);
    const std::vector<int64_t>& later = link_.later();
    const std::vector<LinkSlopes::Slopes>* slopes = nullptr;
    for (size_t i = 0; i < messages.size(); ++i) {
        Message& message = messages_[messages[i]];
        const MessageCost& cost = costs_[messages[i]];
        const int64_t there = message.begin.leave + later[i] + cost.flight;
        if (there <= message.coming.leave) continue;
        message.coming.leave = there;
        if (!with_ways_) continue;
        if (!slopes) slopes = &slopes_of(messages);
        const LinkSlopes::Slopes& by = (*slopes)[i];
        message.coming = {there, by[0], by[1] + 1, by[2], by[3] + cost.share};
    }
}

const std::vector<LinkSlopes::Slopes>& Followed::slopes_of(const std::vector<uint32_t>& messages) {
    slopes_.start();
    for (const uint32_t message : messages) {
        const Prediction& begin = messages_[message].begin;
        slopes_.add(begin.leave, costs_[message].by_length, costs_[message].share,
                    {begin.works, begin.hops, begin.work_data, begin.hop_data});
    }
    return slopes_.find();
}

void Followed::post(uint32_t number, uint32_t place) {
    const MessageCost& cost = costs_[number];
    if (!cost.rendezvous || rendezvous_[number].posted.leave != INT64_MIN) return;
    Prediction& posted = rendezvous_[number].posted;
    posted = (*ways_)[place];
    posted.leave = members_[place].clock.now;
    settle(number, cost);
}

bool Followed::send(const Schedule::Step& step, uint32_t place) {
    MemberClock& clock = members_[place].clock;
    Prediction& way = (*ways_)[place];
    const MessageCost& cost = costs_[step.message];
    const bool own_work = !cost.by_link || !schedule_->send_blocks(place, members_[place].at);
    if (own_work) work(clock, cost.work);
    way.works += own_work;
    way.work_data += cost.work_share;
    way.leave = clock.now;
    if (cost.rendezvous) {
        rendezvous_[step.message].ready = way;
        settle(step.message, cost);
    } else if (cost.shares_links && shares_links()) {
        share_out(schedule_->steps[place], step, way);
    } else {
        depart(messages_[step.message], way, cost);
    }
    return true;
}

// What a member sends before it waits shares its link.
void Followed::share_out(const std::vector<Schedule::Step>& steps, const Schedule::Step& step, const Prediction& way) {
    send_off(step.message, way, costs_[step.message]);
    sent_.push_back(step.message);
    if (goes_on_sending(steps, static_cast<size_t>(&step - steps.data()), [&](uint32_t message) { return !costs_[message].rendezvous; }))
        return;
    share(sent_);
    for (const uint32_t message : sent_) come(message);
    sent_.clear();
}

// What comes to a member while it only receives shares its link, too; false while one has not been sent.
bool Followed::share_in(uint32_t place) {
    Member& member = members_[place];
    if (member.at < member.shared_upto) return true;
    const size_t behind = receives_on(
        schedule_->steps[place], member.at, [&](uint32_t message) { return !costs_[message].rendezvous; }, &sharing_);
    for (; member.known < sharing_.size(); ++member.known) {
        Message& message = messages_[sharing_[member.known]];
        if (message.way.leave != INT64_MIN) continue;
        message.awaited_by = place;
        return false;
    }
    member.known = 0;
    member.shared_upto = behind;
    if (sharing_.size() < 2) return true;
    share(sharing_);
    for (const uint32_t message : sharing_) messages_[message].way = messages_[message].coming;
    return true;
}

void Followed::resume_now(uint32_t place) {
    Member& member = members_[place];
    const int64_t resume = sample_->resume[(place + first_) % members_.size()];
    if (resume > member.clock.now) (*ways_)[place] = {0, 0, 0, 0, 0};
    member.clock.skip(resume);
    member.clock.work(structure_->call, nothing);
    member.resumed = true;
}

void Followed::take(uint32_t message, uint32_t place) {
    Member& member = members_[place];
    Prediction& way = (*ways_)[place];
    const MessageCost& cost = costs_[message];
    if (arrival(message) > member.clock.now) way = messages_[message].way;
    wait(member.clock, arrival(message));
    work(member.clock, cost.taking);
    way.works += cost.rendezvous ? 0 : 1;
    way.work_data += cost.work_share;
}

bool Followed::receive(const Schedule::Step* step, uint32_t place) {
    if (structure_->any_rendezvous())
        for (uint32_t i = 0; i < step->together; ++i) post(step[i].message, place);
    if (shares_links() && !share_in(place)) return false;
    if (!all_came(step, place)) return false;
    if (step->together == 1) {
        resume(place);
        take(step->message, place);
        return true;
    }
    arrived_in_order(
        step, [&](uint32_t message) { return arrival(message); }, &order_);
    resume(place);
    for (const uint32_t message : order_) take(message, place);
    return true;
}

bool Followed::complete(const Schedule::Step& step, uint32_t place) {
    if (!costs_[step.message].rendezvous) return true;
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

void Followed::await_transfers(uint32_t place) {
    if (sample_->transfers.empty()) return;
    const TransfersOfMember& its = sample_->transfers[(place + first_) % members_.size()];
    Member& member = members_[place];
    Prediction& way = (*ways_)[place];
    const int64_t taking = structure_->taking(its.taken, its.taken_share);
    for (uint32_t i = 1; i < its.taken; ++i) work(member.clock, taking), ++way.works;  // those that were there
    int64_t over = INT64_MIN;
    const AwaitedTransfer* last = nullptr;
    for (const AwaitedTransfer& one : its.awaited) {
        if (!structure_->awaits(one) || structure_->over(one) <= over) continue;
        over = structure_->over(one);
        last = &one;
    }
    if (last && over > member.clock.now) way = {0, 0, 1, structure_->rendezvous(last->length) ? 1.0 : 0.0, last->share};
    wait(member.clock, over);
    if (its.taken == 0) return;
    work(member.clock, taking);
    ++way.works;
}

void Followed::find_schedule() {
    const auto members = static_cast<uint32_t>(sample_->enter.size());
    const bool rendezvous = structure_->any_rendezvous();
    if (schedule_ && asked_.members == members && asked_.root == sample_->root && asked_.rendezvous == rendezvous &&
        asked_.partition == sample_->partition && asked_.pattern == structure_->pattern)
        return;
    asked_ = {structure_->pattern, members, sample_->root, rendezvous, sample_->partition};
    const Schedule* found = &schedule(structure_->pattern, members, sample_->root, rendezvous, sample_->partition);
    if (found != schedule_) asked_costs_.reset();
    schedule_ = found;
}

void Followed::find_costs() {
    const Structure& s = *structure_;
    const AskedCosts now{s.hop, s.own, s.hop_data, s.own_data, s.eager_ppm, s.link};
    if (!sample_->sizes.known() && asked_costs_ == now) return;
    const size_t messages = schedule_->shares.size();
    costs_.resize(messages);
    for (uint32_t message = 0; message < messages; ++message) costs_[message] = MessageCost(s, sample_->sizes.share(*schedule_, message));
    asked_costs_.reset();
    if (!sample_->sizes.known()) asked_costs_ = now;  // else each sample has its own
    find_bursts_by_costs();
}

void Followed::find_bursts_by_costs() {
    bursts_.clear();
    if (shares_links() && structure_->any_rendezvous()) bursts_.find(*schedule_, [&](uint32_t message) { return costs_[message].by_link; });
}

// Sets only what is read before it is written: members are few, and so are their steps.
void Followed::begin() {
    const auto count = static_cast<uint32_t>(sample_->enter.size());
    messages_.resize(schedule_->shares.size());
    for (Message& message : messages_) {
        message.way.leave = INT64_MIN;
        message.awaited_by = nobody;
        message.begin.leave = INT64_MIN;
    }
    bursts_.start();
    rendezvous_.resize(structure_->any_rendezvous() ? schedule_->shares.size() : 0);
    for (Rendezvous& both : rendezvous_) {
        both.ready.leave = both.posted.leave = INT64_MIN;
        both.sender_waits = nobody;
    }
    members_.resize(count);
    ways_->resize(count);  // by place, at first
    ready_.resize(count);
    std::iota(ready_.begin(), ready_.end(), 0u);
    for (uint32_t place = 0; place < count; ++place) {
        const uint32_t from_first = place + first_, number = from_first < count ? from_first : from_first % count;
        Member& member = members_[place];
        member.at = 0;
        member.known = 0;
        member.resumed = false;
        member.shared_upto = 0;
        member.clock.start(sample_->enter[number], &sample_->noise[number]);
        member.clock.work(structure_->call, nothing);
        (*ways_)[place] = {0, 0, 0, 0, 0};
    }
}

void Followed::go_on(uint32_t place) {
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
            case Kind::transfers:
                await_transfers(place);
                break;
        }
        if (goes_on) member.at += step.kind == Kind::receive ? step.together : 1;
    }
}

void Followed::run(const Structure& structure, const InstanceSample& sample, std::vector<Prediction>* ways, bool with_ways) {
    with_ways_ = with_ways;
    structure_ = &structure;
    sample_ = &sample;
    ways_ = ways;
    const auto count = static_cast<uint32_t>(sample.enter.size());
    first_ = first_member(structure.pattern, sample.root);
    find_schedule();
    find_costs();
    begin();
    while (!ready_.empty()) {
        const uint32_t place = ready_.back();
        ready_.pop_back();
        go_on(place);
    }
    for (uint32_t place = 0; place < count; ++place) {
        if (members_[place].at == schedule_->steps[place].size()) resume(place);  // of one that received nothing
        if (structure.link) members_[place].clock.end(nothing);
        (*ways)[place].leave = members_[place].clock.now;
    }
    if (first_ != 0) std::rotate(ways->begin(), ways->begin() + (count - first_) % count, ways->end());  // from places to members
}

}  // namespace

void predict(const Structure& structure, const InstanceSample& sample, std::vector<Prediction>* ways, bool with_ways) {
    static thread_local Followed followed;
    followed.run(structure, sample, ways, with_ways);
}

}  // namespace polter::replay
