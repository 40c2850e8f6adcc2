// SPDX-License-Identifier: BSD-3-Clause
#include "collectives.hpp"

namespace polter::mpi {

uint64_t Data::bytes_for_all(int ranks, int but) const {
    uint64_t sum = 0;
    if (!types) {  // one type: ask for its size once
        for (int i = 0; i < ranks; i++)
            if (const MPI_Count n = large_counts ? large_counts[i] : counts[i]; i != but && n > 0) sum += static_cast<uint64_t>(n);
        return sum * size_of(type);
    }
    for (int i = 0; i < ranks; i++)
        if (i != but) sum += bytes_for(i);
    return sum;
}

namespace handler {
namespace {

// The rank's part in a rooted operation.
enum class Part { root, other, idle };

Part part_of(const Comm& comm, int root) {
    if (comm.inter) return root == MPI_ROOT ? Part::root : root == MPI_PROC_NULL ? Part::idle : Part::other;
    return root == comm.rank ? Part::root : Part::other;
}

uint32_t root_of(const Comm& comm, int root) {
    if (comm.inter && root == MPI_ROOT) return OTF2_COLLECTIVE_ROOT_SELF;
    if (comm.inter && root == MPI_PROC_NULL) return OTF2_COLLECTIVE_ROOT_THIS_GROUP;
    return static_cast<uint32_t>(root);
}

// All data of one rooted side: of N ranks, without the root's own where that is in place.
uint64_t at_root(const Data& data, const Comm& comm, bool in_place) {
    const auto ranks = static_cast<uint64_t>(comm.peers);
    if (data.counts || data.large_counts) return data.bytes_for_all(comm.peers, in_place ? comm.rank : -1);
    return (ranks - (in_place ? 1 : 0)) * data.bytes();
}

void count_bytes(Op::Name op, const Data& send, const Data& recv, int root, const Comm& comm, write::Collective& c) {
    const auto ranks = static_cast<uint64_t>(comm.peers), rank = static_cast<uint64_t>(comm.rank);
    const bool in_place = send.in_place() || recv.in_place();
    const uint64_t others = ranks - (in_place ? 1 : 0);
    const Part part = part_of(comm, root);
    switch (op) {
        case Op::barrier:
            return;
        case Op::bcast:
            if (part == Part::root) c.sent = ranks * send.bytes();
            if (part == Part::other || (part == Part::root && !comm.inter)) c.received = send.bytes();
            return;
        case Op::gather:
        case Op::gatherv:
        case Op::reduce:
            if (part == Part::other || (part == Part::root && !comm.inter && !in_place)) c.sent = send.bytes();
            if (part == Part::root) c.received = at_root(recv, comm, in_place);
            return;
        case Op::scatter:
        case Op::scatterv:
            if (part == Part::root) c.sent = at_root(send, comm, in_place);
            if (part == Part::other || (part == Part::root && !comm.inter && !in_place)) c.received = recv.bytes();
            return;
        case Op::allgather:
            c.sent = others * (in_place ? recv : send).bytes();
            c.received = others * recv.bytes();
            return;
        case Op::allgatherv:
            c.sent = others * (in_place ? recv.bytes_for(comm.rank) : send.bytes());
            c.received = recv.bytes_for_all(comm.peers, in_place ? comm.rank : -1);
            return;
        case Op::alltoall:
            c.sent = others * (in_place ? recv : send).bytes();
            c.received = others * recv.bytes();
            return;
        case Op::alltoallv:
        case Op::alltoallw:
            c.sent = (in_place ? recv : send).bytes_for_all(comm.peers, in_place ? comm.rank : -1);
            c.received = recv.bytes_for_all(comm.peers, in_place ? comm.rank : -1);
            return;
        case Op::allreduce:
        case Op::reduce_scatter_block:
            c.sent = c.received = others * recv.bytes();
            return;
        case Op::reduce_scatter:
            // In an intercommunicator the blocks are those of the own group.
            c.sent = recv.bytes_for_all(comm.size, in_place ? comm.rank : -1);
            c.received = others * recv.bytes_for(comm.rank);
            return;
        case Op::scan:
            c.sent = (others - rank) * recv.bytes();
            c.received = (rank + 1 - (in_place ? 1 : 0)) * recv.bytes();
            return;
        case Op::exscan:
            c.sent = (ranks - rank - 1) * recv.bytes();
            c.received = rank * recv.bytes();
            return;
    }
}

// Whether leaders may compare clocks behind it: all ranks take part, and none leaves before all have come. Where several threads may call
// MPI these are not in one order on all ranks.
bool joint(Op::Name op, MPI_Comm comm) {
    if (!process.clocks->repeats() || process.threaded) return false;
    switch (op) {
        case Op::barrier:
        case Op::allgather:
        case Op::allgatherv:
        case Op::alltoall:
        case Op::alltoallv:
        case Op::alltoallw:
        case Op::allreduce:
        case Op::reduce_scatter:
        case Op::reduce_scatter_block: {
            const Comm* known = process.comms->find(comm);
            return known && !known->inter && known->size == process.comms->find(constants.comm_world)->size;
        }
        default:
            return false;
    }
}

}  // namespace

bool describe(Op::Name op, const Data& send, const Data& recv, int root, MPI_Comm comm, write::Collective& collective) {
    Comm known;
    {
        const TableLock lock;
        const Comm* found = process.comms->find(comm);
        if (!found) return false;
        known = *found;
    }
    collective.op = static_cast<OTF2_CollectiveOp>(op);
    collective.comm = known.id;
    const bool rooted =
        op == Op::bcast || op == Op::gather || op == Op::gatherv || op == Op::scatter || op == Op::scatterv || op == Op::reduce;
    if (rooted) collective.root = root_of(known, root);
    count_bytes(op, send, recv, root, known, collective);
    return true;
}

BlockingCollective::BlockingCollective(Call& call, Op::Name op, const Data& send, const Data& recv, int root, MPI_Comm comm) : call_(call) {
    if (!call) return;
    known_ = describe(op, send, recv, root, comm, collective_);
    if (known_) call.at().collective_begin(call.entered());
    if (process.clocks) [[unlikely]]
        joint_ = joint(op, comm);
}

void BlockingCollective::end(int result) {
    if (!call_) return;
    call_.come_back();
    // Also where it failed: a Begin without its End would break the stream for every reader.
    if (known_) call_.at().collective_end(call_.returned(), collective_);
    call_.leave();
    if (joint_ && result == MPI_SUCCESS) [[unlikely]]
        process.archive->add_own_cost(process.clocks->joint_collective(process.archive, clocks_at_collective_ns));
}

NonBlockingCollective::NonBlockingCollective(Call& call, Op::Name op, const Data& send, const Data& recv, int root, MPI_Comm comm,
                                             RequestVariables request)
    : Begins(call, request) {
    if (!call || !describe(op, send, recv, root, comm, request_.collective)) return;
    request_.kind = Request::collecting;
    request_.id = new_request_id();
    call.at().collective_request(call.entered(), request_.id, request_.collective.comm);
}

PersistentCollective::PersistentCollective(Call& call, Op::Name op, const Data& send, const Data& recv, int root, MPI_Comm comm,
                                           RequestVariables request)
    : Begins(call, request) {
    request_.persistent = true;
    request_.active = false;
    if (call && describe(op, send, recv, root, comm, request_.collective)) request_.kind = Request::collecting;
}

}  // namespace handler
}  // namespace polter::mpi
