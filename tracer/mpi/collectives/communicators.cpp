// SPDX-License-Identifier: BSD-3-Clause
#include "communicators.hpp"

#include <string_view>

namespace polter::mpi::handler {
namespace {

// The next creation on this communicator; false: it is not followed.
bool next_creation(MPI_Comm parent, uint32_t& ordinal, uint32_t& id) {
    const TableLock lock;
    Comm* known = process.comms->find(parent);
    if (!known) return false;
    ordinal = ++known->created;
    id = known->id;
    return true;
}

}  // namespace

CommCreate::CommCreate(Call& call, MPI_Comm parent, MPI_Comm* made, uint8_t same)
    : call_(call), parent_(parent), made_(made), same_(same == Fact::same) {
    if (!call) return;
    known_ = next_creation(parent, ordinal_, collective_.comm);
    collective_.op = OTF2_COLLECTIVE_OP_CREATE_HANDLE;
    if (known_) call.at().collective_begin(call.entered());
}

void CommCreate::end(int result) {
    if (!call_) return;
    call_.come_back();
    if (known_) {
        if (result == MPI_SUCCESS && *made_ != constants.comm_null) {
            const TableLock lock;
            process.comms->add_child(parent_, ordinal_, *made_, same_);
        }
        call_.at().collective_end(call_.returned(), collective_);
    }
    call_.leave();
}

CommCreateGroup::CommCreateGroup(Call& call, MPI_Comm parent, uint64_t tag, MPI_Comm* made)
    : call_(call), parent_(parent), tag_(tag), made_(made) {}

CommCreateGroup::CommCreateGroup(Call& call, MPI_Comm parent, const char* tag, MPI_Comm* made)
    : CommCreateGroup(call, parent, call ? uint64_t{std::hash<std::string_view>{}(tag)} : 0, made) {}

void CommCreateGroup::end(int result) {
    if (!call_) return;
    call_.come_back();
    if (result == MPI_SUCCESS && *made_ != constants.comm_null) {
        write::Collective collective;
        collective.op = OTF2_COLLECTIVE_OP_CREATE_HANDLE;
        bool known = false;
        {
            const TableLock lock;
            if (const Comm* comm = process.comms->add_group(parent_, tag_, *made_)) {
                collective.comm = comm->id;
                known = true;
            }
        }
        // Which communicator it is on is only known now; its begin is the Enter, just before in the stream but for the noise between.
        if (known) {
            call_.at().collective_begin(call_.returned());
            call_.at().collective_end(call_.returned(), collective);
        }
    }
    call_.leave();
}

CommIdup::CommIdup(Call& call, MPI_Comm parent, MPI_Comm* made, RequestVariables request)
    : Begins(call, request), parent_(parent), made_(made) {
    if (!call || !next_creation(parent, ordinal_, request_.collective.comm)) return;
    request_.kind = Request::collecting;
    request_.collective.op = OTF2_COLLECTIVE_OP_CREATE_HANDLE;
    request_.id = new_request_id();
    call.at().collective_request(call.entered(), request_.id, request_.collective.comm);
}

void CommIdup::end(int result) {
    if (call_ && result == MPI_SUCCESS && request_.kind == Request::collecting) {
        const TableLock lock;
        process.comms->add_child(parent_, ordinal_, *made_, true);
    }
    Begins::end(result);
}

CommFree::CommFree(Call& call, MPI_Comm* comm) : call_(call) {
    if (!call) return;
    freed_ = *comm;
    known_ = local_id(freed_, collective_.comm);
    collective_.op = OTF2_COLLECTIVE_OP_DESTROY_HANDLE;
    if (known_) call.at().collective_begin(call.entered());
}

void CommFree::end(int result) {
    if (!call_) return;
    call_.come_back();
    if (known_) {
        if (result == MPI_SUCCESS) {
            const TableLock lock;
            process.comms->forget(freed_);
        }
        call_.at().collective_end(call_.returned(), collective_);
    }
    call_.leave();
}

CommName::CommName(Call& call, MPI_Comm comm, const char* name) : call_(call) {
    if (!call) return;
    const TableLock lock;
    if (const Comm* known = process.comms->find(comm)) process.comms->rename(*known, name);
}

}  // namespace polter::mpi::handler
