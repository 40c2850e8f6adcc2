// SPDX-License-Identifier: BSD-3-Clause
// Follows the replay pass, and adds up what each rank does in each bucket of time.
#pragma once

#include <vector>

#include "replay/engine/engine.hpp"
#include "timeline.hpp"

namespace polter::replay {

// What a rank does from one Enter or Leave to the next, as observers see it; a call is one interval.
struct FollowedInterval {
    int64_t begin = 0, end = 0, begin_delay = 0, end_delay = 0;
    bool in_call = false;
    CallEnd call;  // of a call
};

// Cuts what observers see into intervals.
class Intervals {
  public:
    explicit Intervals(size_t threads) : open_(threads) {}
    // True if an interval ends here; `delay`: in the scenario "all".
    bool note(const Thread& thread, int64_t delay, FollowedInterval& interval);

  private:
    struct Open {
        int64_t since = 0, delay = 0;
        bool in_call = false, begun = false;
    };
    std::vector<Open> open_;
};

class Levels {
  public:
    // From `first` to `last`, the measured run; `all`: the lane of the scenario "all".
    Levels(size_t ranks, size_t threads, size_t accounts, int64_t first, int64_t last, size_t all);
    Observers following(Observers others);
    Timeline finish();  // once, after the pass

  private:
    struct OfThread {
        size_t bucket = 0;  // the first whose delay is not yet known
        int64_t delay = 0;
        uint32_t record = 0;  // number of its latest noise record
    };
    void note(const Thread& thread, int64_t delay);
    void note_noise(const Thread& thread, const PendingNoise& record, int64_t begin, int64_t end);
    void note_growth(const Thread& thread, const FollowedInterval& interval);
    void add(std::vector<int64_t>& cells, const Thread& thread, int64_t begin, int64_t end) const;
    void stand(const Thread& thread, size_t bucket);  // the delay stays until then
    size_t row(const Thread& thread) const { return static_cast<size_t>(thread.rank) / ranks_per_row_; }

    static constexpr size_t growth_buckets = 256, growths_each = 24;

    const int64_t first_, span_;
    const size_t all_, ranks_per_row_;
    size_t shift_ = 0;
    Intervals intervals_;
    std::vector<OfThread> threads_;
    std::vector<const Thread*> seen_;
    std::vector<std::vector<Way>> growths_;  // the greatest, by bucket of time
    Level finest_;
    Timeline timeline_;
};

}  // namespace polter::replay
