// SPDX-License-Identifier: BSD-3-Clause
// Close-ups: every call, noise event and message of some stretches of the run. Which stretches is known only after the event graph has
// been read, so a pass of its own follows the run again.
#pragma once

#include <utility>
#include <vector>

#include "levels.hpp"
#include "replay/attribution/event_costs.hpp"

namespace polter::replay {

using Stretch = std::pair<int64_t, int64_t>;  // ns since the first event

// Around the costliest noise events and the greatest delays with their origins, as long as the budget allows; the whole run where it is
// short enough. `ways`: times since the first event.
std::vector<Stretch> stretches_around(const std::vector<CostlyNoise>& costliest, const Ways& ways, int64_t span, int64_t events,
                                      size_t ranks);

class CloseUps {
  public:
    CloseUps(const std::vector<Stretch>& stretches, size_t threads, int64_t first, size_t all);
    Observers following(Observers others);
    std::vector<CloseUp> finish();

  private:
    void note_call(const Thread& thread, const FollowedInterval& interval);
    void note_noise(const Thread& thread, const PendingNoise& record, int64_t begin, int64_t end);
    void note_message(const Thread& thread, const Match& match);
    template <class Add>
    void in_each(int64_t begin, int64_t end, Add add);  // close-up that has a part of it

    const int64_t first_;
    const size_t all_, most_;
    Intervals intervals_;
    std::vector<std::vector<std::pair<size_t, size_t>>> arriving_;  // by thread: messages whose Leave is not known yet, by close-up
    std::vector<CloseUp> list_;                                     // by time, and apart from each other
};

}  // namespace polter::replay
