// SPDX-License-Identifier: BSD-3-Clause
// Collectives: blocking, non-blocking, persistent.
//
// Bytes, as Score-P counts them: what would pass if each pair of ranks exchanged its data directly, the rank's own share included
// unless MPI_IN_PLACE keeps it where it is. N: ranks of the communicator (of the remote group in an intercommunicator, where there is
// no own share); n: N less one where in place.
//
//                             sent                                          received
//   barrier                   0                                             0
//   bcast                     root: N × data                                data
//   gather(v), reduce         own data (0 at a root in place)               root: all data, its own included unless in place
//   scatter(v)                root: all data, its own included unless …     own data (0 at a root in place)
//   allgather(v)              n × own data                                  all data
//   alltoall(v,w), allreduce, reduce_scatter_block   n × data, by count     n × data, by count
//   reduce_scatter            all blocks (own left out in place)            n × own block
//   scan; exscan              (N − rank) × data; one less                   (rank + 1) × data; one less
#pragma once

#include "messages/point_to_point.hpp"

namespace polter::mpi {

// One side of a collective: a buffer with one count and type, or with those of each rank.
struct Data {
    const void* buffer = nullptr;
    MPI_Count count = 0;
    const int* counts = nullptr;
    const MPI_Count* large_counts = nullptr;
    MPI_Datatype type{};
    const MPI_Datatype* types = nullptr;

    Data() = default;
    Data(const void* b, MPI_Count c, MPI_Datatype t) : buffer(b), count(c), type(t) {}
    Data(const void* b, const int* c, MPI_Datatype t) : buffer(b), counts(c), type(t) {}
    Data(const void* b, const MPI_Count* c, MPI_Datatype t) : buffer(b), large_counts(c), type(t) {}
    Data(const void* b, const int* c, const MPI_Datatype* t) : buffer(b), counts(c), types(t) {}
    Data(const void* b, const MPI_Count* c, const MPI_Datatype* t) : buffer(b), large_counts(c), types(t) {}

    bool in_place() const { return buffer == MPI_IN_PLACE; }
    uint64_t bytes() const { return bytes_of(count, type); }
    uint64_t bytes_for(int rank) const { return bytes_of(large_counts ? large_counts[rank] : counts[rank], types ? types[rank] : type); }
    uint64_t bytes_for_all(int ranks, int but = -1) const;
};

namespace Op {
enum Name : uint8_t {
    barrier = OTF2_COLLECTIVE_OP_BARRIER,
    bcast = OTF2_COLLECTIVE_OP_BCAST,
    gather = OTF2_COLLECTIVE_OP_GATHER,
    gatherv = OTF2_COLLECTIVE_OP_GATHERV,
    scatter = OTF2_COLLECTIVE_OP_SCATTER,
    scatterv = OTF2_COLLECTIVE_OP_SCATTERV,
    allgather = OTF2_COLLECTIVE_OP_ALLGATHER,
    allgatherv = OTF2_COLLECTIVE_OP_ALLGATHERV,
    alltoall = OTF2_COLLECTIVE_OP_ALLTOALL,
    alltoallv = OTF2_COLLECTIVE_OP_ALLTOALLV,
    alltoallw = OTF2_COLLECTIVE_OP_ALLTOALLW,
    allreduce = OTF2_COLLECTIVE_OP_ALLREDUCE,
    reduce = OTF2_COLLECTIVE_OP_REDUCE,
    reduce_scatter = OTF2_COLLECTIVE_OP_REDUCE_SCATTER,
    scan = OTF2_COLLECTIVE_OP_SCAN,
    exscan = OTF2_COLLECTIVE_OP_EXSCAN,
    reduce_scatter_block = OTF2_COLLECTIVE_OP_REDUCE_SCATTER_BLOCK
};
}

inline constexpr int no_root = -1;  // of operations without one; MPI's own special roots are other numbers below zero

namespace handler {

// The record; false: the communicator is not followed.
bool describe(Op::Name op, const Data& send, const Data& recv, int root, MPI_Comm comm, write::Collective& collective);

class BlockingCollective {
  public:
    BlockingCollective(Call& call, Op::Name op, const Data& send, const Data& recv, int root, MPI_Comm comm);
    void end(int result);

  private:
    Call& call_;
    bool known_ = false;
    bool joint_ = false;  // a joint collective, at which clocks may be compared
    write::Collective collective_;
};

class NonBlockingCollective : public Begins {
  public:
    NonBlockingCollective(Call& call, Op::Name op, const Data& send, const Data& recv, int root, MPI_Comm comm, RequestVariables request);
};

class PersistentCollective : public Begins {
  public:
    PersistentCollective(Call& call, Op::Name op, const Data& send, const Data& recv, int root, MPI_Comm comm, RequestVariables request);
};

}  // namespace handler
}  // namespace polter::mpi
