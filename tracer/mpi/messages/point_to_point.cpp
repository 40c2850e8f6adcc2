// SPDX-License-Identifier: BSD-3-Clause
#include "point_to_point.hpp"

namespace polter::mpi::handler {

bool local_id(MPI_Comm comm, uint32_t& id) {
    const TableLock lock;
    const Comm* known = process.comms->find(comm);
    if (known) id = known->id;
    return known;
}

bool outgoing(MPI_Comm comm, int dest, int tag, MPI_Count count, MPI_Datatype type, write::Message& message) {
    if (dest == MPI_PROC_NULL || !local_id(comm, message.comm)) return false;
    message.peer = static_cast<uint32_t>(dest);
    message.tag = static_cast<uint32_t>(tag);
    message.bytes = bytes_of(count, type);
    return true;
}

Request posted_receive(MPI_Comm comm, int source, int tag) {
    Request request;
    if (source == MPI_PROC_NULL || !local_id(comm, request.message.comm)) return request;
    request.kind = Request::receiving;
    request.source = posted_source(source);
    request.tag = posted_tag(tag);
    return request;
}

void Receive::received(Call& call, MPI_Comm comm, int source, int tag, const MPI_Status& status) {
    write::Message message;
    if (source == MPI_PROC_NULL || !local_id(comm, message.comm)) return;
    message.peer = static_cast<uint32_t>(status.MPI_SOURCE);
    message.tag = static_cast<uint32_t>(status.MPI_TAG);
    message.bytes = bytes_of(status);
    if (source == MPI_ANY_SOURCE || tag == MPI_ANY_TAG)
        call.at().recv_wildcard(call.returned(), message, posted_source(source), posted_tag(tag));
    else
        call.at().recv(call.returned(), message);
}

void Begins::end(int result) {
    if (!call_) return;
    call_.come_back_early();
    if (result == MPI_SUCCESS) {
        const TableLock lock;
        process.requests->add(bits(variable_.handle()), variable_.address(), request_);
    }
    call_.leave();
}

Isend::Isend(Call& call, uint8_t mode, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, RequestVariables request)
    : Begins(call, request) {
    if (!call || !outgoing(comm, dest, tag, count, type, request_.message)) return;
    request_.kind = Request::sending;
    request_.id = new_request_id();
    call.at().isend(call.entered(), request_.message, mode, request_.id);
}

Ireceive::Ireceive(Call& call, int source, int tag, MPI_Comm comm, RequestVariables request) : Begins(call, request) {
    if (!call) return;
    request_ = posted_receive(comm, source, tag);
    if (request_.kind == Request::nothing) return;
    request_.id = new_request_id();
    call.at().irecv_request(call.entered(), request_.id, request_.source, request_.tag, request_.message.comm);
}

IsendReceive::IsendReceive(Call& call, MPI_Count count, MPI_Datatype type, int dest, int sendtag, int source, int recvtag, MPI_Comm comm,
                           RequestVariables request)
    : Begins(call, request) {
    if (!call) return;
    request_ = posted_receive(comm, source, recvtag);
    write::Message message;
    const bool sends = outgoing(comm, dest, sendtag, count, type, message);
    if (!sends && request_.kind == Request::nothing) return;
    request_.id = new_request_id();
    if (sends) {
        call.at().isend(call.entered(), message, trace::send_standard, request_.id);
        if (request_.kind == Request::nothing) {
            request_.kind = Request::sending;
            return;
        }
        new_request_id();  // the receive has the next number
        request_.kind = Request::both;
    }
    const uint64_t receive = request_.id + (sends ? 1 : 0);
    call.at().irecv_request(call.entered(), receive, request_.source, request_.tag, request_.message.comm);
}

}  // namespace polter::mpi::handler
