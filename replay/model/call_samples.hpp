// SPDX-License-Identifier: BSD-3-Clause
// What the instances of one class say about its cost. Each says that the cost lies between a least and a greatest value: an instance without
// noise says it exactly, one with noise leaves the noise open. Two histograms of these limits suffice to find the value that disagrees
// least with all intervals, and they add up in any order.
#pragma once

#include <cstdint>
#include <map>

#include "replay/base/histogram.hpp"

namespace polter::replay {

class CostLimits {
  public:
    void add(int64_t least, int64_t most) {
        least_.add(least);
        most_.add(most);
    }
    void merge(const CostLimits& other) {
        least_.merge(other.least_);
        most_.merge(other.most_);
    }
    int64_t count() const { return most_.count(); }

    // The values with the smallest sum of distances to all intervals: where as many lie wholly above as wholly below. One value, if
    // enough instances are exact: their median.
    struct Agreed {
        int64_t from = 0, to = 0;
    };
    Agreed agreed() const;

    const Histogram& least() const { return least_; }
    const Histogram& most() const { return most_; }
    Histogram& least() { return least_; }
    Histogram& most() { return most_; }

  private:
    Histogram least_, most_;
};

}  // namespace polter::replay
