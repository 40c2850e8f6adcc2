// SPDX-License-Identifier: BSD-3-Clause
// Random valid MPI programs with noise, on a machine that is simple enough to be simulated here: work takes its time and is prolonged by
// noise, a message takes a latency, a receive an overhead, waiting is elastic. The same program without noise gives the truth.
#pragma once

#include <cstdint>
#include <vector>

#include "trace_spec.hpp"

namespace polter::test {

struct ProgramOptions {
    uint64_t seed = 1;
    size_t ranks = 4, steps = 40, accounts = 3;
    int64_t noise_every_ns = 20'000;  // mean distance of noise events on a rank; 0: none
    int64_t noise_ns = 2'000;         // mean length
    bool wildcards = true, synchronous = true;
    bool structured = false;  // mostly collectives, made of messages
    bool windows = false;     // mostly one-sided communication
    bool locks = false;       // … locks among it; who has one first depends on the noise, so the truth without it may be another
    bool unrecorded = false;  // … by a tracer that has no records of it
};

// By the seed another mixture: ranks, steps, sources, how often noise hits and for how long, collectives of messages, windows.
ProgramOptions mixed_options(uint64_t seed);

struct Program {
    TraceSpec trace;
    // Whoever does the second must not be earlier than the first: times of Enters and Leaves, which differ within a rank.
    struct Order {
        size_t first_rank, second_rank;
        int64_t first, second;
    };
    std::vector<Order> orders;
    int64_t end = 0;
};

Program random_program(const ProgramOptions&);
// Of such a mixture, some with locks.
Program mixed_program(uint64_t seed);

}  // namespace polter::test
