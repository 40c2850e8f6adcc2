// SPDX-License-Identifier: BSD-3-Clause
// Neighbourhood collectives. The Leave of a blocking one names the communicator; whom the rank receives from and sends to on it stands in
// the sidecar, once, at the first of them. Others have the records of non-blocking collectives, of an operation of our own.
#pragma once

#include "communicators.hpp"
#include "messages/persistent.hpp"

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

class NeighbourRequest : public Begins {
  public:
    NeighbourRequest(Call& call, MPI_Comm comm, RequestVariables request);
};

class NeighbourInit : public Begins {
  public:
    NeighbourInit(Call& call, MPI_Comm comm, RequestVariables request);
};

}  // namespace polter::mpi::handler
