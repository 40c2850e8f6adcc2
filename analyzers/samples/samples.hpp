// SPDX-License-Identifier: BSD-3-Clause
// What all analyzers call a series of samples: what was measured, in which unit, and of each value where and when.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace polter::samples {

// Samples that no statistic can be made of: none, or one that is no number. The message says what, and what to do.
class Error : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

struct Sample {
    double value = 0;
    int64_t time_ns = 0;  // since the begin of the measurement
    int32_t rank = -1;    // -1: of no rank, or of all
    int32_t block = 0;    // samples that were taken one after the other are of one block, and need not be independent
};

struct Series {
    std::string what, unit;          // "one-sided latency", "ns"
    std::vector<std::string> hosts;  // by rank; empty: not known
    std::vector<Sample> samples;

    std::vector<double> values() const;
    std::vector<std::vector<double>> blocks() const;  // by block, in the order of their numbers
};

// Throws Error unless there are samples and all are finite. `what`: how the message calls them.
void check(const std::vector<double>& values, const std::string& what);

}  // namespace polter::samples
