// SPDX-License-Identifier: BSD-3-Clause
#include "completion.hpp"

#include <algorithm>

#include "partitioned.hpp"

namespace polter::mpi::handler {
namespace {

bool was_cancelled(const Request& request, const MPI_Status& status) {
    int flag = 0;
    return request.cancelling && pmpi.Test_cancelled(&status, &flag) == MPI_SUCCESS && flag;
}

bool is_in_status(int result) {
    int error_class = result;
    pmpi.Error_class(result, &error_class);
    return error_class == MPI_ERR_IN_STATUS;
}

// What each of several statuses says after MPI_ERR_IN_STATUS.
void sort_out(Completion& completion, int i, const MPI_Status& status) {
    int error_class = status.MPI_ERROR;
    pmpi.Error_class(status.MPI_ERROR, &error_class);
    if (error_class == MPI_SUCCESS)
        completion.completed(i, status);
    else if (error_class != MPI_ERR_PENDING)
        completion.failed(i);
}

void drop_vanished(Completion& completion) {
    for (int i = 0; i < completion.count(); i++)
        if (completion.vanished(i)) completion.failed(i);
}

}  // namespace

// MPI refuses a count below zero, and the program may live on.
Completion::Completion(Call& call, int count, RequestVariables requests) : call_(call), count_(std::max(count, 0)), requests_(requests) {
    if (!call) return;
    count = count_;
    handles_ = count == 1 ? &one_handle_ : room(scratch().handles, count);
    for (int i = 0; i < count; i++) handles_[i] = requests.handle(i);
    if (!process.threaded) return;
    taken_ = count == 1 ? &one_taken_ : room(scratch().taken, count);
    const TableLock lock;
    for (int i = 0; i < count; i++)
        taken_[i] =
            handles_[i] == constants.request_null ? Requests::absent : process.requests->take(bits(handles_[i]), requests.address(i));
}

MPI_Status* Completion::statuses(MPI_Status* wanted) {
    return call_ && wanted == MPI_STATUSES_IGNORE ? room(scratch().statuses, count_) : wanted;
}

uint32_t Completion::entry(int i) {
    if (i < 0 || i >= count_) return Requests::absent;  // an index that the MPI got wrong
    if (taken_) return taken_[i];
    return handles_[i] == constants.request_null ? Requests::absent : process.requests->find(bits(handles_[i]), requests_.address(i));
}

void Completion::done(int i, uint32_t entry) {
    Request& request = (*process.requests)[entry];
    if (request.persistent) {
        request.active = request.cancelling = request.tested = false;
        if (request.partitioned) process.partitioned->ended(bits(handles_[i]));
        if (taken_) process.requests->put_back(entry);
    } else if (taken_) {
        process.requests->drop(entry);
    } else {
        process.requests->erase(entry);
    }
    if (taken_) taken_[i] = Requests::absent;
}

void Completion::completed(int i, const MPI_Status& status) {
    Request request;
    {
        const TableLock lock;
        const uint32_t at = entry(i);
        if (at == Requests::absent) return;
        request = (*process.requests)[at];
        done(i, at);
    }
    if (request.active) write_completed(request, status);
}

void Completion::write_completed(const Request& request, const MPI_Status& status) {
    write::Location& at = call_.at();
    const uint64_t time = call_.returned();
    if (request.kind != Request::nothing && was_cancelled(request, status)) return at.request_cancelled(time, request.id);
    switch (request.kind) {
        case Request::sending:
            return at.isend_complete(time, request.id);
        case Request::collecting:
            return at.collective_complete(time, request.collective, request.id);
        case Request::transferring:
            return at.rma_request_complete(time, request.window, request.id);
        case Request::receiving:
        case Request::both: {
            const bool both = request.kind == Request::both;
            if (both) at.isend_complete(time, request.id);
            write::Message message = request.message;
            // MPICH 4.0 leaves the status of MPI_Isendrecv empty.
            const bool from_status = !both || status.MPI_SOURCE >= 0;
            message.peer = static_cast<uint32_t>(from_status ? status.MPI_SOURCE : request.source);
            message.tag = static_cast<uint32_t>(from_status ? status.MPI_TAG : request.tag);
            message.bytes = from_status ? bytes_of(status) : 0;
            return at.irecv(time, message, request.id + (both ? 1 : 0));
        }
        case Request::nothing:
            return;
    }
}

void Completion::tested(int i) {
    uint64_t id;
    Request::Kind kind;
    uint32_t window;
    {
        const TableLock lock;
        const uint32_t at = entry(i);
        if (at == Requests::absent) return;
        Request& request = (*process.requests)[at];
        window = request.window;
        // Polling many requests would otherwise write many records a call, and a poll that becomes one with those before it has none.
        if (request.kind == Request::nothing || !request.active || ((count_ > 1 || call_.held()) && request.tested)) return;
        request.tested = true;
        id = request.id;
        kind = request.kind;
    }
    if (kind == Request::transferring) return call_.at().rma_request_test(call_.returned(), window, id);
    call_.at().request_test(call_.returned(), id);
    if (kind == Request::both) call_.at().request_test(call_.returned(), id + 1);
}

bool Completion::vanished(int i) const {
    return handles_[i] != constants.request_null && requests_.handle(i) == constants.request_null;
}

void Completion::failed(int i) {
    const TableLock lock;
    if (const uint32_t at = entry(i); at != Requests::absent) done(i, at);
}

void Completion::put_back() {
    if (!taken_) return;
    const TableLock lock;
    for (int i = 0; i < count_; i++)
        if (taken_[i] != Requests::absent) process.requests->put_back(taken_[i]);
}

void Completion::leave() {
    put_back();
    call_.leave();
}

void Completion::leave_in_vain() {
    for (int i = 0; i < count_; i++) tested(i);
    put_back();
    call_.leave_in_vain();
}

void Wait::end(int result) {
    if (!completion_.call()) return;
    completion_.call().come_back();
    if (result == MPI_SUCCESS)
        completion_.completed(0, *own_);
    else
        drop_vanished(completion_);
    completion_.leave();
}

void Test::end(int result) {
    if (!completion_.call()) return;
    completion_.call().come_back();
    if (result != MPI_SUCCESS)
        drop_vanished(completion_);
    else if (*flag_)
        completion_.completed(0, *own_);
    else
        return completion_.leave_in_vain();
    completion_.leave();
}

void Waitall::end(int result) {
    if (!completion_.call()) return;
    completion_.call().come_back();
    if (result == MPI_SUCCESS) {
        for (int i = 0; i < completion_.count(); i++) completion_.completed(i, statuses_[i]);
    } else if (is_in_status(result)) {
        for (int i = 0; i < completion_.count(); i++) sort_out(completion_, i, statuses_[i]);
    } else {
        drop_vanished(completion_);
    }
    completion_.leave();
}

void Testall::end(int result) {
    if (!completion_.call()) return;
    if (result != MPI_SUCCESS || *flag_) return Waitall::end(result);
    completion_.call().come_back();
    completion_.leave_in_vain();
}

void Waitany::end(int result) {
    if (!completion_.call()) return;
    completion_.call().come_back();
    if (result != MPI_SUCCESS)
        drop_vanished(completion_);
    else if (*index_ != MPI_UNDEFINED)
        completion_.completed(*index_, *own_);
    completion_.leave();
}

void Testany::end(int result) {
    if (!completion_.call()) return;
    if (result != MPI_SUCCESS || *flag_) return Waitany::end(result);
    completion_.call().come_back();
    completion_.leave_in_vain();
}

void Waitsome::end(int result, bool tests) {
    if (!completion_.call()) return;
    completion_.call().come_back();
    const bool in_status = result != MPI_SUCCESS && is_in_status(result);
    if (result != MPI_SUCCESS && !in_status) {
        drop_vanished(completion_);
    } else if (*outcount_ != MPI_UNDEFINED) {
        for (int k = 0; k < *outcount_; k++) {
            if (in_status)
                sort_out(completion_, indices_[k], statuses_[k]);
            else
                completion_.completed(indices_[k], statuses_[k]);
        }
        if (tests && *outcount_ == 0) return completion_.leave_in_vain();
    }
    completion_.leave();
}

void RequestGetStatus::end(int result) {
    if (!call_) return;
    call_.come_back();
    Request tested;
    const bool in_vain = result == MPI_SUCCESS && !*flag_;
    if (in_vain && request_ != constants.request_null) {
        const TableLock lock;
        const uint32_t at = process.requests->find(bits(request_), nullptr);
        if (at != Requests::absent) {
            Request& request = (*process.requests)[at];
            if (request.active && !(request.tested && call_.held())) {
                request.tested = true;
                tested = request;
            }
        }
    }
    if (tested.kind == Request::transferring)
        call_.at().rma_request_test(call_.returned(), tested.window, tested.id);
    else if (tested.kind != Request::nothing)
        call_.at().request_test(call_.returned(), tested.id);
    in_vain ? call_.leave_in_vain() : call_.leave();
}

void RequestFree::end(int result) {
    if (!completion_.call()) return;
    completion_.call().come_back();
    if (result == MPI_SUCCESS) completion_.released();
    completion_.leave();
}

void Completion::released() {
    Request request;
    {
        const TableLock lock;
        const uint32_t at = entry(0);
        if (at == Requests::absent) return;
        request = (*process.requests)[at];
        (*process.requests)[at].persistent = false;
        if (request.partitioned && !process.partitioned->freed(bits(handles_[0]))) request.active = false;  // it has not been sent
        done(0, at);
    }
    if (request.active && (request.kind == Request::sending || request.kind == Request::both))
        call_.at().isend_complete(call_.returned(), request.id);
}

Cancel::Cancel(Call& call, RequestVariables request) : call_(call) {
    if (!call || request.handle() == constants.request_null) return;
    const TableLock lock;
    const uint32_t at = process.requests->find(bits(request.handle()), request.address());
    if (at != Requests::absent) (*process.requests)[at].cancelling = true;
}

}  // namespace polter::mpi::handler
