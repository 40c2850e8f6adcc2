// SPDX-License-Identifier: BSD-3-Clause
// MPI_Init, MPI_Finalize and point-to-point calls. Sends are stamped at Enter, receives and completions at Leave.
#include "message.hpp"

using namespace polter::truth;

namespace {

void received(Call& call, const MPI_Status& status, int posted_from, int posted_tag, MPI_Comm comm) {
    int bytes = 0;
    PMPI_Get_count(&status, MPI_BYTE, &bytes);
    Event event = message(call.rank(), Kind::mpi_recv, bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm);
    event.wildcard = posted_from == MPI_ANY_SOURCE || posted_tag == MPI_ANY_TAG;
    event.posted_peer = posted_from == MPI_ANY_SOURCE ? -1 : posted_from;
    event.posted_tag = posted_tag == MPI_ANY_TAG ? -1 : posted_tag;
    call.completed(event);
}

template <class F>
int send(Region region, uint8_t mode, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, F&& function) {
    Call call(region);
    if (to != MPI_PROC_NULL) {
        Event event = message(call.rank(), Kind::mpi_send, count, type, to, tag, comm);
        event.mode = mode;
        call.began(event);
    }
    return function();
}

template <class F>
int isend(Region region, uint8_t mode, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request, F&& function) {
    Call call(region);
    Event event;
    if (to != MPI_PROC_NULL) {
        event = message(call.rank(), Kind::mpi_isend, count, type, to, tag, comm);
        event.mode = mode;
        event.request = call.rank().next_request++;
        call.began(event);
    }
    const int result = function();
    if (to != MPI_PROC_NULL) call.rank().pending[*request] = {Pending::What::send, event.request, {}, comm};
    return result;
}

}  // namespace

extern "C" {

int MPI_Init(int* argc, char*** argv) {
    const int result = PMPI_Init(argc, argv);  // takes no simulated time
    rank_begins();
    Call call(Region::MPI_Init);
    return result;
}

int MPI_Finalize() {
    int result;
    {
        Call call(Region::MPI_Finalize);
        result = PMPI_Finalize();
    }
    rank_ends();
    return result;
}

int MPI_Send(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    return send(Region::MPI_Send, 0, count, type, to, tag, comm, [&] { return PMPI_Send(buffer, count, type, to, tag, comm); });
}

int MPI_Ssend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    return send(Region::MPI_Ssend, synchronous, count, type, to, tag, comm, [&] { return PMPI_Ssend(buffer, count, type, to, tag, comm); });
}

int MPI_Isend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
    return isend(Region::MPI_Isend, 0, count, type, to, tag, comm, request,
                 [&] { return PMPI_Isend(buffer, count, type, to, tag, comm, request); });
}

int MPI_Issend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
    return isend(Region::MPI_Issend, synchronous, count, type, to, tag, comm, request,
                 [&] { return PMPI_Issend(buffer, count, type, to, tag, comm, request); });
}

int MPI_Recv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status) {
    Call call(Region::MPI_Recv);
    MPI_Status own;
    const int result = PMPI_Recv(buffer, count, type, from, tag, comm, &own);
    call.ended();
    if (from != MPI_PROC_NULL) received(call, own, from, tag, comm);
    if (status != MPI_STATUS_IGNORE) *status = own;
    return result;
}

int MPI_Probe(int from, int tag, MPI_Comm comm, MPI_Status* status) {
    Call call(Region::MPI_Probe);
    MPI_Status own;
    const int result = PMPI_Probe(from, tag, comm, &own);
    call.ended();
    call.found(finding(call.rank(), own, from, tag, comm));
    if (status != MPI_STATUS_IGNORE) *status = own;
    return result;
}

int MPI_Irecv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
    Call call(Region::MPI_Irecv);
    Event event;
    if (from != MPI_PROC_NULL) {
        event = posting(call.rank(), from, tag, comm);
        event.request = call.rank().next_request++;
        call.began(event);
    }
    const int result = PMPI_Irecv(buffer, count, type, from, tag, comm, request);
    if (from != MPI_PROC_NULL) call.rank().pending[*request] = {Pending::What::receive, event.request, {}, comm};
    return result;
}

int MPI_Sendrecv(const void* out, int out_count, MPI_Datatype out_type, int to, int out_tag, void* in, int in_count, MPI_Datatype in_type,
                 int from, int in_tag, MPI_Comm comm, MPI_Status* status) {
    Call call(Region::MPI_Sendrecv);
    if (to != MPI_PROC_NULL) call.began(message(call.rank(), Kind::mpi_send, out_count, out_type, to, out_tag, comm));
    MPI_Status own;
    const int result = PMPI_Sendrecv(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag, comm, &own);
    call.ended();
    int rank = 0, size = 0;
    PMPI_Comm_rank(comm, &rank);
    if (from == rank && to == rank) {  // SMPI copies what goes to oneself, and leaves the status as it was
        PMPI_Type_size(out_type, &size);
        own.MPI_SOURCE = from;
        own.MPI_TAG = out_tag;
        own.MPI_ERROR = MPI_SUCCESS;
        own.count = out_count * size;
    }
    if (from != MPI_PROC_NULL) received(call, own, from, in_tag, comm);
    if (status != MPI_STATUS_IGNORE) *status = own;
    return result;
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
    Call call(Region::MPI_Wait);
    const MPI_Request waited = *request;
    MPI_Status own;
    const int result = PMPI_Wait(request, &own);
    call.ended();
    call.completed(waited, own);
    if (status != MPI_STATUS_IGNORE) *status = own;
    return result;
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
    Call call(Region::MPI_Waitall);
    const std::vector<MPI_Request> waited(requests, requests + count);
    std::vector<MPI_Status> own(count);
    const int result = PMPI_Waitall(count, requests, own.data());
    call.ended();
    for (int i = 0; i < count; ++i) call.completed(waited[i], own[i]);
    if (statuses != MPI_STATUSES_IGNORE) std::copy(own.begin(), own.end(), statuses);
    return result;
}

int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
    Call call(Region::MPI_Waitany);
    const std::vector<MPI_Request> waited(requests, requests + count);
    MPI_Status own;
    const int result = PMPI_Waitany(count, requests, index, &own);
    call.ended();
    if (*index != MPI_UNDEFINED) call.completed(waited[*index], own);
    if (status != MPI_STATUS_IGNORE) *status = own;
    return result;
}

int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
    Call call(Region::MPI_Test);
    const MPI_Request tested = *request;
    MPI_Status own;
    const int result = PMPI_Test(request, flag, &own);
    call.ended();
    if (*flag) {
        call.completed(tested, own);
    } else if (const auto found = call.rank().pending.find(tested); found != call.rank().pending.end()) {
        Event event;
        event.kind = Kind::mpi_request_test;
        event.request = found->second.id;
        call.completed(event);
    }
    if (status != MPI_STATUS_IGNORE) *status = own;
    return result;
}
}
