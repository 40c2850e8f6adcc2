// SPDX-License-Identifier: BSD-3-Clause
#include "probe.hpp"

namespace polter::mpi::handler {

void Probe::end(int result, bool found, const MPI_Message* message) {
    if (!call_) return;
    call_.come_back();
    const MPI_Status& status = *own_;
    Probed probed;
    if (result == MPI_SUCCESS && !found) return call_.leave_in_vain();
    if (result != MPI_SUCCESS || status.MPI_SOURCE == MPI_PROC_NULL || !local_id(comm_, probed.comm)) return call_.leave();
    probed.source = status.MPI_SOURCE;
    probed.tag = status.MPI_TAG;
    probed.known = true;
    if (message && *message != constants.message_no_proc) {
        const TableLock lock;
        (*process.messages)[bits(*message)] = probed;
    }
    call_.leave_probe(probed.source, probed.tag, probed.comm, any_);
}

Probed take_message(MPI_Message message) {
    const TableLock lock;
    Probed probed;
    if (const auto at = process.messages->find(bits(message)); at != process.messages->end()) {
        probed = at->second;
        process.messages->erase(at);
    }
    return probed;
}

void Mreceive::end(int result) {
    if (!call_) return;
    call_.come_back();
    if (result == MPI_SUCCESS && probed_.known) {
        write::Message message;
        message.peer = static_cast<uint32_t>(probed_.source);
        message.comm = probed_.comm;
        message.tag = static_cast<uint32_t>(probed_.tag);
        message.bytes = bytes_of(*own_);
        call_.at().recv(call_.returned(), message);
    }
    call_.leave();
}

Imreceive::Imreceive(Call& call, MPI_Message* message, RequestVariables request) : Begins(call, request) {
    if (!call) return;
    const Probed probed = take_message(*message);
    if (!probed.known) return;
    request_.kind = Request::receiving;
    request_.message.comm = probed.comm;
    request_.source = probed.source;
    request_.tag = probed.tag;
    request_.id = new_request_id();
    call.at().irecv_request(call.entered(), request_.id, request_.source, request_.tag, request_.message.comm);
}

}  // namespace polter::mpi::handler
