// SPDX-License-Identifier: BSD-3-Clause
#include "partitioned.hpp"

#include <algorithm>

namespace polter::mpi {

bool Partitioned::started(uint64_t handle, uint64_t id) {
    const auto at = open.find(handle);
    if (at == open.end()) return false;
    One& one = at->second;
    one.active = true;
    one.id = id;
    one.left = one.sends ? one.partitions : 0;
    return one.left > 0;
}

void Partitioned::ended(uint64_t handle) {
    if (const auto at = open.find(handle); at != open.end()) at->second.active = false;
}

bool Partitioned::freed(uint64_t handle) {
    const auto at = open.find(handle);
    if (at == open.end()) return true;
    const bool ready = at->second.left == 0;
    open.erase(at);
    return ready;
}

const Partitioned::One* Partitioned::find(uint64_t handle) const {
    const auto at = open.find(handle);
    return at == open.end() || !at->second.active ? nullptr : &at->second;
}

namespace handler {

PartitionedInit::PartitionedInit(Call& call, int partitions, RequestVariables request) : Begins(call, request), partitions_(partitions) {
    request_.persistent = true;
    request_.active = false;
}

void PartitionedInit::end(int result) {
    if (call_ && result == MPI_SUCCESS && request_.kind != Request::nothing) {
        const TableLock lock;
        const bool sends = request_.kind == Request::sending;
        const write::Message& message = request_.message;
        const uint32_t ordinal = ++process.partitioned->made[{sends, message.comm, message.peer, message.tag}];
        request_.partitioned = ordinal;
        process.partitioned->open[bits(variable_.handle())] = {sends, false, ordinal, std::max(partitions_, 0), 0, 0, message};
    }
    Begins::end(result);
}

PartitionedSendInit::PartitionedSendInit(Call& call, int partitions, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                                         RequestVariables request)
    : PartitionedInit(call, partitions, request) {
    if (call && outgoing(comm, dest, tag, count * partitions, type, request_.message)) request_.kind = Request::sending;
}

PartitionedReceiveInit::PartitionedReceiveInit(Call& call, int partitions, MPI_Count count, MPI_Datatype type, int source, int tag,
                                               MPI_Comm comm, RequestVariables request)
    : PartitionedInit(call, partitions, request) {
    if (!call || !outgoing(comm, source, tag, count * partitions, type, request_.message)) return;
    request_.kind = Request::receiving;
    request_.source = source;
    request_.tag = tag;
}

PreadyList::PreadyList(Call& call, int count, MPI_Request request) : call_(call) {
    if (!call) return;
    Partitioned::One ready;
    {
        const TableLock lock;
        const auto at = process.partitioned->open.find(bits(request));
        if (at == process.partitioned->open.end() || !at->second.active || at->second.left == 0) return;
        Partitioned::One& one = at->second;
        one.left -= std::clamp(count, 0, one.left);
        if (one.left > 0) return;
        ready = one;
    }
    call.at().isend_partitioned(call.entered(), ready.message, ready.ordinal, ready.id);
}

void Parrived::end(int result) {
    if (!call_) return;
    call_.come_back();
    Partitioned::One one;
    if (result == MPI_SUCCESS) {
        const TableLock lock;
        if (const Partitioned::One* found = process.partitioned->find(bits(request_))) one = *found;
    }
    if (!one.active || one.sends) return call_.leave();
    if (*flag_)
        return call_.leave_probe(static_cast<int>(one.message.peer), static_cast<int>(one.message.tag), one.message.comm, 0, one.ordinal);
    call_.at().request_test(call_.returned(), one.id);
    call_.leave();
}

}  // namespace handler
}  // namespace polter::mpi
