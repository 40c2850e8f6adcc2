// SPDX-License-Identifier: BSD-3-Clause
// Partitioned communication: one message, whose parts the program makes ready one by one. Its MpiIsend is recorded in the Pready that made
// the last part ready (with no parts in the start), its MpiIrecvRequest in the receiver's start; completions are those of other requests.
//
// Such requests match only each other, those of one partner, tag and communicator in the order of initialisation: so each carries its
// 1-based index among those.
#pragma once

#include <map>
#include <tuple>
#include <unordered_map>

#include "persistent.hpp"

namespace polter::mpi {

// The partitioned requests that there are. Apart from the other requests: while one thread waits for such a request, which takes it out of
// their table, others make its parts ready. Not thread-safe: see TableLock.
struct Partitioned {
    struct One {
        bool sends = false, active = false;
        uint32_t ordinal = 0;
        int partitions = 0, left = 0;  // left: not ready yet, of a send
        uint64_t id = 0;
        write::Message message;  // of a receive: as posted
    };
    std::unordered_map<uint64_t, One> open;                                   // by handle, from initialisation to freeing
    std::map<std::tuple<bool, uint32_t, uint32_t, uint32_t>, uint32_t> made;  // by direction, communicator, partner and tag

    // True if there is nothing to record yet: parts are not ready.
    bool started(uint64_t handle, uint64_t id);
    void ended(uint64_t handle);
    bool freed(uint64_t handle);  // true if all parts were ready
    const One* find(uint64_t handle) const;
};

namespace handler {

class PartitionedInit : public Begins {
  public:
    void end(int result);

  protected:
    PartitionedInit(Call& call, int partitions, RequestVariables request);

  private:
    const int partitions_;
};

class PartitionedSendInit : public PartitionedInit {
  public:
    PartitionedSendInit(Call& call, int partitions, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                        RequestVariables request);
};

class PartitionedReceiveInit : public PartitionedInit {
  public:
    PartitionedReceiveInit(Call& call, int partitions, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                           RequestVariables request);
};

// So many parts are ready. Counted before the call: the message cannot leave earlier.
class PreadyList {
  public:
    PreadyList(Call& call, int count, MPI_Request request);
    void end(int) { call_.leave(); }

  private:
    Call& call_;
};

class Pready : public PreadyList {
  public:
    Pready(Call& call, MPI_Request request) : PreadyList(call, 1, request) {}
};

class PreadyRange : public PreadyList {
  public:
    PreadyRange(Call& call, int low, int high, MPI_Request request) : PreadyList(call, high - low + 1, request) {}
};

// A poll: one that found the part names the message on its Leave, as a probe does; one in vain is a test of the request.
class Parrived {
  public:
    Parrived(Call& call, MPI_Request request, const int* flag) : call_(call), request_(request), flag_(flag) {}
    void end(int result);

  private:
    Call& call_;
    const MPI_Request request_;
    const int* const flag_;
};

}  // namespace handler
}  // namespace polter::mpi
