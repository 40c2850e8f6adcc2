// SPDX-License-Identifier: BSD-3-Clause
// How collectives are recorded. Sizes are what a rank hands in and takes out, counted as if each pair of ranks exchanged its data directly.
#pragma once

#include "recorder.hpp"

namespace polter::truth {

struct Shape {
    OTF2_CollectiveOp operation;
    MPI_Comm comm;
    int root;  // -1: none
    uint64_t sent, received;
};

inline uint64_t bytes_of(int count, MPI_Datatype type) {
    int size = 0;
    PMPI_Type_size(type, &size);
    return static_cast<uint64_t>(count) * size;
}

inline uint64_t size_of(MPI_Comm comm) {
    int size = 0;
    PMPI_Comm_size(comm, &size);
    return size;
}

inline bool is_root(MPI_Comm comm, int root) {
    int rank = 0;
    PMPI_Comm_rank(comm, &rank);
    return rank == root;
}

inline Event completion(Rank& rank, const Shape& shape, Kind kind) {
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

}  // namespace polter::truth
