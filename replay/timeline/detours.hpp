// SPDX-License-Identifier: BSD-3-Clause
// Follows the replay pass of one scenario: by how much the run could be shorter whatever waited for whom inside of MPI calls.
//
// In words: while no rank is hit, the run makes the progress that it would make without the noise. So noise delays it by at most the time
// in which some rank was hit. Where ranks compute, the replay knows the dependencies. Inside of MPI calls a library may need its partner's
// CPU for a transfer, which no record tells: there, all that time counts. And no rank can take less than what it computes.
#pragma once

#include <cstdint>
#include <vector>

#include "levels.hpp"

namespace polter::replay {

class Detours {
  public:
    // From `first` to `last`, the measured run. `masks`: of the pass; its lane 1 is the scenario.
    Detours(const std::vector<std::vector<int64_t>>& masks, size_t threads, int64_t first, int64_t last);
    Observers following();
    // `replayed`: what the replay says is saved at most.
    int64_t most(int64_t replayed) const;  // after the pass

  private:
    using Cells = std::vector<int64_t>;  // by bucket: the time of all ranks in it
    void add(Cells& cells, int64_t begin, int64_t end) const;
    int64_t hit(const Cells& cells) const;  // the time in which some rank was

    const std::vector<std::vector<int64_t>>& masks_;
    int64_t first_, last_, width_;
    Cells anywhere_, in_calls_;
    std::vector<int64_t> computes_;  // by thread, without the noise
    std::vector<bool> carries_rank_;
    Intervals intervals_;
};

}  // namespace polter::replay
