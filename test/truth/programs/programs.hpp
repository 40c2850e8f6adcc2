// SPDX-License-Identifier: BSD-3-Clause
// The bench's MPI programs: the communication patterns of real codes with computing reduced to its duration. What a program does and
// how long it computes depends on its parameters and the seed alone, never on time, but where MPI itself lets time decide.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <vector>

#include "../recorder/recorder.hpp"

namespace polter::truth {

struct Parameters {
    int64_t iterations = 100;
    int64_t compute_ns = 1'000'000;  // mean of one phase on one rank
    double imbalance = 0.1;          // half width of its spread over ranks and iterations, relative
    double skew = 0;                 // half width of what ranks differ by in all of the run, relative; of codes.hpp
    int64_t bytes = 8;               // of one message
    int dimensions = 2;              // of the process grid
};

struct Here {
    int rank = 0, size = 1;
    Here() {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
    }
};

// Computes `share` of a phase, spread by the imbalance. `phase` and `part` tell one stretch of computing from another.
inline void compute_phase(const Parameters& p, double share, uint64_t who, uint64_t phase, uint64_t part) {
    const double spread = 1 + p.imbalance * (2 * draw(who, phase, part) - 1);
    compute(static_cast<int64_t>(static_cast<double>(p.compute_ns) * share * spread));
}

// A near-square or near-cubic periodic grid.
class Grid {
  public:
    explicit Grid(int dimensions);
    int size(int dimension) const { return size_[dimension]; }
    int coordinate(int dimension) const { return coordinate_[dimension]; }
    int neighbour(int dimension, int step, bool periodic) const;  // MPI_PROC_NULL beyond the edge

  private:
    std::vector<int> size_, coordinate_;
};

using Program = void(const Parameters&);
Program barrier_phases, allreduce_phases, two_kinds, rooted_mix, transpose, overlapped_collectives, subcommunicators, scan_phases,
    nested_collectives;                                                        // collectives.cpp
Program stencil, wavefront, irregular;                                         // neighbours.cpp
Program rma_fence, rma_pscw, rma_lock, rma_table, rma_shards, rma_request;     // windows.cpp
Program butterfly, pipeline, one_way, rendezvous, master_worker, result_farm;  // exchanges.cpp
Program probing_farm, waitany_farm;                                            // farms.cpp

}  // namespace polter::truth
