// SPDX-License-Identifier: BSD-3-Clause
#include "persistent.hpp"

#include "partitioned.hpp"

namespace polter::mpi::handler {

SendInit::SendInit(Call& call, uint8_t mode, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, RequestVariables request)
    : Begins(call, request) {
    request_.persistent = true;
    request_.active = false;
    if (call && outgoing(comm, dest, tag, count, type, request_.message)) request_.kind = Request::sending;
    request_.mode = mode;
}

ReceiveInit::ReceiveInit(Call& call, int source, int tag, MPI_Comm comm, RequestVariables request) : Begins(call, request) {
    if (call) request_ = posted_receive(comm, source, tag);
    request_.persistent = true;
    request_.active = false;
}

void Startall::begin(MPI_Request handle, const void* variable) {
    Request request;
    {
        const TableLock lock;
        const uint32_t at = process.requests->find(bits(handle), variable);
        if (at == Requests::absent) return;
        Request& known = (*process.requests)[at];
        known.active = true;
        known.id = new_request_id();
        request = known;
        if (request.partitioned && process.partitioned->started(bits(handle), request.id)) return;  // its parts are not ready
    }
    write::Location& at = call_.at();
    const uint64_t time = call_.entered();
    switch (request.kind) {
        case Request::sending:
            if (request.partitioned) return at.isend_partitioned(time, request.message, request.partitioned, request.id);
            return at.isend(time, request.message, request.mode, request.id);
        case Request::receiving:
            return at.irecv_request(time, request.id, request.source, request.tag, request.message.comm, request.partitioned);
        case Request::collecting:
            return at.collective_request(time, request.id, request.collective.comm, request.unlisted);
        case Request::both:
        case Request::transferring:
        case Request::nothing:
            return;
    }
}

}  // namespace polter::mpi::handler
