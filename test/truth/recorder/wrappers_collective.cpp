// SPDX-License-Identifier: BSD-3-Clause
// Collectives, blocking and not, and what makes and frees communicators. Sizes are what a rank hands in and takes out.
#include "recorder.hpp"

using namespace polter::truth;

namespace {

struct Shape {
    OTF2_CollectiveOp operation;
    MPI_Comm comm;
    int root;  // -1: none
    uint64_t sent, received;
};

uint64_t bytes_of(int count, MPI_Datatype type) {
    int size = 0;
    PMPI_Type_size(type, &size);
    return static_cast<uint64_t>(count) * size;
}

uint64_t size_of(MPI_Comm comm) {
    int size = 0;
    PMPI_Comm_size(comm, &size);
    return size;
}

bool is_root(MPI_Comm comm, int root) {
    int rank = 0;
    PMPI_Comm_rank(comm, &rank);
    return rank == root;
}

Event completion(Rank& rank, const Shape& shape, Kind kind) {
    Event event;
    event.kind = kind;
    event.operation = shape.operation;
    event.comm = comm_id(rank, shape.comm);
    event.peer = shape.root;
    event.bytes = shape.sent;
    event.bytes_received = shape.received;
    return event;
}

template <class F>
int blocking(Region region, const Shape& shape, F&& function) {
    Call call(region);
    Event begin;
    begin.kind = Kind::collective_begin;
    call.began(begin);
    const Event end = completion(call.rank(), shape, Kind::collective_end);  // the communicator may be gone afterwards
    const int result = function();
    call.ended();
    call.completed(end);
    return result;
}

template <class F>
int nonblocking(Region region, const Shape& shape, MPI_Request* request, F&& function) {
    Call call(region);
    Event begin;
    begin.kind = Kind::nonblocking_collective_request;
    begin.request = call.rank().next_request++;
    begin.comm = comm_id(call.rank(), shape.comm);
    call.began(begin);
    const int result = function();
    call.rank().pending[*request] = {Pending::What::collective, begin.request,
                                     completion(call.rank(), shape, Kind::nonblocking_collective_complete), shape.comm};
    return result;
}

Shape barrier(MPI_Comm comm) {
    return {OTF2_COLLECTIVE_OP_BARRIER, comm, -1, 0, 0};
}

Shape broadcast(int count, MPI_Datatype type, int root, MPI_Comm comm) {
    const uint64_t bytes = bytes_of(count, type);
    return {OTF2_COLLECTIVE_OP_BCAST, comm, root, is_root(comm, root) ? bytes * size_of(comm) : 0, bytes};
}

Shape allreduce(int count, MPI_Datatype type, MPI_Comm comm) {
    const uint64_t bytes = bytes_of(count, type);
    return {OTF2_COLLECTIVE_OP_ALLREDUCE, comm, -1, bytes * size_of(comm), bytes * size_of(comm)};
}

Shape prefix(OTF2_CollectiveOp operation, int count, MPI_Datatype type, MPI_Comm comm) {
    int rank = 0;
    PMPI_Comm_rank(comm, &rank);
    const uint64_t bytes = bytes_of(count, type);
    return {operation, comm, -1, (size_of(comm) - rank) * bytes, (rank + 1) * bytes};
}

}  // namespace

extern "C" {

int MPI_Barrier(MPI_Comm comm) {
    return blocking(Region::MPI_Barrier, barrier(comm), [&] { return PMPI_Barrier(comm); });
}

int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    return blocking(Region::MPI_Bcast, broadcast(count, type, root, comm), [&] { return PMPI_Bcast(buffer, count, type, root, comm); });
}

int MPI_Reduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
    const uint64_t bytes = bytes_of(count, type);
    return blocking(Region::MPI_Reduce, {OTF2_COLLECTIVE_OP_REDUCE, comm, root, bytes, is_root(comm, root) ? bytes * size_of(comm) : 0},
                    [&] { return PMPI_Reduce(in, out, count, type, op, root, comm); });
}

int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    return blocking(Region::MPI_Allreduce, allreduce(count, type, comm), [&] { return PMPI_Allreduce(in, out, count, type, op, comm); });
}

int MPI_Scan(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    return blocking(Region::MPI_Scan, prefix(OTF2_COLLECTIVE_OP_SCAN, count, type, comm),
                    [&] { return PMPI_Scan(in, out, count, type, op, comm); });
}

int MPI_Exscan(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    return blocking(Region::MPI_Exscan, prefix(OTF2_COLLECTIVE_OP_EXSCAN, count, type, comm),
                    [&] { return PMPI_Exscan(in, out, count, type, op, comm); });
}

int MPI_Allgather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, MPI_Comm comm) {
    return blocking(Region::MPI_Allgather,
                    {OTF2_COLLECTIVE_OP_ALLGATHER, comm, -1, bytes_of(in_count, in_type) * size_of(comm),
                     bytes_of(out_count, out_type) * size_of(comm)},
                    [&] { return PMPI_Allgather(in, in_count, in_type, out, out_count, out_type, comm); });
}

int MPI_Alltoall(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, MPI_Comm comm) {
    return blocking(
        Region::MPI_Alltoall,
        {OTF2_COLLECTIVE_OP_ALLTOALL, comm, -1, bytes_of(in_count, in_type) * size_of(comm), bytes_of(out_count, out_type) * size_of(comm)},
        [&] { return PMPI_Alltoall(in, in_count, in_type, out, out_count, out_type, comm); });
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
    return nonblocking(Region::MPI_Ibarrier, barrier(comm), request, [&] { return PMPI_Ibarrier(comm, request); });
}

int MPI_Ibcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
    return nonblocking(Region::MPI_Ibcast, broadcast(count, type, root, comm), request,
                       [&] { return PMPI_Ibcast(buffer, count, type, root, comm, request); });
}

int MPI_Iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request* request) {
    return nonblocking(Region::MPI_Iallreduce, allreduce(count, type, comm), request,
                       [&] { return PMPI_Iallreduce(in, out, count, type, op, comm, request); });
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* made) {
    return blocking(Region::MPI_Comm_split, {OTF2_COLLECTIVE_OP_CREATE_HANDLE, comm, -1, 0, 0}, [&] {
        const int result = PMPI_Comm_split(comm, color, key, made);
        comm_created(rank_here(), comm, *made);
        return result;
    });
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) {
    return blocking(Region::MPI_Comm_dup, {OTF2_COLLECTIVE_OP_CREATE_HANDLE, comm, -1, 0, 0}, [&] {
        const int result = PMPI_Comm_dup(comm, made);
        comm_created(rank_here(), comm, *made);
        return result;
    });
}

int MPI_Comm_free(MPI_Comm* comm) {
    return blocking(Region::MPI_Comm_free, {OTF2_COLLECTIVE_OP_DESTROY_HANDLE, *comm, -1, 0, 0}, [&] {
        rank_here().communicators.erase(*comm);
        return PMPI_Comm_free(comm);
    });
}
}
