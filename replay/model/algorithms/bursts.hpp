// SPDX-License-Identifier: BSD-3-Clause
// Rendezvous that one member sends before it waits for anything, or has posted the receives of: they are under way at once, and share the
// member's link. So how long each takes is known once all of them have begun. A member's messages to one partner come one after the other
// anyway: of these only the first is in a burst.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule.hpp"

namespace polter::replay {

class Bursts {
  public:
    // `by_link(message)`: a rendezvous that the network carries by itself. Before this, and after clear(), each message is alone.
    template <class ByLink>
    void find(const Schedule& schedule, ByLink by_link);
    void clear() { messages_.clear(); }

    // No message is under way.
    void start();
    // `message` is under way now. Calls `share(messages)` for each burst of which all are, and then `come(message)` for each message that
    // waited for this one last; that may be itself.
    template <class Share, class Come>
    void begin(uint32_t message, Share share, Come come);

  private:
    static constexpr uint32_t none = UINT32_MAX;
    void add(const Schedule& schedule, bool sent, std::vector<uint32_t>* messages);
    bool whole(uint32_t burst) const { return burst == none || to_begin_[burst] == 0; }
    bool comes(uint32_t message) const { return whole(sent_in_[message]) && whole(received_in_[message]); }

    std::vector<std::vector<uint32_t>> messages_;  // of each burst, two or more
    std::vector<uint32_t> sent_in_, received_in_;  // by message: its burst at either end
    std::vector<uint32_t> to_begin_;               // by burst: so many are not under way yet
};

template <class ByLink>
void Bursts::find(const Schedule& schedule, ByLink by_link) {
    using Kind = Schedule::Kind;
    messages_.clear();
    sent_in_.assign(schedule.shares.size(), none);
    received_in_.assign(schedule.shares.size(), none);
    std::vector<uint32_t> sent, posted;
    const auto add_both = [&] {
        add(schedule, true, &sent);
        add(schedule, false, &posted);
    };
    for (const auto& steps : schedule.steps) {
        for (size_t at = 0; at < steps.size(); at += steps[at].kind == Kind::receive ? steps[at].together : 1) {
            const Schedule::Step* const step = &steps[at];
            if (step->kind == Kind::send && by_link(step->message)) sent.push_back(step->message);
            if (step->kind == Kind::post && by_link(step->message)) posted.push_back(step->message);
            for (uint32_t i = 0; step->kind == Kind::receive && i < step->together; ++i)
                if (by_link(step[i].message)) posted.push_back(step[i].message);
            if (step->kind == Kind::receive || (step->kind == Kind::complete && by_link(step->message))) add_both();  // here it waits
        }
        add_both();
    }
    start();
}

template <class Share, class Come>
void Bursts::begin(uint32_t message, Share share, Come come) {
    if (messages_.empty()) return come(message);
    const uint32_t bursts[] = {sent_in_[message], received_in_[message]};
    for (const uint32_t burst : bursts)
        if (burst != none && --to_begin_[burst] == 0) share(messages_[burst]);
    if (comes(message)) come(message);
    for (const uint32_t burst : bursts) {
        if (burst == none || !whole(burst)) continue;
        for (const uint32_t other : messages_[burst])
            if (other != message && comes(other)) come(other);
    }
}

}  // namespace polter::replay
