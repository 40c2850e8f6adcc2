// SPDX-License-Identifier: BSD-3-Clause
#include "predict_order.hpp"

#include <numeric>
#include <utility>

#include "algorithms/bursts.hpp"

namespace polter::replay {

namespace {

using Kind = Schedule::Kind;
using Operation = StepOperation;

class Ordering {
  public:
    Ordering(const Schedule& schedule, const std::vector<MessageCost>& costs, bool link)
        : schedule_(schedule), costs_(costs), link_(link), members_(schedule.steps.size()), messages_(costs.size()) {
        bursts_.find(schedule, [&](uint32_t message) { return costs[message].by_link; });
    }

    StepProgram find() {
        ready_.resize(members_.size());
        std::iota(ready_.begin(), ready_.end(), 0u);
        while (!ready_.empty()) {
            const uint32_t place = ready_.back();
            ready_.pop_back();
            const auto& steps = schedule_.steps[place];
            for (size_t& at = members_[place].at; at < steps.size() && done(steps[at], place);)
                at += steps[at].kind == Kind::receive ? steps[at].together : 1;
        }
        return std::move(program_);
    }

  private:
    static constexpr uint32_t nobody = UINT32_MAX;
    struct Member {
        size_t at = 0;
        size_t shared_upto = 0, known = 0;
    };
    struct Message {
        bool came = false, ready = false, posted = false, begun = false;
        std::vector<uint32_t> awaited_by;
    };

    void come(Message& message) {
        message.came = true;
        ready_.insert(ready_.end(), message.awaited_by.begin(), message.awaited_by.end());
        message.awaited_by.clear();
    }
    bool settle(uint32_t number) {
        Message& message = messages_[number];
        if (!message.ready || !message.posted || message.begun) return false;
        return message.begun = true;
    }
    // Behind the operation that settled it.
    void begin(uint32_t number) {
        bursts_.begin(
            number, [&](const std::vector<uint32_t>& burst) { share(Operation::Kind::share_in, 0, burst); },
            [&](uint32_t message) { come(messages_[message]); });
    }
    bool has_come(uint32_t number, uint32_t place) {
        if (!messages_[number].came) messages_[number].awaited_by.push_back(place);
        return messages_[number].came;
    }
    void post(uint32_t number, uint32_t place) {
        Message& message = messages_[number];
        if (!costs_[number].rendezvous || message.posted) return;
        message.posted = true;
        const bool settles = settle(number);
        program_.operations.push_back({.kind = Operation::Kind::post, .settles = settles, .place = place, .message = number});
        if (settles) begin(number);
    }
    auto eager() const {
        return [this](uint32_t message) { return !costs_[message].rendezvous; };
    }
    // As in Followed.
    void share_out(uint32_t place, size_t at) {
        const std::vector<Schedule::Step>& steps = schedule_.steps[place];
        sent_.push_back(steps[at].message);
        if (goes_on_sending(steps, at, eager())) return;
        for (const uint32_t message : sent_) come(messages_[message]);
        share(Operation::Kind::share_out, place, std::exchange(sent_, {}));
    }
    bool share_in(uint32_t place) {
        Member& member = members_[place];
        if (member.at < member.shared_upto) return true;
        std::vector<uint32_t> messages;
        const size_t behind = receives_on(schedule_.steps[place], member.at, eager(), &messages);
        for (; member.known < messages.size(); ++member.known)
            if (!has_come(messages[member.known], place)) return false;
        member.known = 0;
        member.shared_upto = behind;
        if (messages.size() > 1) share(Operation::Kind::share_in, place, std::move(messages));
        return true;
    }
    void share(Operation::Kind kind, uint32_t place, std::vector<uint32_t> messages) {
        program_.operations.push_back({.kind = kind, .place = place, .sharing = static_cast<uint32_t>(program_.sharing.size())});
        program_.sharing.push_back(std::move(messages));
    }
    bool done(const Schedule::Step& step, uint32_t place) {
        Member& member = members_[place];
        const MessageCost& cost = costs_[step.message];
        switch (step.kind) {
            case Kind::send: {
                Operation send{.kind = Operation::Kind::send, .place = place, .message = step.message};
                send.own_work = !cost.by_link || !schedule_.send_blocks(place, member.at);
                if (cost.rendezvous) {
                    messages_[step.message].ready = true;
                    send.settles = settle(step.message);
                } else if (!link_) {
                    come(messages_[step.message]);
                }
                program_.operations.push_back(send);
                if (send.settles) begin(step.message);
                if (cost.shares_links) share_out(place, member.at);
                return true;
            }
            case Kind::post:
                post(step.message, place);
                return true;
            case Kind::receive:
                for (uint32_t i = 0; i < step.together; ++i) post((&step)[i].message, place);
                if (link_ && !share_in(place)) return false;
                for (uint32_t i = 0; i < step.together; ++i)
                    if (!has_come((&step)[i].message, place)) return false;
                program_.operations.push_back({.kind = step.together == 1 ? Operation::Kind::receive : Operation::Kind::receive_in_order,
                                               .place = place,
                                               .message = step.message,
                                               .steps = &step});
                return true;
            case Kind::complete:
                if (!cost.rendezvous) return true;
                if (!has_come(step.message, place)) return false;
                program_.operations.push_back({.kind = Operation::Kind::complete, .place = place, .message = step.message});
                return true;
            case Kind::transfers:  // samples with some are followed one by one
                return true;
        }
        return true;
    }

    const Schedule& schedule_;
    const std::vector<MessageCost>& costs_;
    bool link_;
    std::vector<Member> members_;
    std::vector<Message> messages_;
    std::vector<uint32_t> ready_, sent_;
    Bursts bursts_;
    StepProgram program_;
};

}  // namespace

StepProgram order_of_steps(const Schedule& schedule, const std::vector<MessageCost>& costs, bool link) {
    return Ordering(schedule, costs, link).find();
}

}  // namespace polter::replay
