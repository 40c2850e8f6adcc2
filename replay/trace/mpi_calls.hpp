// SPDX-License-Identifier: BSD-3-Clause
// What an MPI function or an OTF2 record means: the only place that knows MPI functions by name. What each kind waits for: rules/README.md.
#pragma once

#include <cstdint>
#include <string_view>

namespace polter::replay {

// What a function's OTF2 records cannot say. Records decide the rest.
enum class CallKind : uint8_t {
    not_mpi,
    local,          // an MPI function whose records, if any, say what it waits for
    poll,           // Test…, Iprobe: may return without success
    probe,          // waits for a message and leaves it in its queue
    matched_probe,  // waits for a message and removes it from its queue
    matched_receive,
    poll_matched,      // Improbe
    synchronous_send,  // Ssend, Issend, even if the send record has no mode
    init,
    finalize,
    collective,  // a collective by its name; a record says which
    wait,        // Wait…: completes what its records say, and requests without records
    win_post,    // the meaning of their notices depends on the call
    win_start,
    win_complete,
    win_wait,
    window,  // other synchronisation of windows
    file,    // a collective of files
    neighbourhood,
    partitioned_init,  // Psend_init, Precv_init
    part_arrived,      // Parrived: a poll for a part of a message
    // Without records it is unknown what these waited for (rules/unrecorded.cpp).
    may_wait,                      // a call that may synchronise with other ranks
    begins_unrecorded,             // begins a request that is completed in some Wait or Test
    begins_unrecorded_persistent,  // the same, a persistent request
    file_begin,                    // the two halves of a split collective of files
    file_end,
    wait_any,  // Waitany, Waitsome: takes the first complete request of its list
    poll_any,
    // Passive target synchronisation.
    win_lock,
    win_unlock,
    win_flush,
    // Of threads of one process (rules/threads/): no MPI calls.
    thread_barrier,
    thread_dynamic_barrier,  // behind work that threads took piece by piece
    thread_idle,             // between two parallel regions, for a thread that does not begin them
    thread_join,             // from the end of a thread's share to the end of the region that it began
    thread_wait,             // pthread_join: for the end of a thread that the program started
    thread_lock,             // up to the record that the lock is had
    thread_condition,        // pthread_cond_wait: for a signal, and then for the mutex
    thread_task,             // not a call: a task that a thread executes, in a barrier perhaps
};

CallKind call_kind(std::string_view region, bool paradigm_mpi);
// Of a region of a paradigm of threads (OpenMP, POSIX threads); `role`: an OTF2_RegionRole. Of a barrier behind work that threads took
// piece by piece (OpenMP's dynamic and guided loops) only the name tells.
CallKind thread_call_kind(std::string_view region, uint8_t role);
inline bool of_threads(CallKind kind) {
    return kind >= CallKind::thread_barrier;
}

// What the members of a collective wait for.
enum class Waits : uint8_t {
    n_to_n,         // all members wait for all
    n_to_n_likely,  // v-forms with zero counts, freeing, init, finalize: for the members that arrived before the own measured leave
    one_to_n,       // all wait for the root
    n_to_one,       // the root waits for all
    prefix,
    for_nobody,
};

// `operation` is an OTF2_CollectiveOp.
Waits collective_waits(uint8_t operation);

// The operation that the completion of a non-blocking collective records: OTF2's, or one of those below.
uint8_t completed_operation(uint8_t recorded);

// Besides OTF2's own operations. operation_fence_apart: a fence that need not wait for the others. operation_window, operation_window_free:
// creating and freeing a window, which cost other than creating and freeing a communicator.
inline constexpr uint8_t operation_window_free = 247, operation_window = 248, operation_neighbours = 249, operation_file = 250,
                         operation_fence_apart = 251, operation_fence = 252, operation_init = 253, operation_finalize = 254;

}  // namespace polter::replay
