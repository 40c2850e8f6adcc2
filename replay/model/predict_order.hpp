// SPDX-License-Identifier: BSD-3-Clause
// The steps of all members of a schedule in an order in which they can be done. It does not depend on times, so it is found once for all
// samples that are followed together.
#pragma once

#include <cstdint>
#include <vector>

#include "collective_algorithm.hpp"

namespace polter::replay {

// What a message costs by a structure.
struct MessageCost {
    double share = 0, work_share = 0;  // of the data: that it carries; that its work grows with
    int64_t flight = 0, work = 0, taking = 0, by_length = 0;
    bool rendezvous = false, by_link = false, shares_links = false;

    MessageCost() = default;
    MessageCost(const Structure& structure, double of)
        : share(of),
          work_share(structure.link ? 0 : of),
          flight(structure.flight(of)),
          work(structure.work(of)),
          taking(structure.taking(of)),
          by_length(structure.by_length(of)),
          rendezvous(structure.rendezvous(of)),
          by_link(structure.by_link(of)),
          shares_links(structure.shares_links(of)) {}
};

struct StepOperation {
    enum class Kind : uint8_t { send, share_out, share_in, post, receive, receive_in_order, complete };
    Kind kind;
    bool own_work = false;  // of a send
    bool settles = false;   // of a rendezvous: both sides are there now
    uint32_t place = 0, message = 0;
    const Schedule::Step* steps = nullptr;  // of receives that belong together
    uint32_t sharing = 0;                   // of share_out and share_in: which messages, among those of the program
};
struct StepProgram {
    std::vector<StepOperation> operations;
    std::vector<std::vector<uint32_t>> sharing;  // messages that share a link
};

// `costs`: by message. `link`: of the structure.
StepProgram order_of_steps(const Schedule& schedule, const std::vector<MessageCost>& costs, bool link);

}  // namespace polter::replay
