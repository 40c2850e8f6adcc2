// SPDX-License-Identifier: BSD-3-Clause
// Calls that began when all they waited for had been sent and posted. Their messages were still under way, or there already: which of it
// is decided once it is known how long such messages are under way.
#pragma once

#include <bit>
#include <cstdint>

#include "call_samples.hpp"
#include "replay/base/indexed_map.hpp"

namespace polter::replay {

struct TimeRange {
    int64_t least = 0, most = 0;  // noise in between leaves open how much of it was the cost
};

class WaitSamples {
  public:
    // `slack`: from the later of the send and an earlier posting to the call's beginning; `took`: the call; `since_…`: to its end.
    struct Sample {
        int64_t slack = 0;
        TimeRange took, since_send, since_both;
    };
    // `single`: nothing else can have ended the call, so its end tells when the message arrived.
    void add(const Sample&, bool single);
    void merge(const WaitSamples&);
    int64_t count() const;
    bool empty() const { return by_slack_.empty(); }

    // What the calls cost that began `transfer` or more after both: their messages were there.
    CostLimits own(int64_t transfer) const;
    // All of them, by slack; the least that one took.
    CostLimits with_most_slack() const;
    int64_t least_taken() const;  // asked again and again
    // How long the messages were under way for which calls waited: those that took clearly longer than `shortest`, the least that any
    // such call took, whatever messages it waited for. None, unless they agree.
    CostLimits transfers(bool rendezvous, int64_t shortest) const;
    // How many of these speak for a transfer that began with the send (eager), or once both were there (late): one of them explains the
    // calls' ends clearly better.
    // `transfer`: how long such messages are under way, where other calls tell; else 0. `shortest`: as above. `few_tell`: false in tests.
    struct Evidence {
        int64_t eager = 0, late = 0;
    };
    Evidence evidence(int64_t transfer, int64_t shortest, bool few_tell = true) const;
    // Of messages that could not leave before the call: all that the calls took.
    CostLimits since_both() const;

    struct UnderWay {
        CostLimits since_send, since_both;
    };
    using BySlack = BinMap<CostLimits>;
    using ByTaken = BinMap<UnderWay>;
    BySlack& by_slack() {
        least_taken_ = unknown;
        return by_slack_;
    }
    ByTaken& by_taken() { return by_taken_; }
    const BySlack& by_slack() const { return by_slack_; }
    const ByTaken& by_taken() const { return by_taken_; }

  private:
    UnderWay waited(int64_t longer_than) const;

    static constexpr int64_t unknown = -1;
    BySlack by_slack_;  // what calls took
    mutable int64_t least_taken_ = unknown;
    ByTaken by_taken_;  // of single ones, by the least that they took
};

}  // namespace polter::replay
