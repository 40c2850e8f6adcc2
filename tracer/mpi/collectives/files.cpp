// SPDX-License-Identifier: BSD-3-Clause
#include "files.hpp"

namespace polter::mpi::handler {

void FileOpen::end(int result) {
    if (!call_) return;
    call_.come_back();
    uint32_t comm = 0;
    if (!local_id(comm_, comm)) return call_.leave();
    if (result == MPI_SUCCESS) {
        const TableLock lock;
        (*process.files)[bits(*made_)] = comm;
    }
    call_.leave_on(comm);
}

FileCollective::FileCollective(Call& call, MPI_File file) : call_(call), file_(file) {
    if (!call) return;
    const TableLock lock;
    const auto at = process.files->find(bits(file));
    known_ = at != process.files->end();
    if (known_) comm_ = at->second;
}

void FileCollective::end(int) {
    if (!call_) return;
    call_.come_back();
    leave();
}

void FileCollective::leave() {
    known_ ? call_.leave_on(comm_) : call_.leave();
}

FileRequest::FileRequest(Call& call, MPI_File file, RequestVariables request) : Begins(call, request) {
    if (!call) return;
    {
        const TableLock lock;
        const auto at = process.files->find(bits(file));
        if (at == process.files->end()) return;
        request_.collective.comm = at->second;
    }
    request_.kind = Request::collecting;
    request_.unlisted = trace::operation_file;
    request_.collective.op = static_cast<OTF2_CollectiveOp>(trace::operation_file);
    request_.id = new_request_id();
    call.at().collective_request(call.entered(), request_.id, request_.collective.comm, request_.unlisted);
}

void FileClose::end(int result) {
    if (!call_) return;
    call_.come_back();
    if (result == MPI_SUCCESS) {
        const TableLock lock;
        process.files->erase(bits(file_));
    }
    leave();
}

}  // namespace polter::mpi::handler
