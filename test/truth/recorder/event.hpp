// SPDX-License-Identifier: BSD-3-Clause
// What the recorder keeps in memory of a rank until the archive is written. Times are integer nanoseconds of simulated time.
#pragma once

#include <otf2/otf2.h>

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "noise.hpp"

namespace polter::truth {

// name, OTF2 role
#define POLTER_TRUTH_REGIONS(R)                \
    R(MPI_Init, FUNCTION)                      \
    R(MPI_Finalize, FUNCTION)                  \
    R(MPI_Send, POINT2POINT)                   \
    R(MPI_Ssend, POINT2POINT)                  \
    R(MPI_Isend, POINT2POINT)                  \
    R(MPI_Issend, POINT2POINT)                 \
    R(MPI_Recv, POINT2POINT)                   \
    R(MPI_Probe, POINT2POINT)                  \
    R(MPI_Iprobe, POINT2POINT)                 \
    R(MPI_Irecv, POINT2POINT)                  \
    R(MPI_Sendrecv, POINT2POINT)               \
    R(MPI_Wait, POINT2POINT)                   \
    R(MPI_Waitall, POINT2POINT)                \
    R(MPI_Waitany, POINT2POINT)                \
    R(MPI_Waitsome, POINT2POINT)               \
    R(MPI_Test, POINT2POINT)                   \
    R(MPI_Send_init, POINT2POINT)              \
    R(MPI_Ssend_init, POINT2POINT)             \
    R(MPI_Recv_init, POINT2POINT)              \
    R(MPI_Start, POINT2POINT)                  \
    R(MPI_Startall, POINT2POINT)               \
    R(MPI_Request_free, POINT2POINT)           \
    R(MPI_Barrier, BARRIER)                    \
    R(MPI_Bcast, COLL_ONE2ALL)                 \
    R(MPI_Reduce, COLL_ALL2ONE)                \
    R(MPI_Allreduce, COLL_ALL2ALL)             \
    R(MPI_Scan, COLL_OTHER)                    \
    R(MPI_Exscan, COLL_OTHER)                  \
    R(MPI_Allgather, COLL_ALL2ALL)             \
    R(MPI_Alltoall, COLL_ALL2ALL)              \
    R(MPI_Gather, COLL_ALL2ONE)                \
    R(MPI_Gatherv, COLL_ALL2ONE)               \
    R(MPI_Scatter, COLL_ONE2ALL)               \
    R(MPI_Scatterv, COLL_ONE2ALL)              \
    R(MPI_Allgatherv, COLL_ALL2ALL)            \
    R(MPI_Alltoallv, COLL_ALL2ALL)             \
    R(MPI_Reduce_scatter, COLL_ALL2ALL)        \
    R(MPI_Reduce_scatter_block, COLL_ALL2ALL)  \
    R(MPI_Ibarrier, BARRIER)                   \
    R(MPI_Ibcast, COLL_ONE2ALL)                \
    R(MPI_Iallreduce, COLL_ALL2ALL)            \
    R(MPI_Ireduce, COLL_ALL2ONE)               \
    R(MPI_Iscan, COLL_OTHER)                   \
    R(MPI_Iexscan, COLL_OTHER)                 \
    R(MPI_Iallgather, COLL_ALL2ALL)            \
    R(MPI_Ialltoall, COLL_ALL2ALL)             \
    R(MPI_Igather, COLL_ALL2ONE)               \
    R(MPI_Igatherv, COLL_ALL2ONE)              \
    R(MPI_Iscatter, COLL_ONE2ALL)              \
    R(MPI_Iscatterv, COLL_ONE2ALL)             \
    R(MPI_Iallgatherv, COLL_ALL2ALL)           \
    R(MPI_Ialltoallv, COLL_ALL2ALL)            \
    R(MPI_Ireduce_scatter, COLL_ALL2ALL)       \
    R(MPI_Ireduce_scatter_block, COLL_ALL2ALL) \
    R(MPI_Comm_split, COLL_OTHER)              \
    R(MPI_Comm_dup, COLL_OTHER)                \
    R(MPI_Comm_free, COLL_OTHER)               \
    R(MPI_Win_create, RMA)                     \
    R(MPI_Win_free, RMA)                       \
    R(MPI_Win_fence, RMA)                      \
    R(MPI_Win_post, RMA)                       \
    R(MPI_Win_start, RMA)                      \
    R(MPI_Win_complete, RMA)                   \
    R(MPI_Win_wait, RMA)                       \
    R(MPI_Win_lock, RMA)                       \
    R(MPI_Win_lock_all, RMA)                   \
    R(MPI_Win_flush, RMA)                      \
    R(MPI_Win_unlock, RMA)                     \
    R(MPI_Win_unlock_all, RMA)                 \
    R(MPI_Put, RMA)                            \
    R(MPI_Get, RMA)                            \
    R(MPI_Rget, RMA)

enum class Region : uint32_t {
#define POLTER_TRUTH_REGION(name, role) name,
    POLTER_TRUTH_REGIONS(POLTER_TRUTH_REGION)
#undef POLTER_TRUTH_REGION
};

// The names are those of OTF2's records.
enum class Kind : uint8_t {
    enter,
    leave,
    mpi_send,
    mpi_isend,
    mpi_isend_complete,
    mpi_irecv_request,
    mpi_recv,
    mpi_irecv,
    mpi_request_test,
    collective_begin,
    collective_end,
    nonblocking_collective_request,
    nonblocking_collective_complete,
    rma_collective_begin,
    rma_collective_end,
    rma_win_create,
    rma_win_destroy,
    rma_notify_in,
    rma_notify_out,
    rma_put,
    rma_get,
    rma_op_complete,
    rma_request_complete,
    rma_request_lock,
    rma_acquire_lock,
    rma_release_lock,
    counter  // bytes: its value
};

struct Event {
    int64_t time = 0;
    Kind kind = Kind::enter;
    uint8_t mode = 0;                                          // of a send: 1 synchronous; of a lock: 1 exclusive
    uint32_t region = 0;                                       // enter, leave
    OTF2_CollectiveOp operation = OTF2_COLLECTIVE_OP_BARRIER;  // collectives
    int32_t peer = 0;                                          // rank in the communicator; root of a collective; -1 any or none
    int32_t tag = 0;                                           // -1 any
    bool wildcard = false;                                     // a blocking receive that was posted with posted_peer, posted_tag
    bool found = false;                                        // leave: of a probe that found peer, tag, comm; it asked for posted_…
    int32_t posted_peer = 0, posted_tag = 0;
    uint32_t comm = 0;                       // of one-sided communication the window
    uint64_t bytes = 0, bytes_received = 0;  // a collective has both
    uint64_t request = 0;
};

struct Communicator {
    std::string name;
    uint32_t parent = 0;
    std::vector<uint64_t> members;  // world ranks in order
};

// All that is recorded, of all ranks: they share one process.
struct Recording {
    std::string command;
    std::vector<NoiseSource> sources;
    struct Rank {
        std::string host;
        std::vector<Event> events;
        std::vector<NoiseEvent> noise;
    };
    std::vector<Rank> ranks;
    std::vector<Communicator> communicators;  // the index is the id: 0 world, 1 self
    std::vector<uint32_t> windows;            // their communicators
    std::string counter;                      // the name of what Kind::counter counts; empty: nothing does
};

// Whether a trace has each noise event where it happened, or only counters that are read at MPI events.
enum class Detail { events, counters };

}  // namespace polter::truth
