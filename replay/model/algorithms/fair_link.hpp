// SPDX-License-Identifier: BSD-3-Clause
// Messages that are under way on one link at once, each with an equal part of it: how much later each is over than if it were alone.
// (Processor sharing: Kleinrock, Queueing Systems, volume 2, 1976, section 4.4. Of one link the max-min fair shares of
// rules/links/shared_links.hpp are just these.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace polter::replay {

class FairLink {
  public:
    void start() { messages_.clear(); }
    void add(int64_t begin, int64_t length) { messages_.push_back({begin, length}); }  // ns; `length`: alone
    // By message, in the order of add(), in ns. Valid until the next call.
    const std::vector<int64_t>& later();

  private:
    struct Message {
        int64_t begin, length;
    };
    struct Under {
        double end;  // in time that each message has had for itself since the first one began
        size_t message;
        bool operator<(const Under& other) const { return end > other.end; }  // first the one that is over first
    };
    bool apart() const;
    std::vector<Message> messages_;
    std::vector<int64_t> later_;
    std::vector<size_t> order_;
    std::vector<Under> under_way_;
};

// By how much each message is over later for each ns more of four costs: L and o, and what all data adds to each (Prediction). By
// differences, as messages that begin at other times also share the link otherwise.
class LinkSlopes {
  public:
    static constexpr size_t costs = 4, by_length = 2;  // by_length: the cost that lengths are parts of
    using Slopes = std::array<double, costs>;
    void start() { messages_.clear(); }
    // `length`: `share` of that cost; `begin_by`: of its beginning.
    void add(int64_t begin, int64_t length, double share, const Slopes& begin_by) { messages_.push_back({begin, length, share, begin_by}); }
    const std::vector<Slopes>& find();

  private:
    const std::vector<int64_t>& over(size_t more_of);
    struct Message {
        int64_t begin, length;
        double share;
        Slopes begin_by;
    };
    std::vector<Message> messages_;
    std::vector<Slopes> slopes_;
    std::vector<int64_t> over_, plain_;
    FairLink link_;
};

}  // namespace polter::replay
