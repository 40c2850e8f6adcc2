// SPDX-License-Identifier: BSD-3-Clause
// Neighbourhood collectives, blocking. Their Leave names the communicator; whom the rank receives from and sends to on it stands in the
// sidecar, once, at the first of them.
#pragma once

#include "communicators.hpp"

namespace polter::mpi::handler {

class NeighbourCollective {
  public:
    NeighbourCollective(Call& call, MPI_Comm comm);
    void end(int);

  private:
    Call& call_;
    bool known_ = false;
    uint32_t comm_ = 0;
};

}  // namespace polter::mpi::handler
