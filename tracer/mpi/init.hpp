// SPDX-License-Identifier: BSD-3-Clause
// MPI_Init, MPI_Init_thread, MPI_Finalize. A process that never calls MPI_Init pays nothing; one that never finalises leaves what the
// kernel keeps of its files.
#pragma once

#include <mpi_regions.hpp>

#include "core/call.hpp"

namespace polter::mpi::handler {

class Init {
  public:
    Init(uint32_t region, const void* from);
    void end(int result);

  private:
    void open_exporter();
    void begin_trace();

    const uint32_t region_;
    const void* const from_;  // where the program called it
    bool active_ = false;
    uint64_t entered_ = 0, own_cost_ = 0;
    std::string experiment_;
    write::ThreadClock clock_;  // finds its rate during MPI_Init, for those of all threads
    std::unique_ptr<write::NoiseFeed> feed_;
    write::Exporter exporter_;
};

class Finalize {
  public:
    explicit Finalize(Call& call);
    void end(int result);

  private:
    Call& call_;
};

}  // namespace polter::mpi::handler
