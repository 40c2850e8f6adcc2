// SPDX-License-Identifier: BSD-3-Clause
// Delays inside MPI calls and file I/O of a job: the library delays.c, preloaded behind the tracer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace polter::inject {

struct Delays {
    struct Rule {
        double probability = 0;
        int64_t mean_ns = 0, sigma_ns = 0;
    };
    Rule mpi, io;
    uint64_t seed = 1;
};

// "mpi,probability=0.1,mean=100us,sigma=20us,seed=1", "io,…". Throws Error.
Delays parse_delays(const std::vector<std::string>& specs);

// Sets the environment of the job that this process is about to start. `mpi`: as given by the user, or empty. Throws Error or
// launch::Error.
void preload_delays(const std::vector<std::string>& specs, const std::string& mpi, const std::vector<std::string>& command);

// Writes the moment of the trace's first event (CLOCK_MONOTONIC) as "origin_ns" into the logs of the delays in the experiment.
void align_delays(const std::filesystem::path& experiment, int64_t origin_ns);
bool has_delays(const std::filesystem::path& experiment);

}  // namespace polter::inject
