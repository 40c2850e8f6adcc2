// SPDX-License-Identifier: BSD-3-Clause
// What all ranks of a large job leave: sends around a ring, and collectives of all and of rows of ranks. Its trace can be replayed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>

namespace seal_test {

struct JobSpec {
    uint32_t ranks = 2;
    unsigned rounds = 20;       // each: send to the next rank, receive from the one before, every fourth time an Allreduce
    uint32_t ranks_a_host = 2;  // their clocks are one
    std::set<uint32_t> killed;  // in the middle, inside a call
};

// Into `experiment`/ranks. Written by the OTF2 API in child processes. Throws std::runtime_error.
void write_job(const std::filesystem::path& experiment, const JobSpec&);

// Events of a rank that was not killed.
uint64_t job_events(const JobSpec&, uint32_t rank);

}  // namespace seal_test
