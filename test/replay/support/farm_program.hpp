// SPDX-License-Identifier: BSD-3-Clause
// Random task farms with noise, on a machine that is simple enough to be simulated here (as random_program.hpp): a master that takes
// requests in the order in which they come, workers that wait for its answers. The same farm without noise gives the truth.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "random_program.hpp"

namespace polter::test {

struct FarmOptions {
    enum class Form : uint8_t {
        requests,      // workers ask first; the answer to the last one is that there is no more
        results,       // the first tasks are sent to all; results are requests; the end is told when all results have come
        nonblocking,   // Irecv and Wait on both sides
        two_messages,  // a result, then a request
        phases,        // several farms one after the other, with a barrier in between
        two_farms,
        probing,   // the master probes for anyone and receives by source
        waitany,   // the master has a receive posted for each worker
        prefetch,  // the next task is asked for before the last one is worked on: no farm whose workers wait
    };
    static constexpr uint64_t forms = 9;
    Form form = Form::requests;
    uint64_t seed = 1;
    size_t workers = 4, tasks = 40, accounts = 2;
    int64_t noise_every_ns = 200'000, noise_ns = 20'000;
    int64_t noisy_rank = -1;   // −1: all are hit
    int64_t jitter_ns = 0;     // a message takes up to so much longer: a later one may pass it
    int64_t task_ns = 60'000;  // mean; half to one and a half of it
};

struct FarmProgram {
    Program program;
    int64_t truth = 0;  // its end without noise
    // A worker that hears from its master may go on elsewhere: rank and time of the Leaves at which its time may run backward.
    std::set<std::pair<int64_t, int64_t>> restarts;
    // By master, in measured times: Enters of the sends that ask (rank, time), Leaves of the receives that take them.
    struct Farm {
        size_t master = 0;
        std::vector<std::pair<int64_t, int64_t>> asked;
        std::vector<int64_t> taken;
    };
    std::vector<Farm> farms;
};

FarmProgram farm_program(const FarmOptions&);

}  // namespace polter::test
