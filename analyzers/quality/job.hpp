// SPDX-License-Identifier: BSD-3-Clause
// A job as the history keeps it: what it was, how long it took, and what its ranks did in each of its intervals.
//
// Source: Aaziz and Cook, "HPC Production Job Quality Assessment" (2017), section 2; what differs is in the README.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace polter::quality {

inline constexpr size_t intervals = 8;  // equal parts of the run

// Over the ranks, in each interval.
struct Feature {
    std::array<double, intervals> mean{}, deviation{};
};

struct Stolen {
    std::string source, culprit;  // without "os:"
    int64_t ns = 0;               // of the rank that lost most to it
    int32_t rank = 0;
};

struct Job {
    std::string id, application;
    double size = 0;  // of the input, as the user says; 0: not said
    int64_t processes = 0, nodes = 1, runtime_ns = 0, started_s = 0;
    std::map<std::string, double> totals;     // over all ranks: calls, bytes, and counters by their names
    std::map<std::string, Feature> features;  // rates: a second, or shares of the time
    std::vector<Stolen> stolen;               // most first
    bool noise_known = false;
};

}  // namespace polter::quality
