// SPDX-License-Identifier: BSD-3-Clause
// How much of the run an open question concerns, and by how much its answer can change the run time at most.
//
// Answers at different times can add up, those at the same time cannot: a delay of two ranks at once delays the program once. So both
// figures are the length of a union of time intervals, over all ranks. The union is taken in equal parts of the run; within one, what
// intervals cover together is at most the part. That makes it an upper limit, and independent of the order in which intervals come.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

#include "replay/base/flaws.hpp"

namespace polter::replay {

// ns since the Unix epoch or any other origin; the run is [first, last).
class UnionOfTime {
  public:
    static constexpr size_t parts = 4096;

    void add(int64_t first, int64_t last, int64_t begin, int64_t end) {
        begin = std::max(begin, first);
        end = std::min(end, last);
        if (begin >= end) return;
        covered_.resize(parts);
        const int64_t width = part_width(first, last);
        for (int64_t at = begin; at < end;) {
            const int64_t part = (at - first) / width, next = std::min(end, first + (part + 1) * width);
            int64_t& covered = covered_[static_cast<size_t>(part)];
            covered = std::min(covered + next - at, width);
            at = next;
        }
    }
    void merge(const std::vector<int64_t>& other, int64_t first, int64_t last) {
        if (other.empty()) return;
        covered_.resize(parts);
        for (size_t i = 0; i < parts; ++i) covered_[i] = std::min(covered_[i] + other[i], part_width(first, last));
    }
    int64_t length() const { return std::accumulate(covered_.begin(), covered_.end(), int64_t{0}); }
    const std::vector<int64_t>& covered() const { return covered_; }

  private:
    static int64_t part_width(int64_t first, int64_t last) {
        return std::max<int64_t>(1, (last - first + static_cast<int64_t>(parts) - 1) / static_cast<int64_t>(parts));
    }

    std::vector<int64_t> covered_;  // by part, ns; empty: nothing
};

// Of one kind of flaw. `limited`: how many of its occurrences the two unions hold; the change through the others is not known.
struct OpenQuestion {
    int64_t limited = 0;
    UnionOfTime concerned, change;
};
using OpenQuestions = std::map<Flaw, OpenQuestion>;

}  // namespace polter::replay
