// SPDX-License-Identifier: BSD-3-Clause
// A trace as another recorder would have written it: the same run, other records or other times of records.
#pragma once

#include <string>
#include <vector>

#include "trace_spec.hpp"

namespace polter::test {

struct Habit {
    std::string name;
    int64_t shift_ns;  // by how much it may change an estimate: times of records differ by a few of its steps
    void (*rewrite)(TraceSpec&);
};

const std::vector<Habit>& habits();

// All times `factor` times as long: a recorder's own delays are short beside them.
void stretch(TraceSpec&, int64_t factor);

}  // namespace polter::test
