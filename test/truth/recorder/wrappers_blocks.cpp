// SPDX-License-Identifier: BSD-3-Clause
// Collectives that move a block for each rank, of one size or of several, blocking and not.
#include "collective_call.hpp"

using namespace polter::truth;

namespace {

int rank_in(MPI_Comm comm) {
    int rank = 0;
    PMPI_Comm_rank(comm, &rank);
    return rank;
}

uint64_t sum(const int* counts, MPI_Datatype type, MPI_Comm comm) {
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < size_of(comm); ++i) bytes += bytes_of(counts[i], type);
    return bytes;
}

Shape to_root(OTF2_CollectiveOp operation, uint64_t own, uint64_t all, int root, MPI_Comm comm) {
    return {operation, comm, root, own, is_root(comm, root) ? all : 0};
}

Shape from_root(OTF2_CollectiveOp operation, uint64_t all, uint64_t own, int root, MPI_Comm comm) {
    return {operation, comm, root, is_root(comm, root) ? all : 0, own};
}

}  // namespace

extern "C" {

int MPI_Gather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, int root,
               MPI_Comm comm) {
    return blocking(
        Region::MPI_Gather,
        to_root(OTF2_COLLECTIVE_OP_GATHER, bytes_of(in_count, in_type), bytes_of(out_count, out_type) * size_of(comm), root, comm),
        [&] { return PMPI_Gather(in, in_count, in_type, out, out_count, out_type, root, comm); });
}

int MPI_Igather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, int root,
                MPI_Comm comm, MPI_Request* request) {
    return nonblocking(
        Region::MPI_Igather,
        to_root(OTF2_COLLECTIVE_OP_GATHER, bytes_of(in_count, in_type), bytes_of(out_count, out_type) * size_of(comm), root, comm), request,
        [&] { return PMPI_Igather(in, in_count, in_type, out, out_count, out_type, root, comm, request); });
}

int MPI_Scatter(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, int root,
                MPI_Comm comm) {
    return blocking(
        Region::MPI_Scatter,
        from_root(OTF2_COLLECTIVE_OP_SCATTER, bytes_of(in_count, in_type) * size_of(comm), bytes_of(out_count, out_type), root, comm),
        [&] { return PMPI_Scatter(in, in_count, in_type, out, out_count, out_type, root, comm); });
}

int MPI_Iscatter(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, int root,
                 MPI_Comm comm, MPI_Request* request) {
    return nonblocking(
        Region::MPI_Iscatter,
        from_root(OTF2_COLLECTIVE_OP_SCATTER, bytes_of(in_count, in_type) * size_of(comm), bytes_of(out_count, out_type), root, comm),
        request, [&] { return PMPI_Iscatter(in, in_count, in_type, out, out_count, out_type, root, comm, request); });
}

int MPI_Allgather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, MPI_Comm comm) {
    return blocking(Region::MPI_Allgather,
                    {OTF2_COLLECTIVE_OP_ALLGATHER, comm, -1, bytes_of(in_count, in_type) * size_of(comm),
                     bytes_of(out_count, out_type) * size_of(comm)},
                    [&] { return PMPI_Allgather(in, in_count, in_type, out, out_count, out_type, comm); });
}

int MPI_Iallgather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, MPI_Comm comm,
                   MPI_Request* request) {
    return nonblocking(Region::MPI_Iallgather,
                       {OTF2_COLLECTIVE_OP_ALLGATHER, comm, -1, bytes_of(in_count, in_type) * size_of(comm),
                        bytes_of(out_count, out_type) * size_of(comm)},
                       request, [&] { return PMPI_Iallgather(in, in_count, in_type, out, out_count, out_type, comm, request); });
}

int MPI_Alltoall(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, MPI_Comm comm) {
    return blocking(
        Region::MPI_Alltoall,
        {OTF2_COLLECTIVE_OP_ALLTOALL, comm, -1, bytes_of(in_count, in_type) * size_of(comm), bytes_of(out_count, out_type) * size_of(comm)},
        [&] { return PMPI_Alltoall(in, in_count, in_type, out, out_count, out_type, comm); });
}

int MPI_Ialltoall(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, MPI_Comm comm,
                  MPI_Request* request) {
    return nonblocking(
        Region::MPI_Ialltoall,
        {OTF2_COLLECTIVE_OP_ALLTOALL, comm, -1, bytes_of(in_count, in_type) * size_of(comm), bytes_of(out_count, out_type) * size_of(comm)},
        request, [&] { return PMPI_Ialltoall(in, in_count, in_type, out, out_count, out_type, comm, request); });
}

int MPI_Reduce_scatter_block(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    return blocking(
        Region::MPI_Reduce_scatter_block,
        {OTF2_COLLECTIVE_OP_REDUCE_SCATTER_BLOCK, comm, -1, bytes_of(count, type) * size_of(comm), bytes_of(count, type) * size_of(comm)},
        [&] { return PMPI_Reduce_scatter_block(in, out, count, type, op, comm); });
}

int MPI_Ireduce_scatter_block(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request* request) {
    return nonblocking(
        Region::MPI_Ireduce_scatter_block,
        {OTF2_COLLECTIVE_OP_REDUCE_SCATTER_BLOCK, comm, -1, bytes_of(count, type) * size_of(comm), bytes_of(count, type) * size_of(comm)},
        request, [&] { return PMPI_Ireduce_scatter_block(in, out, count, type, op, comm, request); });
}

int MPI_Reduce_scatter(const void* in, void* out, const int* counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    return blocking(
        Region::MPI_Reduce_scatter,
        {OTF2_COLLECTIVE_OP_REDUCE_SCATTER, comm, -1, sum(counts, type, comm), bytes_of(counts[rank_in(comm)], type) * size_of(comm)},
        [&] { return PMPI_Reduce_scatter(in, out, counts, type, op, comm); });
}

int MPI_Ireduce_scatter(const void* in, void* out, const int* counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request* request) {
    return nonblocking(
        Region::MPI_Ireduce_scatter,
        {OTF2_COLLECTIVE_OP_REDUCE_SCATTER, comm, -1, sum(counts, type, comm), bytes_of(counts[rank_in(comm)], type) * size_of(comm)},
        request, [&] { return PMPI_Ireduce_scatter(in, out, counts, type, op, comm, request); });
}

int MPI_Gatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int* counts, const int* places, MPI_Datatype out_type,
                int root, MPI_Comm comm) {
    return blocking(
        Region::MPI_Gatherv,
        to_root(OTF2_COLLECTIVE_OP_GATHERV, bytes_of(in_count, in_type), is_root(comm, root) ? sum(counts, out_type, comm) : 0, root, comm),
        [&] { return PMPI_Gatherv(in, in_count, in_type, out, counts, places, out_type, root, comm); });
}

int MPI_Igatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int* counts, const int* places, MPI_Datatype out_type,
                 int root, MPI_Comm comm, MPI_Request* request) {
    return nonblocking(
        Region::MPI_Igatherv,
        to_root(OTF2_COLLECTIVE_OP_GATHERV, bytes_of(in_count, in_type), is_root(comm, root) ? sum(counts, out_type, comm) : 0, root, comm),
        request, [&] { return PMPI_Igatherv(in, in_count, in_type, out, counts, places, out_type, root, comm, request); });
}

int MPI_Scatterv(const void* in, const int* counts, const int* places, MPI_Datatype in_type, void* out, int out_count,
                 MPI_Datatype out_type, int root, MPI_Comm comm) {
    return blocking(Region::MPI_Scatterv,
                    from_root(OTF2_COLLECTIVE_OP_SCATTERV, is_root(comm, root) ? sum(counts, in_type, comm) : 0,
                              bytes_of(out_count, out_type), root, comm),
                    [&] { return PMPI_Scatterv(in, counts, places, in_type, out, out_count, out_type, root, comm); });
}

int MPI_Iscatterv(const void* in, const int* counts, const int* places, MPI_Datatype in_type, void* out, int out_count,
                  MPI_Datatype out_type, int root, MPI_Comm comm, MPI_Request* request) {
    return nonblocking(Region::MPI_Iscatterv,
                       from_root(OTF2_COLLECTIVE_OP_SCATTERV, is_root(comm, root) ? sum(counts, in_type, comm) : 0,
                                 bytes_of(out_count, out_type), root, comm),
                       request, [&] { return PMPI_Iscatterv(in, counts, places, in_type, out, out_count, out_type, root, comm, request); });
}

int MPI_Allgatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int* counts, const int* places,
                   MPI_Datatype out_type, MPI_Comm comm) {
    return blocking(Region::MPI_Allgatherv,
                    {OTF2_COLLECTIVE_OP_ALLGATHERV, comm, -1, bytes_of(in_count, in_type) * size_of(comm), sum(counts, out_type, comm)},
                    [&] { return PMPI_Allgatherv(in, in_count, in_type, out, counts, places, out_type, comm); });
}

int MPI_Iallgatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int* counts, const int* places,
                    MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request) {
    return nonblocking(Region::MPI_Iallgatherv,
                       {OTF2_COLLECTIVE_OP_ALLGATHERV, comm, -1, bytes_of(in_count, in_type) * size_of(comm), sum(counts, out_type, comm)},
                       request, [&] { return PMPI_Iallgatherv(in, in_count, in_type, out, counts, places, out_type, comm, request); });
}

int MPI_Alltoallv(const void* in, const int* in_counts, const int* in_places, MPI_Datatype in_type, void* out, const int* out_counts,
                  const int* out_places, MPI_Datatype out_type, MPI_Comm comm) {
    return blocking(Region::MPI_Alltoallv,
                    {OTF2_COLLECTIVE_OP_ALLTOALLV, comm, -1, sum(in_counts, in_type, comm), sum(out_counts, out_type, comm)},
                    [&] { return PMPI_Alltoallv(in, in_counts, in_places, in_type, out, out_counts, out_places, out_type, comm); });
}

int MPI_Ialltoallv(const void* in, const int* in_counts, const int* in_places, MPI_Datatype in_type, void* out, const int* out_counts,
                   const int* out_places, MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request) {
    return nonblocking(
        Region::MPI_Ialltoallv, {OTF2_COLLECTIVE_OP_ALLTOALLV, comm, -1, sum(in_counts, in_type, comm), sum(out_counts, out_type, comm)},
        request, [&] { return PMPI_Ialltoallv(in, in_counts, in_places, in_type, out, out_counts, out_places, out_type, comm, request); });
}
}
