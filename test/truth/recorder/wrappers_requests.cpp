// SPDX-License-Identifier: BSD-3-Clause
// Persistent requests, which are recorded when they start, and the calls that complete or find some of several messages.
#include "message.hpp"

using namespace polter::truth;

namespace {

void made(Call& call, MPI_Request request, Pending::What what, const Event& event, MPI_Comm comm) {
    call.rank().persistent[request] = {what, event, comm};
}

template <class F>
int send_init(Region region, uint8_t mode, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request,
              F&& function) {
    Call call(region);
    const int result = function();
    if (to == MPI_PROC_NULL) return result;
    Event event = message(call.rank(), Kind::mpi_isend, count, type, to, tag, comm);
    event.mode = mode;
    made(call, *request, Pending::What::send, event, comm);
    return result;
}

void starts(Call& call, MPI_Request request) {
    const auto found = call.rank().persistent.find(request);
    if (found == call.rank().persistent.end()) return;  // of a null process
    Event event = found->second.event;
    event.request = call.rank().next_request++;
    call.began(event);
    call.rank().pending[request] = {found->second.what, event.request, {}, found->second.comm};
}

}  // namespace

extern "C" {

int MPI_Send_init(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
    return send_init(Region::MPI_Send_init, 0, count, type, to, tag, comm, request,
                     [&] { return PMPI_Send_init(buffer, count, type, to, tag, comm, request); });
}

int MPI_Ssend_init(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
    return send_init(Region::MPI_Ssend_init, synchronous, count, type, to, tag, comm, request,
                     [&] { return PMPI_Ssend_init(buffer, count, type, to, tag, comm, request); });
}

int MPI_Recv_init(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
    Call call(Region::MPI_Recv_init);
    const int result = PMPI_Recv_init(buffer, count, type, from, tag, comm, request);
    if (from != MPI_PROC_NULL) made(call, *request, Pending::What::receive, posting(call.rank(), from, tag, comm), comm);
    return result;
}

int MPI_Start(MPI_Request* request) {
    Call call(Region::MPI_Start);
    starts(call, *request);
    return PMPI_Start(request);
}

int MPI_Startall(int count, MPI_Request* requests) {
    Call call(Region::MPI_Startall);
    for (int i = 0; i < count; ++i) starts(call, requests[i]);
    return PMPI_Startall(count, requests);
}

int MPI_Request_free(MPI_Request* request) {
    Call call(Region::MPI_Request_free);
    call.rank().persistent.erase(*request);
    return PMPI_Request_free(request);
}

int MPI_Waitsome(int count, MPI_Request requests[], int* done, int* indices, MPI_Status statuses[]) {
    Call call(Region::MPI_Waitsome);
    const std::vector<MPI_Request> waited(requests, requests + count);
    std::vector<MPI_Status> own(count);
    const int result = PMPI_Waitsome(count, requests, done, indices, own.data());
    call.ended();
    for (int i = 0; *done != MPI_UNDEFINED && i < *done; ++i) call.completed(waited[indices[i]], own[i]);
    if (statuses != MPI_STATUSES_IGNORE) std::copy(own.begin(), own.end(), statuses);
    return result;
}

int MPI_Iprobe(int from, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
    Call call(Region::MPI_Iprobe);
    MPI_Status own;
    const int result = PMPI_Iprobe(from, tag, comm, flag, &own);
    call.ended();
    if (*flag != 0) call.found(finding(call.rank(), own, from, tag, comm));
    if (status != MPI_STATUS_IGNORE) *status = own;
    return result;
}
}
