// SPDX-License-Identifier: BSD-3-Clause
// One-sided communication: windows, fences, post/start/complete/wait, puts. What each record means: tracer/README.md.
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

void complete_puts(Call& call, Window& window) {
    for (const uint64_t id : std::exchange(window.outstanding, {})) {
        Event event = of_window(Kind::rma_op_complete, window.id);
        event.request = id;
        call.completed(event);
    }
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
    complete_puts(call, window);
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
    complete_puts(call, window);
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
        int size = 0;
        PMPI_Type_size(type, &size);
        Event event = of_window(Kind::rma_put, window.id, target);
        event.bytes = static_cast<uint64_t>(count) * size;
        event.request = call.rank().next_request++;
        window.outstanding.push_back(event.request);
        call.began(event);
    }
    return PMPI_Put(origin, count, type, target, displacement, target_count, target_type, win);
}
}
