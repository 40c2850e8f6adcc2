// SPDX-License-Identifier: BSD-3-Clause
// Reads a sealed archive and prints what is in it as JSON, rank by rank, in the shape that programs/count.c writes; and checks what
// must hold in every trace: calls nest and match, times never run backward, all of a call's records lie in it, a request is begun
// before it completes and completes once, what was sent was received.
//
//     trace_counts EXPERIMENT       seals it first if needed
#include <fmt/format.h>
#include <otf2/otf2.h>

#include <filesystem>
#include <map>
#include <mpi_regions.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "../../tracer/conventions.hpp"
#include "seal.hpp"
#include "trace_neighbours.hpp"

namespace {

using nlohmann::ordered_json;

struct Tally {
    uint64_t calls = 0, sent = 0, received = 0;
};

struct Rank {
    uint64_t sends = 0, sent_bytes = 0, receives = 0, received_bytes = 0;
    std::map<int, Tally> collectives;
    std::map<std::string, Tally> others;           // of windows and files
    std::map<uint64_t, uint64_t> open_operations;  // one-sided: window of each matching id
    std::map<std::string, uint64_t> calls, attributes;
    std::map<uint64_t, std::pair<uint64_t, uint64_t>> metrics;                       // class: first and last value
    uint64_t metric_records = 0, tests = 0, cancelled = 0, locations = 0, read = 0;  // locations with calls; all that were read
    // A request may be begun in one thread and completed in another, so these are of the rank.
    std::map<uint64_t, char> open;  // request: what began it
    std::vector<uint64_t> completed_early;
};

struct Reading {
    std::map<uint64_t, Rank> ranks;
    std::vector<std::string> problems;
    std::map<uint32_t, uint64_t> per_comm_sends, per_comm_receives;
    std::map<std::tuple<uint32_t, uint32_t, uint32_t, bool>, int64_t> notices;  // window, from, to, of a post: out less in
    // of the location being read
    Rank* rank = nullptr;
    uint64_t location = 0, last = 0;
    std::vector<uint32_t> stack;
    bool in_collective = false, called = false;

    void problem(const std::string& text) {
        if (problems.size() < 50) problems.push_back(fmt::format("location {}: {}", location, text));
    }
};

// What every record goes through. `inside`: it must lie in a call.
Reading& record(void* data, OTF2_TimeStamp time, OTF2_AttributeList* attributes, bool inside) {
    auto& r = *static_cast<Reading*>(data);
    if (time < r.last) r.problem(fmt::format("time runs from {} back to {}", r.last, time));
    r.last = time;
    if (inside && r.stack.size() != 1) r.problem("a record outside a call");
    for (uint32_t i = 0; i < OTF2_AttributeList_GetNumberOfElements(attributes); i++) {
        OTF2_AttributeRef id;
        OTF2_Type type;
        OTF2_AttributeValue value;
        if (OTF2_AttributeList_GetAttributeByIndex(attributes, i, &id, &type, &value) != OTF2_SUCCESS ||
            id >= polter::trace::attribute_count) {
            r.problem("an unknown attribute");
            continue;
        }
        std::string name = polter::trace::attribute_names[id];
        if (id == polter::trace::attribute_mode) name += fmt::format("={}", value.uint8);
        r.rank->attributes[name]++;
    }
    return r;
}

void begin(Reading& r, uint64_t request, char kind) {
    if (!r.rank->open.emplace(request, kind).second) r.problem(fmt::format("request {} is begun twice", request));
}

void complete(Reading& r, uint64_t request, char kind) {
    const auto at = r.rank->open.find(request);
    if (at == r.rank->open.end()) {
        r.rank->completed_early.push_back(request);  // begun in another thread's location, which may be read later
        return;
    }
    if (kind && at->second != kind) r.problem(fmt::format("request {} was begun as {} and completed as {}", request, at->second, kind));
    r.rank->open.erase(at);
}

void sent(Reading& r, uint32_t comm, uint64_t bytes) {
    r.rank->sends++;
    r.rank->sent_bytes += bytes;
    r.per_comm_sends[comm] += bytes;
}

void received(Reading& r, uint32_t comm, uint64_t bytes) {
    r.rank->receives++;
    r.rank->received_bytes += bytes;
    r.per_comm_receives[comm] += bytes;
}

void collective(Reading& r, OTF2_CollectiveOp op, uint64_t sent_bytes, uint64_t received_bytes) {
    Tally& tally = r.rank->collectives[op];
    tally.calls++;
    tally.sent += sent_bytes;
    tally.received += received_bytes;
}

constexpr auto ok = OTF2_CALLBACK_SUCCESS;
#define CALLBACK(name, ...)                                                             \
    OTF2_CallbackCode name(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* data, \
                           OTF2_AttributeList* attributes __VA_OPT__(, ) __VA_ARGS__)

// Barriers of OpenMP and regions of the program are no calls of MPI.
bool is_call(OTF2_RegionRef region) {
    return region < polter::trace::region_count;
}

CALLBACK(on_enter, OTF2_RegionRef region) {
    Reading& r = record(data, time, attributes, false);
    if (!is_call(region)) return ok;
    r.called = true;
    if (!r.stack.empty()) r.problem("a call within a call");
    r.stack.push_back(region);
    r.rank->calls[polter::trace::regions[region].name]++;
    return ok;
}
CALLBACK(on_leave, OTF2_RegionRef region) {
    const bool on_comm = attributes && OTF2_AttributeList_TestAttributeByID(attributes, polter::trace::attribute_comm) &&
                         !OTF2_AttributeList_TestAttributeByID(attributes, polter::trace::attribute_source);
    Reading& r = record(data, time, attributes, false);
    if (!is_call(region)) return ok;
    if (on_comm) {
        const bool file = std::string(polter::trace::regions[region].name).starts_with("MPI_File_");
        r.rank->others[file ? "FILE" : "NEIGHBOURHOOD"].calls++;
    }
    if (r.stack.empty() || r.stack.back() != region)
        r.problem(fmt::format("leaves {}, which it is not in", polter::trace::regions[region].name));
    else
        r.stack.pop_back();
    if (r.in_collective) r.problem("leaves a collective that has not ended");
    return ok;
}
CALLBACK(on_send, uint32_t, OTF2_CommRef comm, uint32_t, uint64_t bytes) {
    sent(record(data, time, attributes, true), comm, bytes);
    return ok;
}
CALLBACK(on_isend, uint32_t, OTF2_CommRef comm, uint32_t, uint64_t bytes, uint64_t request) {
    Reading& r = record(data, time, attributes, true);
    sent(r, comm, bytes);
    begin(r, request, 's');
    return ok;
}
CALLBACK(on_isend_complete, uint64_t request) {
    complete(record(data, time, attributes, true), request, 's');
    return ok;
}
CALLBACK(on_recv, uint32_t, OTF2_CommRef comm, uint32_t, uint64_t bytes) {
    received(record(data, time, attributes, true), comm, bytes);
    return ok;
}
CALLBACK(on_irecv_request, uint64_t request) {
    begin(record(data, time, attributes, true), request, 'r');
    return ok;
}
CALLBACK(on_irecv, uint32_t, OTF2_CommRef comm, uint32_t, uint64_t bytes, uint64_t request) {
    Reading& r = record(data, time, attributes, true);
    received(r, comm, bytes);
    complete(r, request, 'r');
    return ok;
}
CALLBACK(on_test, uint64_t) {
    record(data, time, attributes, true).rank->tests++;
    return ok;
}
CALLBACK(on_cancelled, uint64_t request) {
    Reading& r = record(data, time, attributes, true);
    r.rank->cancelled++;
    complete(r, request, 0);
    return ok;
}
CALLBACK(on_collective_begin) {
    Reading& r = record(data, time, attributes, true);
    if (r.in_collective) r.problem("a collective in a collective");
    r.in_collective = true;
    return ok;
}
CALLBACK(on_collective_end, OTF2_CollectiveOp op, OTF2_CommRef, uint32_t, uint64_t sent_bytes, uint64_t received_bytes) {
    Reading& r = record(data, time, attributes, true);
    if (!r.in_collective) r.problem("a collective ends that has not begun");
    r.in_collective = false;
    collective(r, op, sent_bytes, received_bytes);
    return ok;
}
CALLBACK(on_collective_request, uint64_t request) {
    begin(record(data, time, attributes, true), request, 'c');
    return ok;
}
CALLBACK(on_collective_complete, OTF2_CollectiveOp op, OTF2_CommRef, uint32_t, uint64_t sent_bytes, uint64_t received_bytes,
         uint64_t request) {
    Reading& r = record(data, time, attributes, true);
    if (op == polter::trace::operation_neighbours || op == polter::trace::operation_file)
        r.rank->others[op == polter::trace::operation_file ? "FILE_REQUEST" : "NEIGHBOURHOOD_REQUEST"].calls++;
    else
        collective(r, op, sent_bytes, received_bytes);
    complete(r, request, 'c');
    return ok;
}
const char* name_of(int op) {
    static const char* const names[] = {"BARRIER",
                                        "BCAST",
                                        "GATHER",
                                        "GATHERV",
                                        "SCATTER",
                                        "SCATTERV",
                                        "ALLGATHER",
                                        "ALLGATHERV",
                                        "ALLTOALL",
                                        "ALLTOALLV",
                                        "ALLTOALLW",
                                        "ALLREDUCE",
                                        "REDUCE",
                                        "REDUCE_SCATTER",
                                        "SCAN",
                                        "EXSCAN",
                                        "REDUCE_SCATTER_BLOCK",
                                        "CREATE_HANDLE",
                                        "DESTROY_HANDLE",
                                        "ALLOCATE",
                                        "DEALLOCATE",
                                        "CREATE_HANDLE_AND_ALLOCATE",
                                        "DESTROY_HANDLE_AND_DEALLOCATE"};
    return op < static_cast<int>(std::size(names)) ? names[op] : "?";
}

// One-sided communication. Notices are counted pair by pair: what goes out comes in at the other side.
Tally& other(Reading& r, const std::string& name) {
    Tally& tally = r.rank->others[name];
    tally.calls++;
    return tally;
}
std::string calling(const Reading& r) {
    return r.stack.empty() ? "" : polter::trace::regions[r.stack.back()].name;
}
CALLBACK(on_window_end, OTF2_CollectiveOp op, OTF2_RmaSyncLevel level, OTF2_RmaWinRef, uint32_t, uint64_t, uint64_t) {
    Reading& r = record(data, time, attributes, true);
    if (!r.in_collective) r.problem("a window's collective ends that has not begun");
    r.in_collective = false;
    other(r, std::string("RMA_") + name_of(op) + (level & OTF2_RMA_SYNC_LEVEL_PROCESS ? "" : "_APART"));
    return ok;
}
CALLBACK(on_window_create, OTF2_RmaWinRef) {
    other(record(data, time, attributes, true), "WINDOW_CREATE");
    return ok;
}
CALLBACK(on_window_destroy, OTF2_RmaWinRef) {
    other(record(data, time, attributes, true), "WINDOW_DESTROY");
    return ok;
}
CALLBACK(on_sync, OTF2_RmaWinRef window, uint32_t remote, OTF2_RmaSyncType type) {
    Reading& r = record(data, time, attributes, true);
    const bool out = type == OTF2_RMA_SYNC_TYPE_NOTIFY_OUT;
    other(r, out ? "NOTIFY_OUT" : "NOTIFY_IN");
    const std::string call = calling(r);
    if (!out && call == "MPI_Win_start") return ok;  // it asks for what the complete takes
    const bool post = call == "MPI_Win_post" || (call == "MPI_Win_complete" && !out);
    const auto self = static_cast<uint32_t>(polter::trace::rank_of(r.location));
    // The windows of this test's groups span the world: ranks in them are world ranks.
    r.notices[{window, out ? self : remote, out ? remote : self, post}] += out ? 1 : -1;
    return ok;
}
CALLBACK(on_lock_request, OTF2_RmaWinRef, uint32_t, uint64_t, OTF2_LockType) {
    record(data, time, attributes, true);
    return ok;
}
CALLBACK(on_lock, OTF2_RmaWinRef, uint32_t, uint64_t, OTF2_LockType type) {
    other(record(data, time, attributes, true), type == OTF2_LOCK_EXCLUSIVE ? "LOCK_EXCLUSIVE" : "LOCK_SHARED");
    return ok;
}
CALLBACK(on_unlock, OTF2_RmaWinRef, uint32_t, uint64_t) {
    other(record(data, time, attributes, true), "UNLOCK");
    return ok;
}
void operate(Reading& r, const char* name, OTF2_RmaWinRef window, uint64_t bytes, uint64_t id) {
    other(r, name).sent += bytes;
    const auto at = r.rank->open_operations.emplace(id, window).first;
    if (at->second != window) r.problem(fmt::format("matching id {} is of two windows", id));
}
CALLBACK(on_put, OTF2_RmaWinRef window, uint32_t, uint64_t bytes, uint64_t id) {
    operate(record(data, time, attributes, true), "PUT", window, bytes, id);
    return ok;
}
CALLBACK(on_get, OTF2_RmaWinRef window, uint32_t, uint64_t bytes, uint64_t id) {
    operate(record(data, time, attributes, true), "GET", window, bytes, id);
    return ok;
}
CALLBACK(on_atomic, OTF2_RmaWinRef window, uint32_t, OTF2_RmaAtomicType type, uint64_t sent, uint64_t received, uint64_t id) {
    Reading& r = record(data, time, attributes, true);
    const char* name = type == OTF2_RMA_ATOMIC_TYPE_ACCUMULATE         ? "ACCUMULATE"
                       : type == OTF2_RMA_ATOMIC_TYPE_COMPARE_AND_SWAP ? "SWAP"
                                                                       : "FETCH";
    operate(r, name, window, sent, id);
    if (received != (type == OTF2_RMA_ATOMIC_TYPE_ACCUMULATE ? 0 : sent)) r.problem(fmt::format("{} gets {} bytes", name, received));
    return ok;
}
void operation_ends(Reading& r, OTF2_RmaWinRef window, uint64_t id) {
    const auto at = r.rank->open_operations.find(id);
    if (at == r.rank->open_operations.end() || at->second != window)
        r.problem(fmt::format("matching id {} completes and was not begun on that window", id));
    else
        r.rank->open_operations.erase(at);
}
CALLBACK(on_operation_end, OTF2_RmaWinRef window, uint64_t id) {
    operation_ends(record(data, time, attributes, true), window, id);
    return ok;
}
CALLBACK(on_request_end, OTF2_RmaWinRef window, uint64_t id) {
    Reading& r = record(data, time, attributes, true);
    other(r, "REQUEST_COMPLETE");
    operation_ends(r, window, id);
    return ok;
}
CALLBACK(on_request_test, OTF2_RmaWinRef window, uint64_t id) {
    Reading& r = record(data, time, attributes, true);
    const auto at = r.rank->open_operations.find(id);
    if (at == r.rank->open_operations.end() || at->second != window) r.problem(fmt::format("matching id {} is tested and not open", id));
    other(r, "REQUEST_TEST");
    return ok;
}
CALLBACK(on_metric, OTF2_MetricRef metric, uint8_t, const OTF2_Type*, const OTF2_MetricValue* values) {
    Reading& r = record(data, time, attributes, false);
    r.rank->metric_records++;
    const auto [at, fresh] = r.rank->metrics.try_emplace(metric, values->unsigned_int, values->unsigned_int);
    if (!fresh && values->unsigned_int < at->second.second && r.rank->read == 1) r.problem("an accumulated metric falls");
    at->second.second = values->unsigned_int;
    return ok;
}

OTF2_CallbackCode on_location(void* data, OTF2_LocationRef id, OTF2_StringRef, OTF2_LocationType, uint64_t, OTF2_LocationGroupRef) {
    static_cast<std::vector<uint64_t>*>(data)->push_back(id);
    return ok;
}

bool read(const std::string& anchor, Reading& r) {
    OTF2_Reader* reader = OTF2_Reader_Open(anchor.c_str());
    if (!reader) return false;
    OTF2_Reader_SetSerialCollectiveCallbacks(reader);
    std::vector<uint64_t> locations;
    uint64_t n = 0;
    OTF2_GlobalDefReader* definitions = OTF2_Reader_GetGlobalDefReader(reader);
    OTF2_GlobalDefReaderCallbacks* wanted = OTF2_GlobalDefReaderCallbacks_New();
    OTF2_GlobalDefReaderCallbacks_SetLocationCallback(wanted, on_location);
    OTF2_Reader_RegisterGlobalDefCallbacks(reader, definitions, wanted, &locations);
    bool good = OTF2_Reader_ReadAllGlobalDefinitions(reader, definitions, &n) == OTF2_SUCCESS;
    OTF2_GlobalDefReaderCallbacks_Delete(wanted);
    for (uint64_t location : locations) OTF2_Reader_SelectLocation(reader, location);
    const bool has_definitions = OTF2_Reader_OpenDefFiles(reader) == OTF2_SUCCESS;
    good = OTF2_Reader_OpenEvtFiles(reader) == OTF2_SUCCESS && good;

    OTF2_EvtReaderCallbacks* callbacks = OTF2_EvtReaderCallbacks_New();
    OTF2_EvtReaderCallbacks_SetEnterCallback(callbacks, on_enter);
    OTF2_EvtReaderCallbacks_SetLeaveCallback(callbacks, on_leave);
    OTF2_EvtReaderCallbacks_SetMpiSendCallback(callbacks, on_send);
    OTF2_EvtReaderCallbacks_SetMpiIsendCallback(callbacks, on_isend);
    OTF2_EvtReaderCallbacks_SetMpiIsendCompleteCallback(callbacks, on_isend_complete);
    OTF2_EvtReaderCallbacks_SetMpiRecvCallback(callbacks, on_recv);
    OTF2_EvtReaderCallbacks_SetMpiIrecvRequestCallback(callbacks, on_irecv_request);
    OTF2_EvtReaderCallbacks_SetMpiIrecvCallback(callbacks, on_irecv);
    OTF2_EvtReaderCallbacks_SetMpiRequestTestCallback(callbacks, on_test);
    OTF2_EvtReaderCallbacks_SetMpiRequestCancelledCallback(callbacks, on_cancelled);
    OTF2_EvtReaderCallbacks_SetMpiCollectiveBeginCallback(callbacks, on_collective_begin);
    OTF2_EvtReaderCallbacks_SetMpiCollectiveEndCallback(callbacks, on_collective_end);
    OTF2_EvtReaderCallbacks_SetNonBlockingCollectiveRequestCallback(callbacks, on_collective_request);
    OTF2_EvtReaderCallbacks_SetNonBlockingCollectiveCompleteCallback(callbacks, on_collective_complete);
    OTF2_EvtReaderCallbacks_SetRmaCollectiveBeginCallback(callbacks, on_collective_begin);
    OTF2_EvtReaderCallbacks_SetRmaCollectiveEndCallback(callbacks, on_window_end);
    OTF2_EvtReaderCallbacks_SetRmaWinCreateCallback(callbacks, on_window_create);
    OTF2_EvtReaderCallbacks_SetRmaWinDestroyCallback(callbacks, on_window_destroy);
    OTF2_EvtReaderCallbacks_SetRmaSyncCallback(callbacks, on_sync);
    OTF2_EvtReaderCallbacks_SetRmaRequestLockCallback(callbacks, on_lock_request);
    OTF2_EvtReaderCallbacks_SetRmaAcquireLockCallback(callbacks, on_lock);
    OTF2_EvtReaderCallbacks_SetRmaReleaseLockCallback(callbacks, on_unlock);
    OTF2_EvtReaderCallbacks_SetRmaPutCallback(callbacks, on_put);
    OTF2_EvtReaderCallbacks_SetRmaGetCallback(callbacks, on_get);
    OTF2_EvtReaderCallbacks_SetRmaAtomicCallback(callbacks, on_atomic);
    OTF2_EvtReaderCallbacks_SetRmaOpCompleteRemoteCallback(callbacks, on_operation_end);
    OTF2_EvtReaderCallbacks_SetRmaOpCompleteNonBlockingCallback(callbacks, on_request_end);
    OTF2_EvtReaderCallbacks_SetRmaOpTestCallback(callbacks, on_request_test);
    OTF2_EvtReaderCallbacks_SetMetricCallback(callbacks, on_metric);
    for (uint64_t location : locations) {
        if (has_definitions)
            if (OTF2_DefReader* local = OTF2_Reader_GetDefReader(reader, location)) {
                OTF2_Reader_ReadAllLocalDefinitions(reader, local, &n);
                OTF2_Reader_CloseDefReader(reader, local);
            }
        r.location = location;
        r.rank = &r.ranks[polter::trace::rank_of(location)];
        r.rank->read++;
        r.called = false;
        r.last = 0;
        r.stack.clear();
        r.in_collective = false;
        OTF2_EvtReader* events = OTF2_Reader_GetEvtReader(reader, location);
        OTF2_Reader_RegisterEvtCallbacks(reader, events, callbacks, &r);
        if (OTF2_Reader_ReadAllLocalEvents(reader, events, &n) != OTF2_SUCCESS) r.problem("its events cannot be read to the end");
        if (!r.stack.empty()) r.problem(fmt::format("ends within {}", polter::trace::regions[r.stack.back()].name));
        OTF2_Reader_CloseEvtReader(reader, events);
        r.rank->locations += r.called;  // OpenMP's workers have locations, too
    }
    OTF2_EvtReaderCallbacks_Delete(callbacks);
    OTF2_Reader_Close(reader);
    return good;
}

void add_neighbourhoods(const std::string& anchor, Reading& r) {
    const Neighbourhoods all = read_neighbourhoods(anchor);
    r.problems.insert(r.problems.end(), all.one_sided.begin(), all.one_sided.end());
    for (const auto& [number, rank] : r.ranks)
        if ((rank.others.contains("NEIGHBOURHOOD") || rank.others.contains("NEIGHBOURHOOD_REQUEST")) && all.exchanges == 0)
            r.problems.push_back("neighbourhoods without neighbours");
}

ordered_json result(Reading& r) {
    ordered_json ranks = ordered_json::object();
    for (auto& [number, rank] : r.ranks) {
        for (uint64_t request : rank.completed_early)
            if (!rank.open.erase(request))
                r.problems.push_back(fmt::format("rank {}: request {} completes and never began, or twice", number, request));
        ordered_json collectives = ordered_json::object(), metrics = ordered_json::object();
        for (const auto& [op, tally] : rank.collectives)
            collectives[name_of(op)] = {{"calls", tally.calls}, {"sent", tally.sent}, {"received", tally.received}};
        for (const auto& [name, tally] : rank.others)
            collectives[name] = {{"calls", tally.calls}, {"sent", tally.sent}, {"received", tally.received}};
        if (!rank.open_operations.empty())
            r.problems.push_back(fmt::format("rank {}: {} one-sided operations never complete", number, rank.open_operations.size()));
        for (const auto& [id, values] : rank.metrics) metrics[std::to_string(id)] = values.second - values.first;
        ranks[std::to_string(number)] = {{"sends", rank.sends},
                                         {"sent_bytes", rank.sent_bytes},
                                         {"receives", rank.receives},
                                         {"received_bytes", rank.received_bytes},
                                         {"collectives", collectives},
                                         {"calls", rank.calls},
                                         {"attributes", rank.attributes},
                                         {"metric_records", rank.metric_records},
                                         {"metrics", metrics},
                                         {"tests", rank.tests},
                                         {"cancelled", rank.cancelled},
                                         {"locations", rank.locations},
                                         {"open_requests", rank.open.size()}};
    }
    for (const auto& [comm, bytes] : r.per_comm_sends)
        if (r.per_comm_receives[comm] != bytes)
            r.problems.push_back(fmt::format("communicator {}: {} bytes sent, {} received", comm, bytes, r.per_comm_receives[comm]));
    for (const auto& [notice, left] : r.notices)
        if (left != 0)
            r.problems.push_back(fmt::format("window {}: {} notices too many from {} to {}", std::get<0>(notice), left, std::get<1>(notice),
                                             std::get<2>(notice)));
    return {{"ranks", ranks}, {"problems", r.problems}};
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 2) {
        fmt::print(stderr, "usage: trace_counts EXPERIMENT\n");
        return 2;
    }
    const std::filesystem::path experiment = argv[1];
    std::vector<std::string> warnings;
    if (!polter::seal::is_sealed(experiment)) {
        const auto report = polter::seal::seal({experiment, "test"});
        warnings = report.warnings;
        for (uint32_t rank : report.unfinished) warnings.push_back(fmt::format("rank {} unfinished", rank));
    }
    Reading reading;
    if (!read(experiment / "traces.otf2", reading)) {
        fmt::print(stderr, "{}: cannot be read\n", argv[1]);
        return 1;
    }
    add_neighbourhoods(experiment / "traces.otf2", reading);
    ordered_json out = result(reading);
    out["warnings"] = warnings;
    fmt::print("{}\n", out.dump(1));
    return 0;
} catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
}
