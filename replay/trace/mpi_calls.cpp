// SPDX-License-Identifier: BSD-3-Clause
#include "mpi_calls.hpp"

#include <otf2/otf2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <utility>

#include "conventions.hpp"
#include "message_calls.hpp"

namespace polter::replay {

namespace {

// Functions whose records do not say everything. In lower case and without "mpi_".
constexpr std::pair<std::string_view, CallKind> special[] = {
    {"init", CallKind::init},
    {"init_thread", CallKind::init},
    {"finalize", CallKind::finalize},
    {"test", CallKind::poll},
    {"testall", CallKind::poll},
    {"testany", CallKind::poll_any},
    {"testsome", CallKind::poll_any},
    {"request_get_status", CallKind::poll},
    {"iprobe", CallKind::poll},
    {"improbe", CallKind::poll_matched},
    {"probe", CallKind::probe},
    {"mprobe", CallKind::matched_probe},
    {"mrecv", CallKind::matched_receive},
    {"imrecv", CallKind::matched_receive},
    {"ssend", CallKind::synchronous_send},
    {"issend", CallKind::synchronous_send},
    {"ssend_init", CallKind::local},
    {"wait", CallKind::wait},
    {"waitall", CallKind::wait},
    {"waitany", CallKind::wait_any},
    {"waitsome", CallKind::wait_any},
    {"win_post", CallKind::win_post},
    {"win_start", CallKind::win_start},
    {"win_complete", CallKind::win_complete},
    {"win_wait", CallKind::win_wait},
    {"win_test", CallKind::poll},
    {"parrived", CallKind::part_arrived},
    {"psend_init", CallKind::partitioned_init},
    {"precv_init", CallKind::partitioned_init},
    {"win_lock", CallKind::win_lock},
    {"win_lock_all", CallKind::win_lock},
    {"win_unlock", CallKind::win_unlock},
    {"win_unlock_all", CallKind::win_unlock},
    {"win_flush", CallKind::win_flush},
    {"win_flush_all", CallKind::win_flush},
    {"win_flush_local", CallKind::win_flush},
    {"win_flush_local_all", CallKind::win_flush},
    {"grequest_start", CallKind::begins_unrecorded},
    {"rput", CallKind::begins_unrecorded},
    {"rget", CallKind::begins_unrecorded},
    {"raccumulate", CallKind::begins_unrecorded},
    {"rget_accumulate", CallKind::begins_unrecorded},
    {"comm_idup", CallKind::begins_unrecorded},
    {"comm_idup_with_info", CallKind::begins_unrecorded},
};

// Functions that may synchronise with other ranks. If they have records, these say with which.
constexpr std::string_view synchronising[] = {
    "comm_spawn",
    "comm_spawn_multiple",
    "comm_accept",
    "comm_connect",
    "comm_join",
    "comm_disconnect",
    "comm_dup",
    "comm_dup_with_info",
    "comm_create",
    "comm_create_group",
    "comm_create_from_group",
    "comm_split",
    "comm_split_type",
    "comm_free",
    "intercomm_create",
    "intercomm_create_from_groups",
    "intercomm_merge",
    "cart_create",
    "cart_sub",
    "graph_create",
    "dist_graph_create",
    "dist_graph_create_adjacent",
};

constexpr std::string_view collectives[] = {
    "barrier",   "bcast",     "gather",    "gatherv", "scatter", "scatterv",       "allgather", "allgatherv",           "alltoall",
    "alltoallv", "alltoallw", "allreduce", "reduce",  "scan",    "reduce_scatter", "exscan",    "reduce_scatter_block",
};

constexpr std::string_view windows[] = {
    "win_create", "win_create_dynamic", "win_allocate", "win_allocate_shared", "win_free", "win_fence",
};
constexpr std::string_view files[] = {
    "file_open",     "file_close",         "file_set_view", "file_set_size",    "file_preallocate",
    "file_set_info", "file_set_atomicity", "file_sync",     "file_seek_shared",
};

bool is_collective(std::string_view name) {
    return std::find(std::begin(collectives), std::end(collectives), name) != std::end(collectives);
}

// Families of names: neighbourhood collectives; file operations that end in _all or _ordered, with or without _begin and _end.
CallKind kind_by_family(std::string_view name) {
    const auto drop = [&](std::string_view end) {
        if (name.ends_with(end)) name.remove_suffix(end.size());
    };
    if (name.starts_with("neighbor_") || is_collective(name.substr(0, name.find("_init"))))
        return name.ends_with("_init")         ? CallKind::begins_unrecorded_persistent
               : name.starts_with("neighbor_") ? CallKind::neighbourhood
                                               : CallKind::local;
    if (name.starts_with("ineighbor_") || (name.starts_with('i') && is_collective(name.substr(1)))) return CallKind::begins_unrecorded;
    if (name.starts_with("file_iread") || name.starts_with("file_iwrite"))
        return name.ends_with("_all") ? CallKind::begins_unrecorded : CallKind::local;  // the others are independent of other ranks
    if (!name.starts_with("file_read_") && !name.starts_with("file_write_")) return CallKind::local;
    const CallKind kind = name.ends_with("_begin") ? CallKind::file_begin : name.ends_with("_end") ? CallKind::file_end : CallKind::file;
    drop("_begin");
    drop("_end");
    return name.ends_with("_all") || name.ends_with("_ordered") ? kind : CallKind::local;
}

// In lower case and without "mpi_"; empty: no function of MPI.
std::string function_name(std::string_view region) {
    std::string name(region.substr(0, region.find_first_of(" (")));
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    while (!name.empty() && name.back() == '_') name.pop_back();  // underscores that Fortran compilers append
    if (name.starts_with("pmpi_")) name.erase(0, 1);
    if (!name.starts_with("mpi_")) return "";
    name.erase(0, 4);
    for (const std::string_view form : {"_f08", "_c"})  // Fortran 2008 bindings, large counts
        if (name.ends_with(form)) name.erase(name.size() - form.size());
    return name;
}

}  // namespace

MessageCalls message_calls(const Definitions& definitions) {
    MessageCalls calls;
    for (uint32_t region = 0; region < definitions.region_kinds.size(); ++region) {
        if (definitions.region_kinds[region] == CallKind::not_mpi) continue;
        const std::string name = function_name(definitions.region_name(region));
        if (name == "irecv" || name == "start") calls.post_receive.insert(region);
        if (name == "isend" || name == "issend" || name == "irsend" || name == "start") calls.begin_send.insert(region);
        if (name == "startall") calls.begin_all.insert(region);
        if (name == "waitall") calls.complete_all.insert(region);
    }
    return calls;
}

CallKind thread_call_kind(std::string_view region, uint8_t role) {
    switch (role) {
        case OTF2_REGION_ROLE_BARRIER:
        case OTF2_REGION_ROLE_IMPLICIT_BARRIER:
            return region.ends_with("(dynamic)") ? CallKind::thread_dynamic_barrier : CallKind::thread_barrier;
        case OTF2_REGION_ROLE_THREAD_WAIT:
            return CallKind::thread_wait;
        case OTF2_REGION_ROLE_CRITICAL:
            return CallKind::thread_lock;
        case OTF2_REGION_ROLE_TASK:
            return CallKind::thread_task;
        default:  // functions of the runtime or the C library, by whatever role
            if (region == "pthread_cond_wait" || region == "pthread_cond_timedwait") return CallKind::thread_condition;
            return region == "omp_set_lock" || region == "omp_set_nest_lock" || region == "pthread_mutex_lock" ? CallKind::thread_lock
                                                                                                               : CallKind::not_mpi;
    }
}

CallKind call_kind(std::string_view region, bool paradigm_mpi) {
    const std::string name = function_name(region);
    if (name.empty()) return paradigm_mpi ? CallKind::local : CallKind::not_mpi;
    for (const auto& [known, kind] : special)
        if (name == known) return kind;
    if (is_collective(name)) return CallKind::collective;
    if (std::find(std::begin(windows), std::end(windows), name) != std::end(windows)) return CallKind::window;
    if (std::find(std::begin(files), std::end(files), name) != std::end(files)) return CallKind::file;
    if (std::find(std::begin(synchronising), std::end(synchronising), name) != std::end(synchronising)) return CallKind::may_wait;
    return kind_by_family(name);
}

uint8_t completed_operation(uint8_t recorded) {
    if (recorded == names::neighbours_operation) return operation_neighbours;
    return recorded == names::file_operation ? operation_file : recorded;
}

Waits collective_waits(uint8_t operation) {
    switch (operation) {
        case OTF2_COLLECTIVE_OP_BCAST:
        case OTF2_COLLECTIVE_OP_SCATTER:
        case OTF2_COLLECTIVE_OP_SCATTERV:
            return Waits::one_to_n;
        case OTF2_COLLECTIVE_OP_GATHER:
        case OTF2_COLLECTIVE_OP_GATHERV:
        case OTF2_COLLECTIVE_OP_REDUCE:
            return Waits::n_to_one;
        case OTF2_COLLECTIVE_OP_SCAN:
        case OTF2_COLLECTIVE_OP_EXSCAN:
            return Waits::prefix;
        case OTF2_COLLECTIVE_OP_BARRIER:
        case OTF2_COLLECTIVE_OP_ALLREDUCE:
        case OTF2_COLLECTIVE_OP_ALLGATHER:
        case OTF2_COLLECTIVE_OP_ALLTOALL:
        case OTF2_COLLECTIVE_OP_REDUCE_SCATTER_BLOCK:
        case OTF2_COLLECTIVE_OP_CREATE_HANDLE:
        case OTF2_COLLECTIVE_OP_CREATE_HANDLE_AND_ALLOCATE:
        case operation_fence:
        case operation_window:
            return Waits::n_to_n;
        case OTF2_COLLECTIVE_OP_ALLGATHERV:
        case OTF2_COLLECTIVE_OP_ALLTOALLV:
        case OTF2_COLLECTIVE_OP_ALLTOALLW:
        case OTF2_COLLECTIVE_OP_REDUCE_SCATTER:
        case OTF2_COLLECTIVE_OP_DESTROY_HANDLE:
        case OTF2_COLLECTIVE_OP_DESTROY_HANDLE_AND_DEALLOCATE:
        case OTF2_COLLECTIVE_OP_ALLOCATE:
        case OTF2_COLLECTIVE_OP_DEALLOCATE:
        case operation_fence_apart:
        case operation_window_free:
        case operation_file:
        case operation_init:
        case operation_finalize:
            return Waits::n_to_n_likely;
        default:
            return Waits::for_nobody;
    }
}

}  // namespace polter::replay
