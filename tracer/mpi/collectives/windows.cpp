// SPDX-License-Identifier: BSD-3-Clause
#include "windows.hpp"

#include <nlohmann/json.hpp>
#include <numeric>

namespace polter::mpi::handler {
namespace {

constexpr uint32_t synchronises = OTF2_RMA_SYNC_LEVEL_PROCESS | OTF2_RMA_SYNC_LEVEL_MEMORY;

}  // namespace

WinCreate::WinCreate(Call& call, MPI_Comm comm, MPI_Win* made, uint8_t memory) : call_(call), comm_(comm), made_(made), memory_(memory) {
    if (!call) return;
    const TableLock lock;
    process.comms->next_window(comm, known_, key_);
}

void WinCreate::end(int result) {
    if (!call_) return;
    call_.come_back();
    if (result == MPI_SUCCESS && !key_.empty()) {
        Window window;
        window.comm = known_.id;
        window.size = known_.size;
        pmpi.Comm_group(comm_, &window.group);
        {
            const TableLock lock;
            window.id = process.next_window++;
            (*process.windows)[bits(*made_)] = window;
        }
        process.archive->define({{"win", window.id}, {"name", ""}, {"comm", window.comm}, {"key", key_}});
        // Which window it is is known only now; the collective's begin is the Enter.
        const uint64_t time = call_.returned();
        call_.at().window_collective_begin(time);
        call_.at().window_create(time, window.id);
        call_.at().window_collective_end(
            time, memory_ == Fact::allocated ? OTF2_COLLECTIVE_OP_CREATE_HANDLE_AND_ALLOCATE : OTF2_COLLECTIVE_OP_CREATE_HANDLE,
            synchronises, window.id);
    }
    call_.leave();
}

WinFree::WinFree(Call& call, MPI_Win* win) : call_(call) {
    if (!call) return;
    freed_ = *win;
    const TableLock lock;
    const auto at = process.windows->find(bits(freed_));
    if (at == process.windows->end()) return;
    known_ = true;
    id_ = at->second.id;
    call.at().window_collective_begin(call.entered());
}

void WinFree::end(int result) {
    if (!call_) return;
    call_.come_back();
    if (known_) {
        if (result == MPI_SUCCESS) {
            const TableLock lock;
            const auto at = process.windows->find(bits(freed_));
            pmpi.Group_free(&at->second.group);
            process.windows->erase(at);
            call_.at().window_destroy(call_.returned(), id_);
        }
        call_.at().window_collective_end(call_.returned(), OTF2_COLLECTIVE_OP_DESTROY_HANDLE, synchronises, id_);
    }
    call_.leave();
}

OnWindow::OnWindow(Call& call, MPI_Win win) : call_(call) {
    if (!call) return;
    const TableLock lock;
    const auto at = process.windows->find(bits(win));
    if (at != process.windows->end()) window_ = &at->second;
}

std::vector<uint32_t> OnWindow::ranks_of(MPI_Group group) const {
    int size = 0;
    pmpi.Group_size(group, &size);
    std::vector<int> own(static_cast<size_t>(size)), in_window(own.size());
    std::iota(own.begin(), own.end(), 0);
    if (size > 0) pmpi.Group_translate_ranks(group, size, own.data(), window_->group, in_window.data());
    std::vector<uint32_t> ranks;
    for (const int rank : in_window)
        if (rank >= 0 && rank < window_->size) ranks.push_back(static_cast<uint32_t>(rank));
    return ranks;
}

void OnWindow::notify(uint64_t time, const std::vector<uint32_t>& ranks, OTF2_RmaSyncType type) {
    for (const uint32_t rank : ranks) call_.at().window_sync(time, window_->id, rank, type);
}

void OnWindow::complete_operations() {
    const TableLock lock;
    for (const auto& [target, id] : window_->open) call_.at().rma_complete(call_.returned(), window_->id, id);
    window_->open.clear();
}

void OnWindow::complete_operations(uint32_t target) {
    if (target == all_targets) return complete_operations();
    const TableLock lock;
    const auto at = window_->open.find(target);
    if (at == window_->open.end()) return;
    call_.at().rma_complete(call_.returned(), window_->id, at->second);
    window_->open.erase(at);
}

WinFence::WinFence(Call& call, int assert, MPI_Win win) : OnWindow(call, win), assert_(assert) {
    if (window_) call.at().window_collective_begin(call.entered());
}

void WinFence::end(int) {
    if (!call_) return;
    call_.come_back();
    if (window_) {
        complete_operations();
        // One that ends no epoch need not wait for anybody (MPI-4.0, section 12.5.1).
        const uint32_t level = assert_ & MPI_MODE_NOPRECEDE ? uint32_t{OTF2_RMA_SYNC_LEVEL_MEMORY} : synchronises;
        call_.at().window_collective_end(call_.returned(), OTF2_COLLECTIVE_OP_BARRIER, level, window_->id);
    }
    call_.leave();
}

WinPost::WinPost(Call& call, MPI_Group group, MPI_Win win) : OnWindow(call, win) {
    if (!window_) return;
    window_->posted = ranks_of(group);
    notify(call.entered(), window_->posted, OTF2_RMA_SYNC_TYPE_NOTIFY_OUT);
}

void WinPost::end(int) {
    call_.leave();
}

WinStart::WinStart(Call& call, MPI_Group group, MPI_Win win) : OnWindow(call, win) {
    if (window_) ranks_ = ranks_of(group);
}

void WinStart::end(int result) {
    if (!call_) return;
    call_.come_back();
    if (window_ && result == MPI_SUCCESS) {
        notify(call_.returned(), ranks_, OTF2_RMA_SYNC_TYPE_NOTIFY_IN);
        window_->started = std::move(ranks_);
    }
    call_.leave();
}

WinComplete::WinComplete(Call& call, MPI_Win win) : OnWindow(call, win) {
    if (window_) notify(call.entered(), window_->started, OTF2_RMA_SYNC_TYPE_NOTIFY_OUT);
}

void WinComplete::end(int) {
    if (!call_) return;
    call_.come_back();
    if (window_) {
        complete_operations();
        notify(call_.returned(), window_->started, OTF2_RMA_SYNC_TYPE_NOTIFY_IN);
        window_->started.clear();
    }
    call_.leave();
}

void WinWait::end(int, bool done) {
    if (!call_) return;
    call_.come_back();
    if (window_ && done) {
        notify(call_.returned(), window_->posted, OTF2_RMA_SYNC_TYPE_NOTIFY_IN);
        window_->posted.clear();
    }
    call_.leave();
}

WinLock::WinLock(Call& call, MPI_Win win, uint32_t target, OTF2_LockType type, bool locks)
    : OnWindow(call, win), type_(type), target_(target) {
    if (!locks) window_ = nullptr;
    if (window_) call.at().lock_request(call.entered(), window_->id, target, type);
}

WinLock::WinLock(Call& call, int lock_type, int rank, MPI_Win win)
    : WinLock(call, win, static_cast<uint32_t>(rank), lock_type == MPI_LOCK_EXCLUSIVE ? OTF2_LOCK_EXCLUSIVE : OTF2_LOCK_SHARED,
              rank != MPI_PROC_NULL) {}

void WinLock::end(int result) {
    if (!call_) return;
    call_.come_back();
    if (window_ && result == MPI_SUCCESS) call_.at().lock_acquired(call_.returned(), window_->id, target_, type_);
    call_.leave();
}

void WinUnlock::end(int result) {
    if (!call_) return;
    call_.come_back();
    if (window_ && locks_ && result == MPI_SUCCESS) {
        complete_operations(target_);
        call_.at().lock_released(call_.returned(), window_->id, target_);
    }
    call_.leave();
}

void WinFlush::end(int result) {
    if (!call_) return;
    call_.come_back();
    if (window_ && result == MPI_SUCCESS) complete_operations(target_);
    call_.leave();
}

void WinFlushAll::end(int result) {
    if (!call_) return;
    call_.come_back();
    if (window_ && result == MPI_SUCCESS) complete_operations();
    call_.leave();
}

WinName::WinName(Call& call, MPI_Win win, const char* name) : call_(call) {
    if (!call) return;
    const TableLock lock;
    const auto at = process.windows->find(bits(win));
    if (at != process.windows->end()) process.archive->define({{"win", at->second.id}, {"name", name}});
}

RmaOperation::RmaOperation(Call& call, uint8_t memory, MPI_Count count, MPI_Datatype type, int target, MPI_Win win) : OnWindow(call, win) {
    if (!window_ || target == MPI_PROC_NULL) return;
    const auto to = static_cast<uint32_t>(target);
    // All that goes to one target until it is synchronised has one id, and one completion.
    uint64_t id = 0;
    {
        const TableLock lock;
        uint64_t& open = window_->open[to];
        if (open == 0) open = new_request_id();
        id = open;
    }
    record(memory, bytes_of(count, type), to, id);
}

void RmaOperation::record(uint8_t memory, uint64_t bytes, uint32_t target, uint64_t id) {
    write::Location& at = call_.at();
    const uint64_t time = call_.entered();
    const auto atomic = [&](OTF2_RmaAtomicType type, uint64_t received) {
        at.rma_atomic(time, window_->id, target, type, bytes, received, id);
    };
    switch (memory) {
        case Fact::put:
            return at.rma_put(time, window_->id, target, bytes, id);
        case Fact::get:
            return at.rma_get(time, window_->id, target, bytes, id);
        case Fact::fetch:
            return atomic(OTF2_RMA_ATOMIC_TYPE_FETCH_AND_ACCUMULATE, bytes);
        case Fact::swap:
            return atomic(OTF2_RMA_ATOMIC_TYPE_COMPARE_AND_SWAP, bytes);
        default:
            return atomic(OTF2_RMA_ATOMIC_TYPE_ACCUMULATE, 0);
    }
}

RmaRequest::RmaRequest(Call& call, uint8_t memory, MPI_Count count, MPI_Datatype type, int target, MPI_Win win, RequestVariables request)
    : RmaOperation(call, win), begins_(call, request) {
    if (!window_ || target == MPI_PROC_NULL) return;
    Request& transfer = begins_.request_;
    transfer.kind = Request::transferring;
    transfer.id = new_request_id();
    transfer.window = window_->id;
    record(memory, bytes_of(count, type), static_cast<uint32_t>(target), transfer.id);
}

}  // namespace polter::mpi::handler
