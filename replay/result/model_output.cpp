// SPDX-License-Identifier: BSD-3-Clause
// What was learned from the trace, as a table and as JSON.
#include <otf2/otf2.h>

#include <array>
#include <nlohmann/json.hpp>

#include "replay/base/layout.hpp"
#include "replay/base/table.hpp"
#include "result.hpp"

namespace polter::replay {

std::string operation_name(uint8_t operation) {
    static constexpr std::pair<uint8_t, const char*> names[] = {{OTF2_COLLECTIVE_OP_BARRIER, "barrier"},
                                                                {OTF2_COLLECTIVE_OP_BCAST, "bcast"},
                                                                {OTF2_COLLECTIVE_OP_GATHER, "gather"},
                                                                {OTF2_COLLECTIVE_OP_GATHERV, "gatherv"},
                                                                {OTF2_COLLECTIVE_OP_SCATTER, "scatter"},
                                                                {OTF2_COLLECTIVE_OP_SCATTERV, "scatterv"},
                                                                {OTF2_COLLECTIVE_OP_ALLGATHER, "allgather"},
                                                                {OTF2_COLLECTIVE_OP_ALLGATHERV, "allgatherv"},
                                                                {OTF2_COLLECTIVE_OP_ALLTOALL, "alltoall"},
                                                                {OTF2_COLLECTIVE_OP_ALLTOALLV, "alltoallv"},
                                                                {OTF2_COLLECTIVE_OP_ALLTOALLW, "alltoallw"},
                                                                {OTF2_COLLECTIVE_OP_ALLREDUCE, "allreduce"},
                                                                {OTF2_COLLECTIVE_OP_REDUCE, "reduce"},
                                                                {OTF2_COLLECTIVE_OP_REDUCE_SCATTER, "reduce_scatter"},
                                                                {OTF2_COLLECTIVE_OP_REDUCE_SCATTER_BLOCK, "reduce_scatter_block"},
                                                                {OTF2_COLLECTIVE_OP_SCAN, "scan"},
                                                                {OTF2_COLLECTIVE_OP_EXSCAN, "exscan"},
                                                                {OTF2_COLLECTIVE_OP_CREATE_HANDLE, "creation"},
                                                                {OTF2_COLLECTIVE_OP_CREATE_HANDLE_AND_ALLOCATE, "allocation"},
                                                                {OTF2_COLLECTIVE_OP_DESTROY_HANDLE, "freeing"},
                                                                {OTF2_COLLECTIVE_OP_DESTROY_HANDLE_AND_DEALLOCATE, "deallocation"},
                                                                {operation_window, "window"},
                                                                {operation_window_free, "window, freeing"},
                                                                {operation_file, "file"},
                                                                {operation_fence_apart, "fence, nothing to end"},
                                                                {operation_fence, "fence"},
                                                                {operation_init, "init"},
                                                                {operation_finalize, "finalize"}};
    for (const auto& [known, name] : names)
        if (known == operation) return name;
    return "operation " + std::to_string(operation);
}

namespace {

constexpr const char* kind_names[] = {"receive after send",   "receive after posting", "wait, all complete",    "send after posting",
                                      "send, receive posted", "collective after last", "collective, root came", "notice after sending",
                                      "notices, all there",   "RMA epoch alone",      "collective, sends"};

bool of_collective(CostKind kind) {
    return kind == CostKind::collective_tail || kind == CostKind::collective_own || kind == CostKind::collective_send;
}

bool of_message(CostKind kind) {
    return kind == CostKind::receive_after_send || kind == CostKind::receive_after_post || kind == CostKind::send_after_post ||
           kind == CostKind::send_own;
}

std::string pair_name(bool same_host, bool partitioned) {
    return std::string(same_host ? "same host" : "between hosts") + (partitioned ? ", partitioned" : "");
}

// What lies between a lock and its unlock is told apart by the call, and sized in what that transfers or completes.
const char* call_of_lock(const CostClass& of) {
    switch (static_cast<CallKind>(of.operation)) {
        case CallKind::win_lock:
            return "lock";
        case CallKind::win_unlock:
            return "unlock";
        case CallKind::win_flush:
            return "flush";
        case CallKind::wait:
            return "wait";
        default:
            return "";
    }
}

bool of_lock(const CostClass& of) {
    return of.kind == CostKind::epoch_own ||
           (of.kind == CostKind::notice_after && of.operation != static_cast<uint16_t>(CallKind::wait) && *call_of_lock(of));
}

std::string where(const CostClass& of) {
    if (of_collective(of.kind)) return operation_name(static_cast<uint8_t>(of.operation & 0xff));
    if (of.kind == CostKind::wait_own) return "";
    if (of_lock(of)) return std::string(call_of_lock(of)) + (of.same_host ? ", same host" : ", between hosts");
    return pair_name(of.same_host, of.operation == partitioned_messages && of_message(of.kind));
}

std::string size_text(const CostClass& of) {
    if (of.kind == CostKind::notice_own) return fmt::format("{} notices", of.size);
    return of.kind == CostKind::wait_own ? fmt::format("{} requests", of.size) : fmt::format("{} B", of.size);
}

std::string verdict(const LearnedProtocol& protocol) {
    if (protocol.late == 0) return "eager";
    return protocol.eager * 50 <= protocol.late ? "waits for its receiver" : "eager";
}

nlohmann::json structure_json(const std::optional<Structure>& structure) {
    if (!structure) return nullptr;
    return {
        {"made_of", to_string(structure->pattern)}, {"hop_ns", structure->hop}, {"own_ns", structure->own}, {"error_ns", structure->error}};
}

}  // namespace

std::string model_to_text(const Learned& model, const TextOptions& options) {
    Table costs({"costs without noise (ns)", "", "size", "samples", "5 %", "median", "95 %"}, {0, 1}, {0, 1}, {6, 4});
    for (const LearnedCost& cost : model.costs)
        costs.add({kind_names[static_cast<size_t>(cost.of.kind)], where(cost.of), size_text(cost.of), std::to_string(cost.samples),
                   std::to_string(cost.cost.low), std::to_string(cost.cost.mid), std::to_string(cost.cost.high)});
    Table protocols({"sends", "from size", "before posting", "after", "taken as"}, {0, 4}, {0, 4});
    for (const LearnedProtocol& protocol : model.protocols)
        protocols.add({pair_name(protocol.same_host, protocol.partitioned), fmt::format("{} B", protocol.size),
                       std::to_string(protocol.eager), std::to_string(protocol.late), verdict(protocol)});
    Table structures({"collective", "ranks", "size", "seen", "algorithm", "L (ns)", "o (ns)", "error (ns)", "of a constant"}, {0, 4},
                     {0, 4}, {8, 3, 7});
    for (const LearnedStructure& learned : model.structures) {
        const bool found = learned.structure.has_value();
        const Structure structure = learned.structure.value_or(Structure{});
        const std::string none = learned.likeliest ? fmt::format("not found ({}?)", to_string(learned.likeliest->pattern)) : "not found";
        structures.add({operation_name(static_cast<uint8_t>(learned.of.operation)), std::to_string(learned.members),
                        fmt::format("{} B", learned.of.size), std::to_string(learned.instances),
                        found ? to_string(structure.pattern) : none, found ? std::to_string(structure.hop) : "-",
                        found ? std::to_string(structure.own) : "-", found ? std::to_string(structure.error) : "-",
                        fmt::format("{:.0f}", learned.constant_error)});
    }
    std::string out = "\nLearned from the trace\n" + costs.text(options.columns);
    if (!model.protocols.empty()) out += "\n" + protocols.text(options.columns);
    if (!model.structures.empty()) out += "\n" + structures.text(options.columns);
    if (model.clock_disorder_ns > 0) out += fmt::format("\n  clocks differ by at least {}\n", short_time(model.clock_disorder_ns));
    return out;
}

nlohmann::json model_to_json(const Learned& model) {
    nlohmann::json costs = nlohmann::json::array(), protocols = costs, structures = costs;
    for (const LearnedCost& cost : model.costs)
        costs.push_back({{"what", kind_names[static_cast<size_t>(cost.of.kind)]},
                         {"where", where(cost.of)},
                         {cost.of.kind == CostKind::wait_own     ? "requests"
                          : cost.of.kind == CostKind::notice_own ? "notices"
                                                                 : "bytes",
                          cost.of.size},
                         {"samples", cost.samples},
                         {"ns", {cost.cost.low, cost.cost.mid, cost.cost.high}}});
    for (const LearnedProtocol& protocol : model.protocols)
        protocols.push_back({{"same_host", protocol.same_host},
                             {"partitioned", protocol.partitioned},
                             {"bytes", protocol.size},
                             {"before_posting", protocol.eager},
                             {"after_posting", protocol.late},
                             {"taken_as", verdict(protocol)}});
    for (const LearnedStructure& learned : model.structures) {
        nlohmann::json row = {{"operation", operation_name(static_cast<uint8_t>(learned.of.operation))},
                              {"members", learned.members},
                              {"bytes", learned.of.size},
                              {"instances", learned.instances},
                              {"constant_error_ns", learned.constant_error},
                              {"structure", structure_json(learned.structure)},
                              {"likeliest", structure_json(learned.likeliest)}};
        structures.push_back(row);
    }
    return {{"costs", costs}, {"protocols", protocols}, {"structures", structures}, {"clock_disorder_ns", model.clock_disorder_ns}};
}

}  // namespace polter::replay
