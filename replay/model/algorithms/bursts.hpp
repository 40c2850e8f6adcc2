// SPDX-License-Identifier: BSD-3-Clause
// Rendezvous that one member sends before it waits for anything, or has posted the receives of: they are under way at once, and share the
// member's link. A member's messages to one partner come one after the other anyway, so of these only the first is in a burst.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule.hpp"

namespace polter::replay {

struct Bursts {
    static constexpr uint32_t alone = UINT32_MAX;
    std::vector<std::vector<uint32_t>> messages;  // of each burst, two or more
    std::vector<uint32_t> sent_in, received_in;   // by message: its burst at either end
    bool any() const { return !messages.empty(); }
};

namespace detail {
void add_burst(Bursts* bursts, const Schedule& of, bool sent, std::vector<uint32_t>* messages);
}

// `by_link(message)`: a rendezvous that the network carries by itself.
template <class ByLink>
void find_bursts(const Schedule& schedule, ByLink by_link, Bursts* bursts) {
    using Kind = Schedule::Kind;
    bursts->messages.clear();
    bursts->sent_in.assign(schedule.shares.size(), Bursts::alone);
    bursts->received_in.assign(schedule.shares.size(), Bursts::alone);
    std::vector<uint32_t> sent, posted;
    for (const auto& steps : schedule.steps) {
        for (size_t at = 0; at < steps.size(); at += steps[at].kind == Kind::receive ? steps[at].together : 1) {
            const Schedule::Step& step = steps[at];
            if (step.kind == Kind::send && by_link(step.message)) sent.push_back(step.message);
            if (step.kind == Kind::post && by_link(step.message)) posted.push_back(step.message);
            if (step.kind == Kind::receive)
                for (uint32_t i = 0; i < step.together; ++i)
                    if (by_link((&step)[i].message)) posted.push_back((&step)[i].message);
            if (step.kind == Kind::receive || (step.kind == Kind::complete && by_link(step.message))) {
                detail::add_burst(bursts, schedule, true, &sent);
                detail::add_burst(bursts, schedule, false, &posted);
            }
        }
        detail::add_burst(bursts, schedule, true, &sent);
        detail::add_burst(bursts, schedule, false, &posted);
    }
}

}  // namespace polter::replay
