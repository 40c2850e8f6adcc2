// SPDX-License-Identifier: BSD-3-Clause
// When two hosts have exchanged messages often enough: the interval in which the offset must lie, over all exchanges so far, has not become
// clearly narrower for some of them, or they take long. Times in ns, each by the clock that it was taken on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace polter::clocks {

class Narrowing {
  public:
    static constexpr int most = 24, least = 8;  // exchanges,
    static constexpr int least_slow = 3;        // and where `least` of them would take longer than this:
    static constexpr int64_t long_ns = 5'000'000;

    // Sent and back by the own clock, there by the other one.
    void add(int64_t sent, int64_t there, int64_t back) {
        least_ = std::max(least_, there - back);
        most_ = std::min(most_, there - sent);
        quickest_ = std::min(quickest_, back - sent);
        ++count_;
        const double width = static_cast<double>(most_ - least_);
        if (width < clearly * width_) {
            width_ = width;
            in_vain_ = 0;
        } else {
            ++in_vain_;
        }
    }
    bool enough() const {
        return count_ >= most || (count_ >= least && in_vain_ >= patience) || (count_ >= least_slow && count_ * quickest_ >= long_ns);
    }

  private:
    static constexpr int patience = 4;
    static constexpr double clearly = 15.0 / 16;

    int64_t least_ = std::numeric_limits<int64_t>::min() / 2, most_ = std::numeric_limits<int64_t>::max() / 2;
    int64_t quickest_ = std::numeric_limits<int64_t>::max() / (2 * most);
    double width_ = std::numeric_limits<double>::infinity();
    int count_ = 0, in_vain_ = 0;
};

}  // namespace polter::clocks
