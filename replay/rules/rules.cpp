// SPDX-License-Identifier: BSD-3-Clause
#include "rules.hpp"

#include <otf2/otf2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <utility>

#include "../names.hpp"

namespace polter::replay {

namespace {

// Functions whose records do not tell all. In lower case and without "mpi_".
constexpr std::pair<std::string_view, CallKind> special[] = {
    {"init", CallKind::init},
    {"init_thread", CallKind::init},
    {"finalize", CallKind::finalize},
    {"test", CallKind::poll},
    {"testall", CallKind::poll},
    {"testany", CallKind::poll},
    {"testsome", CallKind::poll},
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
};

constexpr std::string_view collectives[] = {
    "barrier",   "bcast",     "gather",    "gatherv", "scatter", "scatterv",       "allgather", "allgatherv",           "alltoall",
    "alltoallv", "alltoallw", "allreduce", "reduce",  "scan",    "reduce_scatter", "exscan",    "reduce_scatter_block",
};

}  // namespace

CallKind call_kind(std::string_view region, bool paradigm_mpi) {
    std::string name(region.substr(0, region.find_first_of(" (")));
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    while (!name.empty() && name.back() == '_') name.pop_back();  // Fortran's linker names
    if (name.starts_with("pmpi_")) name.erase(0, 1);
    if (!name.starts_with("mpi_")) return paradigm_mpi ? CallKind::local : CallKind::not_mpi;
    name.erase(0, 4);
    if (name.ends_with("_f08")) name.erase(name.size() - 4);
    for (const auto& [known, kind] : special)
        if (name == known) return kind;
    if (std::find(std::begin(collectives), std::end(collectives), name) != std::end(collectives)) return CallKind::collective;
    return CallKind::local;
}

Waits collective_waits(uint8_t operation) {
    switch (operation) {
        case OTF2_COLLECTIVE_OP_BCAST:
        case OTF2_COLLECTIVE_OP_SCATTER:
        case OTF2_COLLECTIVE_OP_SCATTERV:
            return Waits::for_root;
        case OTF2_COLLECTIVE_OP_GATHER:
        case OTF2_COLLECTIVE_OP_GATHERV:
        case OTF2_COLLECTIVE_OP_REDUCE:
            return Waits::root_for_all;
        case OTF2_COLLECTIVE_OP_SCAN:
        case OTF2_COLLECTIVE_OP_EXSCAN:
            return Waits::for_lower;
        case OTF2_COLLECTIVE_OP_BARRIER:
        case OTF2_COLLECTIVE_OP_ALLREDUCE:
        case OTF2_COLLECTIVE_OP_ALLGATHER:
        case OTF2_COLLECTIVE_OP_ALLTOALL:
        case OTF2_COLLECTIVE_OP_REDUCE_SCATTER_BLOCK:
        case OTF2_COLLECTIVE_OP_CREATE_HANDLE:
        case OTF2_COLLECTIVE_OP_CREATE_HANDLE_AND_ALLOCATE:
            return Waits::for_all;
        case OTF2_COLLECTIVE_OP_ALLGATHERV:
        case OTF2_COLLECTIVE_OP_ALLTOALLV:
        case OTF2_COLLECTIVE_OP_ALLTOALLW:
        case OTF2_COLLECTIVE_OP_REDUCE_SCATTER:
        case OTF2_COLLECTIVE_OP_DESTROY_HANDLE:
        case OTF2_COLLECTIVE_OP_DESTROY_HANDLE_AND_DEALLOCATE:
        case OTF2_COLLECTIVE_OP_ALLOCATE:
        case OTF2_COLLECTIVE_OP_DEALLOCATE:
        case operation_init:
        case operation_finalize:
            return Waits::for_all_likely;
        default:
            return Waits::for_nobody;
    }
}

}  // namespace polter::replay
