// SPDX-License-Identifier: BSD-3-Clause
// Prints docs/support-matrix.md: of each MPI function what the trace has of a call (by its class in functions.txt) and what the replay
// takes it to wait for (by the replay's own table of calls). Fails where a class or a kind has no text here.
#include <fmt/format.h>
#include <otf2/otf2.h>

#include <cstdio>
#include <map>
#include <mpi_regions.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "replay/trace/mpi_calls.hpp"

namespace {

using namespace polter;
using replay::CallKind;

const std::map<std::string, std::string> recorded_by_class{
    {"plain", "Enter, Leave"},
    {"waiting", "Enter, Leave"},
    {"pcontrol", "Enter, Leave, the level"},
    {"init", "Enter, Leave"},
    {"finalize", "Enter, Leave"},
    {"send", "MpiSend"},
    {"recv", "MpiRecv"},
    {"sendrecv", "MpiSend, MpiRecv"},
    {"isend", "MpiIsend"},
    {"irecv", "MpiIrecvRequest"},
    {"isendrecv", "MpiIsend, MpiIrecvRequest"},
    {"send_init", "Enter, Leave; the rest at its start"},
    {"recv_init", "Enter, Leave; the rest at its start"},
    {"psend_init", "Enter, Leave; the rest where its parts are ready"},
    {"precv_init", "Enter, Leave; the rest at its start"},
    {"pready", "MpiIsend with the last part"},
    {"pready_range", "MpiIsend with the last part"},
    {"pready_list", "MpiIsend with the last part"},
    {"parrived", "the message, or MpiRequestTest"},
    {"start", "MpiIsend or MpiIrecvRequest"},
    {"startall", "MpiIsend, MpiIrecvRequest"},
    {"irequest", "Enter, Leave"},
    {"request_init", "Enter, Leave"},
    {"wait", "what it completes"},
    {"waitall", "what it completes"},
    {"waitany", "what it completes"},
    {"waitsome", "what it completes"},
    {"test", "what it completes, or MpiRequestTest"},
    {"testall", "what it completes, or MpiRequestTest"},
    {"testany", "what it completes, or MpiRequestTest"},
    {"testsome", "what it completes, or MpiRequestTest"},
    {"request_get_status", "MpiRequestTest where it is not complete"},
    {"request_free", "MpiIsendComplete of a send"},
    {"cancel", "Enter, Leave; MpiRequestCancelled at the completion"},
    {"probe", "the message found"},
    {"iprobe", "the message found"},
    {"mprobe", "the message found"},
    {"improbe", "the message found"},
    {"mrecv", "MpiRecv"},
    {"imrecv", "MpiIrecvRequest"},
    {"collective", "MpiCollectiveBegin, MpiCollectiveEnd"},
    {"icollective", "NonBlockingCollectiveRequest"},
    {"collective_init", "Enter, Leave; the rest at its start"},
    {"comm_create", "MpiCollectiveBegin, MpiCollectiveEnd on the parent"},
    {"comm_create_group", "MpiCollectiveBegin, MpiCollectiveEnd on the new communicator"},
    {"comm_idup", "NonBlockingCollectiveRequest"},
    {"comm_free", "MpiCollectiveBegin, MpiCollectiveEnd"},
    {"comm_name", "Enter, Leave, the name"},
    {"win_create", "RmaCollectiveBegin, RmaWinCreate, RmaCollectiveEnd"},
    {"win_free", "RmaCollectiveBegin, RmaWinDestroy, RmaCollectiveEnd"},
    {"win_fence", "RmaCollectiveBegin, RmaCollectiveEnd"},
    {"win_post", "RmaSync"},
    {"win_start", "RmaSync"},
    {"win_complete", "RmaSync"},
    {"win_wait", "RmaSync"},
    {"win_test", "RmaSync where it succeeds"},
    {"win_lock", "RmaRequestLock, RmaAcquireLock"},
    {"win_lock_all", "RmaRequestLock, RmaAcquireLock"},
    {"win_unlock", "RmaReleaseLock, RmaOpCompleteRemote"},
    {"win_unlock_all", "RmaReleaseLock, RmaOpCompleteRemote"},
    {"win_flush", "RmaOpCompleteRemote"},
    {"win_flush_all", "RmaOpCompleteRemote"},
    {"win_name", "Enter, Leave, the name"},
    {"rma", "RmaPut, RmaGet or RmaAtomic"},
    {"rma_one", "RmaAtomic"},
    {"rma_request", "RmaPut, RmaGet or RmaAtomic"},
    {"file_open", "the communicator"},
    {"file_collective", "the communicator"},
    {"file_request", "NonBlockingCollectiveRequest"},
    {"file_close", "the communicator"},
    {"neighbour_collective", "the communicator"},
    {"neighbour_request", "NonBlockingCollectiveRequest"},
    {"neighbour_init", "Enter, Leave; the rest at its start"},
};

const std::map<std::string, OTF2_CollectiveOp> operations{
    {"barrier", OTF2_COLLECTIVE_OP_BARRIER},
    {"bcast", OTF2_COLLECTIVE_OP_BCAST},
    {"gather", OTF2_COLLECTIVE_OP_GATHER},
    {"gatherv", OTF2_COLLECTIVE_OP_GATHERV},
    {"scatter", OTF2_COLLECTIVE_OP_SCATTER},
    {"scatterv", OTF2_COLLECTIVE_OP_SCATTERV},
    {"allgather", OTF2_COLLECTIVE_OP_ALLGATHER},
    {"allgatherv", OTF2_COLLECTIVE_OP_ALLGATHERV},
    {"alltoall", OTF2_COLLECTIVE_OP_ALLTOALL},
    {"alltoallv", OTF2_COLLECTIVE_OP_ALLTOALLV},
    {"alltoallw", OTF2_COLLECTIVE_OP_ALLTOALLW},
    {"allreduce", OTF2_COLLECTIVE_OP_ALLREDUCE},
    {"reduce", OTF2_COLLECTIVE_OP_REDUCE},
    {"reduce_scatter", OTF2_COLLECTIVE_OP_REDUCE_SCATTER},
    {"reduce_scatter_block", OTF2_COLLECTIVE_OP_REDUCE_SCATTER_BLOCK},
    {"scan", OTF2_COLLECTIVE_OP_SCAN},
    {"exscan", OTF2_COLLECTIVE_OP_EXSCAN},
};

std::string waits_text(replay::Waits waits) {
    switch (waits) {
        case replay::Waits::n_to_n:
            return "the last arrival";
        case replay::Waits::n_to_n_likely:
            return "the last arrival before its own leave";
        case replay::Waits::one_to_n:
            return "the root";
        case replay::Waits::n_to_one:
            return "the root waits for all";
        case replay::Waits::prefix:
            return "all lower ranks";
        case replay::Waits::for_nobody:
            return "nobody";
    }
    throw std::logic_error("a kind of waiting without a text");
}

// Where its records alone decide (CallKind::local).
std::string by_records(const trace::Region& region) {
    static const std::map<std::string, std::string> texts{
        {"send", "nobody while eager; else the receive"},
        {"recv", "its message"},
        {"sendrecv", "its message and its send"},
        {"isend", "nobody; at its Wait as a send"},
        {"irecv", "nobody; at its Wait its message"},
        {"isendrecv", "nobody; at its Wait both"},
        {"start", "nobody"},
        {"startall", "nobody"},
        {"pready", "nobody"},
        {"pready_range", "nobody"},
        {"pready_list", "nobody"},
        {"request_free", "nobody"},
        {"cancel", "nobody"},
        {"rma", "nobody; see the call that synchronises"},
        {"rma_one", "nobody; see the call that synchronises"},
        {"rma_request", "nobody; at its Wait its transfer"},
    };
    const auto at = texts.find(region.semantic);
    return at == texts.end() ? "nobody" : at->second;
}

std::string rule(const trace::Region& region) {
    const CallKind kind = replay::call_kind(region.name, true);
    const bool unrecorded = region.recorded != trace::Recorded::everything;
    const std::string semantic = region.semantic;
    switch (kind) {
        case CallKind::not_mpi:
        case CallKind::thread_wait:
        case CallKind::thread_lock:
        case CallKind::thread_condition:
        case CallKind::thread_task:
        case CallKind::thread_barrier:
        case CallKind::thread_dynamic_barrier:
        case CallKind::thread_idle:
        case CallKind::thread_join:
            throw std::logic_error(fmt::format("{} is no function of MPI to the replay", region.name));
        case CallKind::local:
        case CallKind::partitioned_init:
            return by_records(region);
        case CallKind::poll:
        case CallKind::poll_any:
            return "with its polling loop: until it succeeds";
        case CallKind::poll_matched:
            return "with its polling loop: until the message is there";
        case CallKind::probe:
        case CallKind::matched_probe:
            return "the message found";
        case CallKind::matched_receive:
            return semantic == "imrecv" ? "nobody; at its Wait its message" : "its message";
        case CallKind::synchronous_send:
            return semantic == "isend" ? "nobody; at its Wait the receive" : "the receive";
        case CallKind::init:
        case CallKind::finalize:
            return "the last arrival before its own leave";
        case CallKind::collective:
            return waits_text(replay::collective_waits(static_cast<uint8_t>(operations.at(region.detail))));
        case CallKind::wait:
        case CallKind::wait_any:
            return "all that it completes";
        case CallKind::win_post:
            return "nobody";
        case CallKind::win_start:
        case CallKind::win_complete:
            return "the posts before its own leave";
        case CallKind::win_wait:
            return "the completes";
        case CallKind::window:
            if (semantic == "win_fence")
                return "the last arrival; transfers, where its algorithm is known";
            return semantic == "win_free" ? "the last arrival before its own leave" : "the last arrival";
        case CallKind::file:
            return "members that came before its own leave";
        case CallKind::file_begin:
            return "nobody; see its end";
        case CallKind::file_end:
            return "members that came before its own leave";
        case CallKind::neighbourhood:
            return "in-neighbours that came before its own leave";
        case CallKind::part_arrived:
            return "with its polling loop: the message, or unknown";
        case CallKind::may_wait:
            if (unrecorded) return "unknown: its own work, reported";
            return semantic == "comm_free" ? "the last arrival before its own leave" : "the last arrival";
        case CallKind::begins_unrecorded:
            if (unrecorded || semantic == "irequest") return "nobody; at its Wait unknown, reported";
            if (semantic == "rma_request") return "nobody; at its Wait its transfer";
            return "nobody; its Wait as its blocking form";
        case CallKind::begins_unrecorded_persistent:
            return "nobody; its Wait as its blocking form";
        case CallKind::win_lock:
            return "the unlock of the previous holder";
        case CallKind::win_unlock:
        case CallKind::win_flush:
            return "what it completes";
    }
    throw std::logic_error("a kind of call without a text");
}

// Names separated by commas, in lines of a document's width.
void print_list(const std::vector<std::string>& names) {
    constexpr size_t width = 118;
    std::string line;
    for (size_t i = 0; i < names.size(); i++) {
        const std::string item = fmt::format("`{}`{}", names[i], i + 1 < names.size() ? "," : "");
        if (!line.empty() && line.size() + 1 + item.size() > width) {
            fmt::print("{}\n", line);
            line.clear();
        }
        line += (line.empty() ? "" : " ") + item;
    }
    fmt::print("{}\n", line);
}

void print_functions() {
    std::vector<std::string> local, on_request;
    std::map<std::string, std::vector<std::string>> nothing;
    std::map<std::string, std::string> texts;  // of those that have a row
    std::vector<std::string> order;
    for (const auto& region : trace::regions) {
        const std::string name = region.name;
        if (trace::is_local(region.recorded)) {
            if (rule(region) != "nobody")
                throw std::logic_error(fmt::format("{} is local, and the replay lets it wait: {}", name, rule(region)));
            (region.recorded == trace::Recorded::local ? local : on_request).push_back(name);
        } else if (std::string(region.semantic) == "none") {
            std::string why = region.detail;
            for (char& c : why) c = c == '_' ? ' ' : c;
            nothing[why].push_back(name);
        } else {
            texts[name] = fmt::format("{} | {}", recorded_by_class.at(region.semantic), rule(region));
            order.push_back(name);
        }
    }
    const auto is_form = [&](const std::string& name) {  // of large counts, and the same as the other
        return name.ends_with("_c") && texts.contains(name.substr(0, name.size() - 2)) &&
               texts[name.substr(0, name.size() - 2)] == texts[name];
    };
    fmt::print("## Recorded with what other processes depend on\n\n| function | recorded | waits for |\n|---|---|---|\n");
    for (const auto& name : order) {
        if (is_form(name)) continue;
        const bool both = texts.contains(name + "_c") && is_form(name + "_c");
        fmt::print("| `{}`{} | {} |\n", name, both ? ", `_c`" : "", texts[name]);
    }
    fmt::print("\n## Local\n\nEnter and Leave; nobody waits.\n\n");
    print_list(local);
    fmt::print(
        "\n## Local, and recorded only on request\n\n"
        "They cannot wait, neither for a process nor for the system; their time is computation. `polter run --calls all`\n"
        "records their Enter and Leave, `--include` those of single ones.\n\n");
    print_list(on_request);
    for (const auto& [why, names] : nothing) {
        fmt::print("\n## Not recorded: {}\n\n", why);
        print_list(names);
    }
}

}  // namespace

int main() {
    try {
        fmt::print(
            "# Support matrix\n\n"
            "What a trace has of each MPI function, and what the replay takes the call to wait for. Generated from\n"
            "`tracer/mpi/functions.txt` and `replay/trace/mpi_calls.cpp`; the test `support-matrix` compares it with the symbols\n"
            "of the installed MPIs. `POLTER_UPDATE=1 ctest -R support-matrix` writes it anew.\n\n"
            "- All recorded calls have Enter and Leave, with the noise up to then; the records are those of the\n"
            "  [trace format](trace-format.md). `_c`: the form for large counts, the same.\n"
            "- **local**: no other process depends on the call. The replay takes it as computation, so it can be left out\n"
            "  (`polter run --exclude`, `--include`, `--ranks`, `--window`, `MPI_Pcontrol`). Those that cannot wait are left out\n"
            "  unless asked for. All others are always recorded.\n"
            "- The rules in full are in [replay/rules](../replay/rules/README.md). The Fortran names of a function are treated as\n"
            "  the function is.\n"
            "- `MPIX_` extensions of either MPI are not recorded: their time is computation, and messages of theirs are not seen.\n\n");
        print_functions();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "support_matrix: %s\n", error.what());
        return 1;
    }
}
