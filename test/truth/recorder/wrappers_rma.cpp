// SPDX-License-Identifier: BSD-3-Clause
// One-sided communication: windows, fences, post/start/complete/wait, locks, puts. What each record means: tracer/README.md.
#include <utility>

#include "recorder.hpp"

using namespace polter::truth;

namespace {

Event of_window(Kind kind, uint32_t window, int peer = 0) {
    Event event;
    event.kind = kind;
    event.comm = window;
    event.peer = peer;
    return event;
}

Event collective(OTF2_CollectiveOp operation, uint32_t window) {
    Event event = of_window(Kind::rma_collective_end, window);
    event.operation = operation;
    return event;
}

// Windows span MPI_COMM_WORLD or what has its order: the group's ranks are looked up in the window's own.
std::vector<int> ranks_of(MPI_Group group, MPI_Win win) {
    MPI_Group whole;
    int size = 0;
    PMPI_Win_get_group(win, &whole);
    PMPI_Group_size(group, &size);
    std::vector<int> own(size), ranks(size);
    for (int i = 0; i < size; ++i) own[i] = i;
    if (size > 0) PMPI_Group_translate_ranks(group, size, own.data(), whole, ranks.data());
    return ranks;
}

constexpr int every_target = -1;  // OTF2_UNDEFINED_UINT32

void complete_transfers(Call& call, Window& window, int target = every_target) {
    for (const Window::Transfer& transfer : window.outstanding) {
        if (target != every_target && transfer.target != target) continue;
        Event event = of_window(Kind::rma_op_complete, window.id);
        event.request = transfer.id;
        call.completed(event);
    }
    std::erase_if(window.outstanding, [&](const Window::Transfer& t) { return target == every_target || t.target == target; });
}

Event lock_event(Kind kind, uint32_t window, int target, int type) {
    Event event = of_window(kind, window, target);
    event.mode = type == MPI_LOCK_EXCLUSIVE;
    return event;
}

template <typename Pmpi>
int lock(Region region, int target, int type, MPI_Win win, Pmpi pmpi) {
    Call call(region);
    const uint32_t window = call.rank().windows.at(win).id;
    call.began(lock_event(Kind::rma_request_lock, window, target, type));
    const int result = pmpi();
    call.ended();
    call.completed(lock_event(Kind::rma_acquire_lock, window, target, type));
    return result;
}

template <typename Pmpi>
int unlock(Region region, int target, MPI_Win win, Pmpi pmpi) {
    Call call(region);
    const int result = pmpi();
    call.ended();
    Window& window = call.rank().windows.at(win);
    complete_transfers(call, window, target);
    call.completed(of_window(Kind::rma_release_lock, window.id, target));
    return result;
}

// Gives the matching id.
uint64_t transfer(Call& call, Kind kind, int count, MPI_Datatype type, int target, Window& window) {
    int size = 0;
    PMPI_Type_size(type, &size);
    Event event = of_window(kind, window.id, target);
    event.bytes = static_cast<uint64_t>(count) * size;
    event.request = call.rank().next_request++;
    call.began(event);
    return event.request;
}

}  // namespace

extern "C" {

int MPI_Win_create(void* base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win* win) {
    Call call(Region::MPI_Win_create);
    call.began(of_window(Kind::rma_collective_begin, 0));
    const int result = PMPI_Win_create(base, size, unit, info, comm, win);
    const uint32_t id = window_created(call.rank(), comm);
    call.rank().windows[*win] = {id, {}, {}, {}};
    call.ended();
    call.completed(of_window(Kind::rma_win_create, id));
    call.completed(collective(OTF2_COLLECTIVE_OP_CREATE_HANDLE, id));
    return result;
}

int MPI_Win_free(MPI_Win* win) {
    Call call(Region::MPI_Win_free);
    call.began(of_window(Kind::rma_collective_begin, 0));
    const uint32_t id = call.rank().windows.at(*win).id;
    call.rank().windows.erase(*win);
    const int result = PMPI_Win_free(win);
    call.ended();
    call.completed(of_window(Kind::rma_win_destroy, id));
    call.completed(collective(OTF2_COLLECTIVE_OP_DESTROY_HANDLE, id));
    return result;
}

int MPI_Win_fence(int assert, MPI_Win win) {
    Call call(Region::MPI_Win_fence);
    call.began(of_window(Kind::rma_collective_begin, 0));
    const int result = PMPI_Win_fence(assert, win);
    call.ended();
    Window& window = call.rank().windows.at(win);
    complete_transfers(call, window);
    call.completed(collective(OTF2_COLLECTIVE_OP_BARRIER, window.id));
    return result;
}

int MPI_Win_post(MPI_Group group, int assert, MPI_Win win) {
    Call call(Region::MPI_Win_post);
    Window& window = call.rank().windows.at(win);
    window.posted = ranks_of(group, win);
    for (const int rank : window.posted) call.began(of_window(Kind::rma_notify_out, window.id, rank));
    return PMPI_Win_post(group, assert, win);
}

int MPI_Win_start(MPI_Group group, int assert, MPI_Win win) {
    Call call(Region::MPI_Win_start);
    const int result = PMPI_Win_start(group, assert, win);
    call.ended();
    Window& window = call.rank().windows.at(win);
    window.started = ranks_of(group, win);
    for (const int rank : window.started) call.completed(of_window(Kind::rma_notify_in, window.id, rank));
    return result;
}

int MPI_Win_complete(MPI_Win win) {
    Call call(Region::MPI_Win_complete);
    Window& window = call.rank().windows.at(win);
    for (const int rank : window.started) call.began(of_window(Kind::rma_notify_out, window.id, rank));
    const int result = PMPI_Win_complete(win);
    call.ended();
    complete_transfers(call, window);
    for (const int rank : std::exchange(window.started, {})) call.completed(of_window(Kind::rma_notify_in, window.id, rank));
    return result;
}

int MPI_Win_wait(MPI_Win win) {
    Call call(Region::MPI_Win_wait);
    const int result = PMPI_Win_wait(win);
    call.ended();
    Window& window = call.rank().windows.at(win);
    for (const int rank : std::exchange(window.posted, {})) call.completed(of_window(Kind::rma_notify_in, window.id, rank));
    return result;
}

int MPI_Put(const void* origin, int count, MPI_Datatype type, int target, MPI_Aint displacement, int target_count, MPI_Datatype target_type,
            MPI_Win win) {
    Call call(Region::MPI_Put);
    if (target != MPI_PROC_NULL) {
        Window& window = call.rank().windows.at(win);
        window.outstanding.push_back({target, transfer(call, Kind::rma_put, count, type, target, window)});
    }
    return PMPI_Put(origin, count, type, target, displacement, target_count, target_type, win);
}

int MPI_Get(void* origin, int count, MPI_Datatype type, int target, MPI_Aint displacement, int target_count, MPI_Datatype target_type,
            MPI_Win win) {
    Call call(Region::MPI_Get);
    Window& window = call.rank().windows.at(win);
    window.outstanding.push_back({target, transfer(call, Kind::rma_get, count, type, target, window)});
    return PMPI_Get(origin, count, type, target, displacement, target_count, target_type, win);
}

int MPI_Rget(void* origin, int count, MPI_Datatype type, int target, MPI_Aint displacement, int target_count, MPI_Datatype target_type,
             MPI_Win win, MPI_Request* request) {
    Call call(Region::MPI_Rget);
    Window& window = call.rank().windows.at(win);
    const uint64_t id = transfer(call, Kind::rma_get, count, type, target, window);
    const int result = PMPI_Rget(origin, count, type, target, displacement, target_count, target_type, win, request);
    call.rank().pending[*request] = {Pending::What::transfer, id, of_window(Kind::rma_request_complete, window.id), MPI_COMM_NULL};
    return result;
}

int MPI_Win_lock(int type, int target, int assert, MPI_Win win) {
    return lock(Region::MPI_Win_lock, target, type, win, [&] { return PMPI_Win_lock(type, target, assert, win); });
}

int MPI_Win_lock_all(int assert, MPI_Win win) {
    return lock(Region::MPI_Win_lock_all, every_target, MPI_LOCK_SHARED, win, [&] { return PMPI_Win_lock_all(assert, win); });
}

int MPI_Win_flush(int target, MPI_Win win) {
    Call call(Region::MPI_Win_flush);
    const int result = PMPI_Win_flush(target, win);
    call.ended();
    complete_transfers(call, call.rank().windows.at(win), target);
    return result;
}

int MPI_Win_unlock(int target, MPI_Win win) {
    return unlock(Region::MPI_Win_unlock, target, win, [&] { return PMPI_Win_unlock(target, win); });
}

int MPI_Win_unlock_all(MPI_Win win) {
    return unlock(Region::MPI_Win_unlock_all, every_target, win, [&] { return PMPI_Win_unlock_all(win); });
}
}
