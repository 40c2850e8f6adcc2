// SPDX-License-Identifier: BSD-3-Clause
// One collective of the virtual ranks: its algorithm's messages, with as many members as take part now.
#pragma once

#include <cstdint>
#include <vector>

#include "noise.hpp"
#include "replay/model/program.hpp"

namespace polter::prediction {

// As one member of the measured run has it.
struct CollectiveCall {
    uint8_t operation = 0;
    replay::Waits waits = replay::Waits::n_to_n;
    const replay::Structure* structure = nullptr;  // none: a constant after the last that is waited for
    bool for_all = true;                           // n_to_n_likely: the members waited for each other
};

class CollectiveRun {
  public:
    // `enter`: by member. `clocks`: by member; none: no noise. Leaves the members' ends in `end`, without what the algorithm does not explain.
    // `measured`: the members that the algorithm's costs were learned with.
    void run(const CollectiveCall&, uint32_t root, uint32_t measured, const std::vector<int64_t>& enter,
             const std::vector<DrawnClock*>& clocks, std::vector<int64_t>* end);

  private:
    struct Member {
        int64_t now = 0;
        DrawnClock* clock = nullptr;
        size_t at = 0;
        void work(int64_t ns) { now = clock ? clock->finish(now, ns) : now + ns; }
        void wait(int64_t until) { now = std::max(now, until); }
    };
    struct Message {
        int64_t arrival = INT64_MIN, ready = INT64_MIN, posted = INT64_MIN;
    };
    void go_on(uint32_t place);
    void settle(Message&, double share, uint32_t peer);
    bool receive(Member&, const replay::Schedule::Step*);

    const replay::Schedule* schedule_ = nullptr;
    replay::Structure structure_;
    std::vector<Member> members_;
    std::vector<Message> messages_;
    std::vector<uint32_t> ready_, order_;
};

}  // namespace polter::prediction
