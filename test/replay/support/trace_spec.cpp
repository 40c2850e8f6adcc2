// SPDX-License-Identifier: BSD-3-Clause
#include "trace_spec.hpp"

#include <otf2/otf2.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <stdexcept>

namespace polter::test {

Record& TraceSpec::add(size_t rank, int64_t time, Record::Kind kind, const std::string& name) {
    Record record;
    record.kind = kind;
    record.time = time;
    record.name = name;
    return records[rank].emplace_back(record);
}

namespace {

OTF2_FlushType flush(void*, OTF2_FileType, OTF2_LocationRef, void*, bool) {
    return OTF2_FLUSH;
}
OTF2_TimeStamp flushed(void*, OTF2_FileType, OTF2_LocationRef) {
    return 0;
}

void check(OTF2_ErrorCode code) {
    if (code != OTF2_SUCCESS) throw std::runtime_error(std::string("writing a test trace: ") + OTF2_Error_GetDescription(code));
}

enum Attribute : uint32_t { culprit, source, tag, comm, mode, ago, partitioned, unlisted, any, polls, last_poll, poll_gap };
constexpr const char* attribute_names[] = {"os:culprit",  "polter:source", "polter:tag",         "polter:comm",
                                           "polter:mode", "polter:ago",    "polter:partitioned", "polter:operation",
                                           "polter:any",  "polter:polls",  "polter:last_poll",   "polter:poll_gap"};
constexpr OTF2_Type attribute_types[] = {OTF2_TYPE_STRING, OTF2_TYPE_INT32,  OTF2_TYPE_INT32,  OTF2_TYPE_COMM,
                                         OTF2_TYPE_UINT8,  OTF2_TYPE_UINT64, OTF2_TYPE_UINT32, OTF2_TYPE_UINT8,
                                         OTF2_TYPE_UINT8,  OTF2_TYPE_UINT32, OTF2_TYPE_UINT64, OTF2_TYPE_UINT64};

struct Writer {
    const TraceSpec& spec;
    OTF2_Archive* archive = nullptr;
    std::map<std::string, uint32_t> strings, regions;
    std::vector<std::string> string_order;
    std::vector<uint64_t> written = {};  // events by rank
    bool used[std::size(attribute_names)] = {};

    uint32_t string(const std::string& text) {
        const auto [at, added] = strings.emplace(text, static_cast<uint32_t>(strings.size()));
        if (added) string_order.push_back(text);
        return at->second;
    }
    uint32_t region(const std::string& name) { return regions.emplace(name, static_cast<uint32_t>(regions.size())).first->second; }
    uint64_t location(size_t rank) const { return spec.first_location + rank * spec.location_step; }

    void noise(OTF2_EvtWriter* events, std::vector<uint64_t>& totals, size_t account, const Record& record) {
        OTF2_AttributeList* list = nullptr;
        if (!record.culprit.empty() || record.ago > 0) list = OTF2_AttributeList_New();
        if (record.ago > 0) OTF2_AttributeList_AddUint64(list, ago, record.ago);
        if (!record.culprit.empty()) {
            OTF2_AttributeList_AddStringRef(list, culprit, string(record.culprit));
        }
        std::vector<OTF2_Type> types;
        std::vector<OTF2_MetricValue> values;
        for (size_t i = spec.one_class ? 0 : account; i < (spec.one_class ? totals.size() : account + 1); ++i) {
            OTF2_MetricValue value;
            value.unsigned_int = totals[i];
            const bool real = spec.accounts[i] == spec.real;
            if (real) value.floating_point = totals[i] == UINT64_MAX ? std::nan("") : static_cast<double>(totals[i]);
            types.push_back(real ? OTF2_TYPE_DOUBLE : OTF2_TYPE_UINT64);
            values.push_back(value);
        }
        check(OTF2_EvtWriter_Metric(events, list, static_cast<uint64_t>(record.time), spec.one_class ? 0 : static_cast<uint32_t>(account),
                                    static_cast<uint8_t>(values.size()), types.data(), values.data()));
        if (list) OTF2_AttributeList_Delete(list);
    }

    OTF2_AttributeList* attributes(const Record& r) {
        if (r.kind == Record::Kind::lock ||
            (!r.posted && !r.wildcard && r.mode == 0 && !r.file_comm && r.partitioned == 0 && r.unlisted == 0 && r.polls == 0))
            return nullptr;
        OTF2_AttributeList* list = OTF2_AttributeList_New();
        if (r.file_comm) OTF2_AttributeList_AddCommRef(list, comm, r.comm);
        if (r.polls != 0) {
            OTF2_AttributeList_AddUint32(list, polls, r.polls);
            OTF2_AttributeList_AddUint64(list, last_poll, r.last_poll);
            OTF2_AttributeList_AddUint64(list, poll_gap, r.poll_gap);
            used[polls] = used[last_poll] = used[poll_gap] = true;
        }
        if (r.partitioned != 0) {
            OTF2_AttributeList_AddUint32(list, partitioned, r.partitioned);
            used[partitioned] = true;
        }
        if (r.unlisted != 0) {
            OTF2_AttributeList_AddUint8(list, unlisted, r.unlisted);
            used[unlisted] = true;
        }
        if (r.mode != 0) OTF2_AttributeList_AddUint8(list, mode, static_cast<uint8_t>(r.mode));
        if (r.posted && r.kind != Record::Kind::collective_request) {
            OTF2_AttributeList_AddInt32(list, source, static_cast<int32_t>(r.peer));
            OTF2_AttributeList_AddInt32(list, tag, static_cast<int32_t>(r.tag));
        }
        if (r.wildcard && r.kind == Record::Kind::leave) {
            OTF2_AttributeList_AddUint8(list, any, 3);
            used[any] = true;
        } else if (r.wildcard) {
            OTF2_AttributeList_AddInt32(list, source, -1);
            OTF2_AttributeList_AddInt32(list, tag, -1);
        }
        if (r.posted) OTF2_AttributeList_AddCommRef(list, comm, r.comm);
        return list;
    }

    void write(OTF2_EvtWriter* events, const Record& r, std::vector<uint64_t>& totals) {
        const auto time = static_cast<uint64_t>(r.time);
        const auto peer = static_cast<uint32_t>(r.peer), tagged = static_cast<uint32_t>(r.tag);
        const auto operation = static_cast<OTF2_CollectiveOp>(r.operation);
        if (r.kind == Record::Kind::noise) {
            for (size_t i = 0; i < spec.accounts.size(); ++i)
                if (spec.accounts[i] == r.name) {
                    totals[i] += static_cast<uint64_t>(r.ns);
                    noise(events, totals, i, r);
                    return;
                }
            throw std::runtime_error("test trace: no account " + r.name);
        }
        OTF2_AttributeList* list = attributes(r);
        switch (r.kind) {
            case Record::Kind::enter:
                check(OTF2_EvtWriter_Enter(events, list, time, region(r.name)));
                break;
            case Record::Kind::leave:
                check(OTF2_EvtWriter_Leave(events, list, time, region(r.name)));
                break;
            case Record::Kind::send:
                check(OTF2_EvtWriter_MpiSend(events, list, time, peer, r.comm, tagged, r.bytes));
                break;
            case Record::Kind::isend:
                check(OTF2_EvtWriter_MpiIsend(events, list, time, peer, r.comm, tagged, r.bytes, r.request));
                break;
            case Record::Kind::isend_complete:
                check(OTF2_EvtWriter_MpiIsendComplete(events, list, time, r.request));
                break;
            case Record::Kind::irecv_request:
                check(OTF2_EvtWriter_MpiIrecvRequest(events, list, time, r.request));
                break;
            case Record::Kind::recv:
                check(OTF2_EvtWriter_MpiRecv(events, list, time, peer, r.comm, tagged, r.bytes));
                break;
            case Record::Kind::irecv:
                check(OTF2_EvtWriter_MpiIrecv(events, list, time, peer, r.comm, tagged, r.bytes, r.request));
                break;
            case Record::Kind::request_test:
                check(OTF2_EvtWriter_MpiRequestTest(events, list, time, r.request));
                break;
            case Record::Kind::cancelled:
                check(OTF2_EvtWriter_MpiRequestCancelled(events, list, time, r.request));
                break;
            case Record::Kind::collective_begin:
                check(OTF2_EvtWriter_MpiCollectiveBegin(events, list, time));
                break;
            case Record::Kind::collective_end:
                check(OTF2_EvtWriter_MpiCollectiveEnd(events, list, time, operation, r.comm, peer, r.bytes, r.bytes));
                break;
            case Record::Kind::collective_request:
                check(OTF2_EvtWriter_NonBlockingCollectiveRequest(events, list, time, r.request));
                break;
            case Record::Kind::collective_complete:
                check(
                    OTF2_EvtWriter_NonBlockingCollectiveComplete(events, list, time, operation, r.comm, peer, r.bytes, r.bytes, r.request));
                break;
            case Record::Kind::window_collective:
                check(OTF2_EvtWriter_RmaCollectiveEnd(events, list, time, operation,
                                                      OTF2_RMA_SYNC_LEVEL_MEMORY | (r.apart ? 0 : OTF2_RMA_SYNC_LEVEL_PROCESS), r.comm,
                                                      OTF2_COLLECTIVE_ROOT_NONE, 0, 0));
                break;
            case Record::Kind::notify_out:
                check(OTF2_EvtWriter_RmaSync(events, list, time, r.comm, peer, OTF2_RMA_SYNC_TYPE_NOTIFY_OUT));
                break;
            case Record::Kind::notify_in:
                check(OTF2_EvtWriter_RmaSync(events, list, time, r.comm, peer, OTF2_RMA_SYNC_TYPE_NOTIFY_IN));
                break;
            case Record::Kind::group_sync:
                check(OTF2_EvtWriter_RmaGroupSync(events, list, time, OTF2_RMA_SYNC_LEVEL_PROCESS, r.comm, peer + 1));
                break;
            case Record::Kind::lock:
                check(OTF2_EvtWriter_RmaRequestLock(events, list, time, r.comm, peer, 0, static_cast<OTF2_LockType>(r.mode)));
                break;
            case Record::Kind::unlock:
                check(OTF2_EvtWriter_RmaReleaseLock(events, list, time, r.comm, peer, 0));
                break;
            case Record::Kind::put:
                check(OTF2_EvtWriter_RmaPut(events, list, time, r.comm, peer, r.bytes, r.request));
                break;
            case Record::Kind::rma_complete:
                check(OTF2_EvtWriter_RmaOpCompleteRemote(events, list, time, r.comm, r.request));
                break;
            case Record::Kind::rma_request_complete:
                check(OTF2_EvtWriter_RmaOpCompleteNonBlocking(events, list, time, r.comm, r.request));
                break;
            case Record::Kind::fork:
                check(OTF2_EvtWriter_ThreadFork(events, list, time, OTF2_PARADIGM_OPENMP, 2));
                break;
            case Record::Kind::join:
                check(OTF2_EvtWriter_ThreadJoin(events, list, time, OTF2_PARADIGM_OPENMP));
                break;
            case Record::Kind::team_begin:
                check(OTF2_EvtWriter_ThreadTeamBegin(events, list, time, r.comm));
                break;
            case Record::Kind::team_end:
                check(OTF2_EvtWriter_ThreadTeamEnd(events, list, time, r.comm));
                break;
            case Record::Kind::create:
                check(OTF2_EvtWriter_ThreadCreate(events, list, time, r.comm, r.request));
                break;
            case Record::Kind::thread_begin:
                check(OTF2_EvtWriter_ThreadBegin(events, list, time, r.comm, r.request));
                break;
            case Record::Kind::thread_end:
                check(OTF2_EvtWriter_ThreadEnd(events, list, time, r.comm, r.request));
                break;
            case Record::Kind::thread_wait:
                check(OTF2_EvtWriter_ThreadWait(events, list, time, r.comm, r.request));
                break;
            case Record::Kind::acquire:
                check(OTF2_EvtWriter_ThreadAcquireLock(events, list, time, OTF2_PARADIGM_OPENMP, r.comm, static_cast<uint32_t>(r.request)));
                break;
            case Record::Kind::release:
                check(OTF2_EvtWriter_ThreadReleaseLock(events, list, time, OTF2_PARADIGM_OPENMP, r.comm, static_cast<uint32_t>(r.request)));
                break;
            case Record::Kind::noise:
                break;
        }
        if (list) OTF2_AttributeList_Delete(list);
    }

    void write_events() {
        check(OTF2_Archive_OpenEvtFiles(archive));
        for (size_t rank = 0; rank < spec.ranks(); ++rank) {
            OTF2_EvtWriter* events = OTF2_Archive_GetEvtWriter(archive, location(rank));
            std::vector<uint64_t> totals(spec.accounts.size(), 0);
            if (spec.baseline && !spec.records[rank].empty()) {
                Record first;
                first.time = spec.records[rank].front().time;
                for (size_t i = 0; i < (spec.one_class ? std::min<size_t>(1, totals.size()) : totals.size()); ++i)
                    noise(events, totals, i, first);
            }
            for (const Record& record : spec.records[rank]) write(events, record, totals);
            check(OTF2_EvtWriter_GetNumberOfEvents(events, &written.emplace_back()));
            check(OTF2_Archive_CloseEvtWriter(archive, events));
        }
        check(OTF2_Archive_CloseEvtFiles(archive));
    }

    // As Score-P does: one list of all locations, and teams as positions in it.
    void write_teams(OTF2_GlobalDefWriter* definitions, uint32_t group, uint32_t name) {
        if (spec.teams.empty()) return;
        std::vector<uint64_t> all;
        for (size_t i = spec.ranks(); i-- > 0;) all.push_back(location(i));
        check(OTF2_GlobalDefWriter_WriteGroup(definitions, group++, name, OTF2_GROUP_TYPE_COMM_LOCATIONS, OTF2_PARADIGM_OPENMP,
                                              OTF2_GROUP_FLAG_NONE, static_cast<uint32_t>(all.size()), all.data()));
        for (const auto& [comm, members] : spec.teams) {
            std::vector<uint64_t> positions;
            for (const uint64_t member : members) positions.push_back(spec.ranks() - 1 - member);
            check(OTF2_GlobalDefWriter_WriteGroup(definitions, group, name, OTF2_GROUP_TYPE_COMM_GROUP, OTF2_PARADIGM_OPENMP,
                                                  OTF2_GROUP_FLAG_NONE, static_cast<uint32_t>(positions.size()), positions.data()));
            check(OTF2_GlobalDefWriter_WriteComm(definitions, comm, name, group++, OTF2_UNDEFINED_COMM, OTF2_COMM_FLAG_NONE));
        }
    }

    void write_definitions() {
        OTF2_GlobalDefWriter* definitions = OTF2_Archive_GetGlobalDefWriter(archive);
        const uint32_t empty = string("");
        const auto text = [&](const std::string& value) { return string(value); };
        for (const auto& [name, id] : regions) text(name);
        for (const auto& account : spec.accounts) text(account);
        for (const char* name : {"ns", "node", "MPI_COMM_WORLD"}) text(name);
        for (const char* name : attribute_names) text(name);
        for (const auto& host : spec.hosts) text(host);
        for (const auto& [of, value] : spec.neighbours) {
            text("polter:neighbours:" + std::to_string(of.second));
            text(value);
        }
        for (size_t rank = 0; rank < spec.ranks(); ++rank) text("MPI Rank " + std::to_string(rank));
        uint64_t end = 0;
        for (const auto& list : spec.records)
            if (!list.empty()) end = std::max(end, static_cast<uint64_t>(list.back().time));
        check(OTF2_GlobalDefWriter_WriteClockProperties(definitions, spec.ticks_per_second, 0, end + 1, OTF2_UNDEFINED_TIMESTAMP));
        for (size_t i = 0; i < string_order.size(); ++i)
            check(OTF2_GlobalDefWriter_WriteString(definitions, static_cast<uint32_t>(i), string_order[i].c_str()));
        for (uint32_t i = 0; i < std::size(attribute_names); ++i)
            if (i <= ago || used[i])  // older tracers do not define them all
                check(OTF2_GlobalDefWriter_WriteAttribute(definitions, i, text(attribute_names[i]), empty, attribute_types[i]));
        for (const auto& [name, id] : regions) {
            const OTF2_RegionRole role = name == "omp-barrier"      ? OTF2_REGION_ROLE_BARRIER
                                         : name == "omp-critical"   ? OTF2_REGION_ROLE_CRITICAL
                                         : name == "omp-task"       ? OTF2_REGION_ROLE_TASK
                                         : name == "pthread-join"   ? OTF2_REGION_ROLE_THREAD_WAIT
                                         : name.starts_with("omp-") ? OTF2_REGION_ROLE_IMPLICIT_BARRIER
                                                                    : OTF2_REGION_ROLE_FUNCTION;
            const OTF2_Paradigm paradigm = name.starts_with("MPI_")      ? OTF2_PARADIGM_MPI
                                           : name.starts_with("omp-")    ? OTF2_PARADIGM_OPENMP
                                           : name.starts_with("pthread") ? OTF2_PARADIGM_PTHREAD
                                                                         : OTF2_PARADIGM_USER;
            check(OTF2_GlobalDefWriter_WriteRegion(definitions, id, text(name), text(name), empty, role, paradigm, OTF2_REGION_FLAG_NONE,
                                                   empty, 0, 0));
        }
        std::map<std::string, uint32_t> nodes;
        for (const auto& host : spec.hosts) {
            const auto [at, added] = nodes.emplace(host, static_cast<uint32_t>(nodes.size()));
            if (added)
                check(OTF2_GlobalDefWriter_WriteSystemTreeNode(definitions, at->second, text(host), text("node"),
                                                               OTF2_UNDEFINED_SYSTEM_TREE_NODE));
        }
        std::vector<uint64_t> locations, world;
        for (size_t rank = 0; rank < spec.ranks(); ++rank) {
            const uint32_t name = text("MPI Rank " + std::to_string(rank));
            const auto thread = spec.threads.find(rank);
            const size_t process = thread == spec.threads.end() ? rank : thread->second;
            if (process == rank)
                check(OTF2_GlobalDefWriter_WriteLocationGroup(definitions, static_cast<uint32_t>(rank), name,
                                                              OTF2_LOCATION_GROUP_TYPE_PROCESS, nodes[spec.hosts[rank]],
                                                              OTF2_UNDEFINED_LOCATION_GROUP));
            check(OTF2_GlobalDefWriter_WriteLocation(definitions, location(rank), name, OTF2_LOCATION_TYPE_CPU_THREAD, written[rank],
                                                     static_cast<uint32_t>(process)));
            if (process != rank || rank + spec.strangers >= spec.ranks()) continue;
            locations.push_back(location(rank));
            world.push_back(rank);
        }
        check(OTF2_GlobalDefWriter_WriteGroup(definitions, 0, empty, OTF2_GROUP_TYPE_COMM_LOCATIONS, OTF2_PARADIGM_MPI,
                                              OTF2_GROUP_FLAG_NONE, static_cast<uint32_t>(locations.size()), locations.data()));
        for (uint32_t i = 0; i < std::max<size_t>(spec.comms.size(), 1); ++i) {
            const auto& members = i == 0 ? world : spec.comms[i];
            check(OTF2_GlobalDefWriter_WriteGroup(definitions, i + 1, empty, OTF2_GROUP_TYPE_COMM_GROUP, OTF2_PARADIGM_MPI,
                                                  OTF2_GROUP_FLAG_NONE, static_cast<uint32_t>(members.size()), members.data()));
            check(OTF2_GlobalDefWriter_WriteComm(definitions, i, i == 0 ? text("MPI_COMM_WORLD") : empty, i + 1, OTF2_UNDEFINED_COMM,
                                                 OTF2_COMM_FLAG_NONE));
        }
        write_teams(definitions, static_cast<uint32_t>(std::max<size_t>(spec.comms.size(), 1)) + 1, empty);
        for (const auto& [of, value] : spec.neighbours) {
            OTF2_AttributeValue neighbours;
            const uint32_t name = text("polter:neighbours:" + std::to_string(of.second));
            neighbours.stringRef = text(value);
            check(OTF2_GlobalDefWriter_WriteLocationProperty(definitions, location(of.first), name, OTF2_TYPE_STRING, neighbours));
        }
        for (uint32_t i = 0; i < spec.windows.size(); ++i)
            check(OTF2_GlobalDefWriter_WriteRmaWin(definitions, i, empty, spec.windows[i], OTF2_RMA_WIN_FLAG_NONE));
        std::vector<OTF2_MetricMemberRef> members;
        for (uint32_t i = 0; i < spec.accounts.size(); ++i) {
            check(OTF2_GlobalDefWriter_WriteMetricMember(
                definitions, i, text(spec.accounts[i]), empty, OTF2_METRIC_TYPE_OTHER, OTF2_METRIC_ACCUMULATED_START,
                spec.accounts[i] == spec.real ? OTF2_TYPE_DOUBLE : OTF2_TYPE_UINT64, OTF2_BASE_DECIMAL, 0, text("ns")));
            members.push_back(i);
            if (!spec.one_class)
                check(OTF2_GlobalDefWriter_WriteMetricClass(definitions, i, 1, &i, OTF2_METRIC_ASYNCHRONOUS, OTF2_RECORDER_KIND_CPU));
        }
        if (spec.one_class && !members.empty())
            check(OTF2_GlobalDefWriter_WriteMetricClass(definitions, 0, static_cast<uint8_t>(members.size()), members.data(),
                                                        OTF2_METRIC_ASYNCHRONOUS, OTF2_RECORDER_KIND_CPU));
        check(OTF2_Archive_CloseGlobalDefWriter(archive, definitions));
    }
};

}  // namespace

void write_trace(const TraceSpec& spec, const std::string& directory) {
    std::filesystem::remove_all(directory);
    Writer writer{spec};
    writer.archive = OTF2_Archive_Open(directory.c_str(), "traces", OTF2_FILEMODE_WRITE, OTF2_CHUNK_SIZE_MIN, OTF2_CHUNK_SIZE_MIN,
                                       OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
    if (!writer.archive) throw std::runtime_error("writing a test trace: cannot open " + directory);
    static const OTF2_FlushCallbacks callbacks{flush, flushed};
    check(OTF2_Archive_SetFlushCallbacks(writer.archive, &callbacks, nullptr));
    check(OTF2_Archive_SetSerialCollectiveCallbacks(writer.archive));
    for (const auto& [name, value] : spec.properties)
        check(OTF2_Archive_SetProperty(writer.archive, ("POLTER::" + name).c_str(), value.c_str(), true));
    writer.write_events();
    check(OTF2_Archive_OpenDefFiles(writer.archive));
    for (size_t rank = 0; rank < spec.ranks(); ++rank)
        OTF2_Archive_CloseDefWriter(writer.archive, OTF2_Archive_GetDefWriter(writer.archive, writer.location(rank)));
    check(OTF2_Archive_CloseDefFiles(writer.archive));
    writer.write_definitions();
    check(OTF2_Archive_Close(writer.archive));
}

TemporaryDirectory::TemporaryDirectory() {
    // In memory where that can be: thousands of small archives are slow on a disk.
    const bool memory = !std::getenv("TMPDIR") && access("/dev/shm", W_OK) == 0;
    std::string pattern = (memory ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path()) / "polter-replay-XXXXXX";
    if (!mkdtemp(pattern.data())) throw std::runtime_error("cannot make a directory below " + pattern);
    root_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
}

}  // namespace polter::test
