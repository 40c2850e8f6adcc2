// SPDX-License-Identifier: BSD-3-Clause
// The records of messages.
#pragma once

#include "recorder.hpp"

namespace polter::truth {

inline Event message(Rank& rank, Kind kind, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
    int size = 0;
    PMPI_Type_size(type, &size);
    Event event;
    event.kind = kind;
    event.peer = peer;
    event.tag = tag;
    event.comm = comm_id(rank, comm);
    event.bytes = static_cast<uint64_t>(count) * size;
    return event;
}

// What MPI_Irecv or the start of a persistent receive tells.
inline Event posting(Rank& rank, int from, int tag, MPI_Comm comm) {
    return message(rank, Kind::mpi_irecv_request, 0, MPI_BYTE, from == MPI_ANY_SOURCE ? -1 : from, tag == MPI_ANY_TAG ? -1 : tag, comm);
}

// What a probe found, for its Leave.
inline Event finding(Rank& rank, const MPI_Status& status, int from, int tag, MPI_Comm comm) {
    Event event = message(rank, Kind::leave, 0, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm);
    event.posted_peer = from == MPI_ANY_SOURCE ? -1 : from;
    event.posted_tag = tag == MPI_ANY_TAG ? -1 : tag;
    return event;
}

constexpr uint8_t synchronous = 1;

}  // namespace polter::truth
