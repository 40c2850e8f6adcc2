// SPDX-License-Identifier: BSD-3-Clause
// What an MPI function or an OTF2 record means: the one place that knows them by name. What each waits for: rules/README.md.
#pragma once

#include <cstdint>
#include <string_view>

namespace polter::replay {

// What the records inside a region cannot tell.
enum class CallKind : uint8_t {
    not_mpi,
    local,          // MPI; whom it waits for is told by its records, if by anything
    poll,           // Test…, Iprobe: it may come back with nothing
    probe,          // waits for a message and leaves it there
    matched_probe,  // waits for a message and takes it aside
    matched_receive,
    poll_matched,      // Improbe
    synchronous_send,  // Ssend, Issend, whatever the records say
    init,
    finalize,
    collective,  // a collective by its name; its records should say which
    wait,        // Wait…: it completes what its records say, or requests that have none
    win_post,    // these mean what their notices are
    win_start,
    win_complete,
    win_wait,
    window,  // the other synchronisation of windows
    file,    // a collective of files
    neighbourhood,
    partitioned_init,  // Psend_init, Precv_init
    part_arrived,      // Parrived: a poll for a part of a message
    // Where records are missing nobody knows whom these waited for (rules/unrecorded.cpp).
    may_wait,                      // a call that synchronises with others, or may
    begins_unrecorded,             // a request; its completion is in some Wait or Test
    begins_unrecorded_persistent,  // a persistent one
    file_begin,                    // the halves of a collective of files
    file_end,
    wait_any,  // Waitany, Waitsome: it takes what comes first
    poll_any,
    // Passive synchronisation of windows.
    win_lock,
    win_unlock,
    win_flush,
};

CallKind call_kind(std::string_view region, bool paradigm_mpi);

// Whom a collective waits for.
enum class Waits : uint8_t {
    n_to_n,         // and nobody may be left out
    n_to_n_likely,  // v-forms with zero counts, freeing, init, finalize: only those who came before the measured leave
    one_to_n,       // the root waits for nobody
    n_to_one,       // the others wait for nobody
    prefix,
    for_nobody,
};

// `operation` is an OTF2_CollectiveOp.
Waits collective_waits(uint8_t operation);

// The operation of a non-blocking collective's completion: OTF2's, or one of those below.
uint8_t completed_operation(uint8_t recorded);

// Beside OTF2's own. A fence is apart where it may come without the others.
inline constexpr uint8_t operation_neighbours = 249, operation_file = 250, operation_fence_apart = 251, operation_fence = 252,
                         operation_init = 253, operation_finalize = 254;

}  // namespace polter::replay
