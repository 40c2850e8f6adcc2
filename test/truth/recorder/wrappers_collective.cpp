// SPDX-License-Identifier: BSD-3-Clause
// Barriers, broadcasts and reductions, blocking and not, and what makes and frees communicators.
#include "collective_call.hpp"

using namespace polter::truth;

namespace {

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

Shape reduction(int count, MPI_Datatype type, int root, MPI_Comm comm) {
    const uint64_t bytes = bytes_of(count, type);
    return {OTF2_COLLECTIVE_OP_REDUCE, comm, root, bytes, is_root(comm, root) ? bytes * size_of(comm) : 0};
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
    return blocking(Region::MPI_Reduce, reduction(count, type, root, comm),
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

int MPI_Ireduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm, MPI_Request* request) {
    return nonblocking(Region::MPI_Ireduce, reduction(count, type, root, comm), request,
                       [&] { return PMPI_Ireduce(in, out, count, type, op, root, comm, request); });
}

int MPI_Iscan(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request* request) {
    return nonblocking(Region::MPI_Iscan, prefix(OTF2_COLLECTIVE_OP_SCAN, count, type, comm), request,
                       [&] { return PMPI_Iscan(in, out, count, type, op, comm, request); });
}

int MPI_Iexscan(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request* request) {
    return nonblocking(Region::MPI_Iexscan, prefix(OTF2_COLLECTIVE_OP_EXSCAN, count, type, comm), request,
                       [&] { return PMPI_Iexscan(in, out, count, type, op, comm, request); });
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
