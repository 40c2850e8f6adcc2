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

// What all ranks together had done, in steps of one length from the beginning: for intervals of any fixed length.
struct Series {
    int64_t step_ns = 0;                               // a power of two of milliseconds, so that jobs of any length have about as many
    std::map<std::string, std::vector<double>> steps;  // sums in each step: "calls", "bytes", counters by name; ns in "mpi", "noise:..."
};

struct Job {
    std::string id, application;
    double size = 0;  // of the input, as the user says; 0: not said
    int64_t processes = 0, nodes = 1, runtime_ns = 0, started_s = 0;
    std::map<std::string, double> totals;     // over all ranks: calls, bytes, and counters by their names
    std::map<std::string, Feature> features;  // rates: a second, or shares of the time
    Series series;                            // empty in jobs of schemas before 3
    std::vector<Stolen> stolen;               // most first
    bool noise_known = false;
};

}  // namespace polter::quality
