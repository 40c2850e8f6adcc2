// SPDX-License-Identifier: BSD-3-Clause
// Persistent requests: made once, started many times. Each start is a new operation with a new id.
#pragma once

#include "point_to_point.hpp"

namespace polter::mpi::handler {

class SendInit : public Begins {
  public:
    SendInit(Call& call, uint8_t mode, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, RequestVariables request);
};

class ReceiveInit : public Begins {
  public:
    ReceiveInit(Call& call, int source, int tag, MPI_Comm comm, RequestVariables request);
};

// Neighbourhood collectives.
class OtherRequestInit : public Begins {
  public:
    OtherRequestInit(Call& call, RequestVariables request) : Begins(call, request) {
        request_.persistent = true;
        request_.active = false;
    }
};

class Startall {
  public:
    Startall(Call& call, int count, RequestVariables requests) : call_(call) {
        if (call)
            for (int i = 0; i < count; i++) begin(requests.handle(i), requests.address(i));
    }
    void end(int) { call_.leave(); }

  private:
    void begin(MPI_Request request, const void* variable);
    Call& call_;
};

class Start : public Startall {
  public:
    Start(Call& call, RequestVariables request) : Startall(call, 1, request) {}
};

}  // namespace polter::mpi::handler
