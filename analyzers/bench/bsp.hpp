// SPDX-License-Identifier: BSD-3-Clause
// The bulk-synchronous benchmark as a command: which launcher, which of the programs, with which arguments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace polter::bench {

struct Bsp {
    std::string workload = "work", collective = "barrier";
    int64_t grain_ns = 10'000'000, units = 0;  // units 0: as many as last the grain
    int64_t phases = 200, warmups = 5;
    double imbalance_percent = 0;
    int64_t halo = 0, size = 0;  // halo: doubles to each neighbour; size: of the workload's data, 0: its own
    int ranks = 2;
    std::string mpi;                    // "openmpi" or "mpich"; empty: of the launcher, else the first that is installed
    std::vector<std::string> launcher;  // empty: mpirun of that MPI, ranks bound to cores
};

extern const std::vector<std::string> workloads, collectives;

// The whole command; the program writes its JSON to `file`. Throws launch::Error.
std::vector<std::string> command_of(const Bsp&, const std::string& file);
// The launcher alone, with the ranks bound.
std::vector<std::string> launcher_of(const std::string& mpi, int ranks);
// The MPI of the launcher, or the first that is installed here. Throws launch::Error.
std::string mpi_of(const Bsp&);
// Runs it and returns its JSON as text. Throws launch::Error.
std::string run_bsp(const Bsp&);

}  // namespace polter::bench
