// SPDX-License-Identifier: BSD-3-Clause
// What the instances of one class say about its cost. Each says that the cost lies between a least and a greatest value: an instance
// without noise says it exactly, one with noise leaves the noise open. Histograms of these limits suffice to find the value that disagrees
// least with all intervals, and they add up in any order. The exact ones are apart: they show what calls vary by without noise.
#pragma once

#include <cstdint>
#include <map>

#include "replay/base/histogram.hpp"

namespace polter::replay {

class CostLimits {
  public:
    void add(int64_t least, int64_t most) {
        if (least == most) return exact_.add(most);
        least_.add(least);
        most_.add(most);
    }
    void merge(const CostLimits& other) {
        exact_.merge(other.exact_);
        least_.merge(other.least_);
        most_.merge(other.most_);
    }
    int64_t count() const { return exact_.count() + most_.count(); }

    // The values with the smallest sum of distances to all intervals: where as many lie wholly above as wholly below. One value, if
    // enough instances are exact: their median.
    struct Agreed {
        int64_t from = 0, to = 0;
    };
    Agreed agreed() const;

    // Of all instances. (Copies: for the end of learning.)
    Histogram least() const { return with_exact(least_); }
    Histogram most() const { return with_exact(most_); }
    int64_t shortest() const;  // the smallest greatest value; 0 without any

    // What noise seems to have added to calls of a class that usually cost `usual`: in each by how much longer it was, up to its noise.
    // Calls without noise vary as well: how much of that is so much longer for other reasons they show.
    struct Excess {
        int64_t calls = 0, exact = 0;   // with noise, and without
        double counted = 0, other = 0;  // in ns, of those with noise
    };
    Excess excess(int64_t usual) const;

    // What is kept: the exact values, and the limits of the other instances.
    const Histogram& exact_values() const { return exact_; }
    const Histogram& open_least() const { return least_; }
    const Histogram& open_most() const { return most_; }
    Histogram& exact_values() { return exact_; }
    Histogram& open_least() { return least_; }
    Histogram& open_most() { return most_; }

  private:
    Histogram with_exact(const Histogram& open) const {
        Histogram all = exact_;
        all.merge(open);
        return all;
    }

    Histogram exact_, least_, most_;
};

}  // namespace polter::replay
