// SPDX-License-Identifier: BSD-3-Clause
// The OTF2 archive by the trace conventions of tracer/README.md. The only place with OTF2 writing calls.
#include "archive.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <stdexcept>

namespace polter::truth {

namespace {

OTF2_LockType lock_type(const Event& event) {
    return event.mode != 0 ? OTF2_LOCK_EXCLUSIVE : OTF2_LOCK_SHARED;
}

void check(OTF2_ErrorCode code, const char* what) {
    if (code != OTF2_SUCCESS)
        throw std::runtime_error(std::string("writing the archive: ") + what + ": " + OTF2_Error_GetDescription(code));
}

enum Attribute : OTF2_AttributeRef { culprit, source, tag, comm, mode, probed, attributes };
constexpr std::array<const char*, attributes> attribute_names{"os:culprit",  "polter:source", "polter:tag",
                                                              "polter:comm", "polter:mode",   "polter:any"};
constexpr std::array<OTF2_Type, attributes> attribute_types{OTF2_TYPE_STRING, OTF2_TYPE_INT32, OTF2_TYPE_INT32,
                                                            OTF2_TYPE_COMM,   OTF2_TYPE_UINT8, OTF2_TYPE_UINT8};

struct RegionDefinition {
    const char* name;
    OTF2_RegionRole role;
};
constexpr RegionDefinition regions[] = {
#define POLTER_TRUTH_REGION(name, role) {#name, OTF2_REGION_ROLE_##role},
    POLTER_TRUTH_REGIONS(POLTER_TRUTH_REGION)
#undef POLTER_TRUTH_REGION
};

// Sources of one name share an account; they differ in culprit and pattern only.
std::vector<std::string> accounts_of(const Recording& recording) {
    std::vector<std::string> names;
    for (const NoiseSource& noise : recording.sources)
        if (std::find(names.begin(), names.end(), noise.name) == names.end()) names.push_back(noise.name);
    return names;
}

class Definitions {
  public:
    explicit Definitions(OTF2_GlobalDefWriter* writer) : writer_(writer) { string(""); }

    OTF2_StringRef string(const std::string& text) {
        const auto [place, is_new] = strings_.try_emplace(text, strings_.size());
        if (is_new) check(OTF2_GlobalDefWriter_WriteString(writer_, place->second, text.c_str()), "a string");
        return place->second;
    }

    void fixed(uint64_t ticks_per_second, int64_t first, int64_t last) {
        check(OTF2_GlobalDefWriter_WriteClockProperties(writer_, ticks_per_second, first, last - first + 1, OTF2_UNDEFINED_TIMESTAMP),
              "clock");
        check(OTF2_GlobalDefWriter_WriteParadigm(writer_, OTF2_PARADIGM_MPI, string("MPI"), OTF2_PARADIGM_CLASS_PROCESS), "paradigm");
        for (uint32_t i = 0; i < attributes; ++i)
            check(OTF2_GlobalDefWriter_WriteAttribute(writer_, i, string(attribute_names[i]), string(""), attribute_types[i]), "attribute");
        for (uint32_t i = 0; i < std::size(regions); ++i)
            check(OTF2_GlobalDefWriter_WriteRegion(writer_, i, string(regions[i].name), string(regions[i].name), string(""),
                                                   regions[i].role, OTF2_PARADIGM_MPI, OTF2_REGION_FLAG_NONE, string(""), 0, 0),
                  "region");
    }

    void accounts(const std::vector<std::string>& names) {
        for (uint32_t i = 0; i < names.size(); ++i) {
            check(
                OTF2_GlobalDefWriter_WriteMetricMember(writer_, i, string("os:" + names[i]), string(""), OTF2_METRIC_TYPE_OTHER,
                                                       OTF2_METRIC_ACCUMULATED_START, OTF2_TYPE_UINT64, OTF2_BASE_DECIMAL, 0, string("ns")),
                "metric member");
            check(OTF2_GlobalDefWriter_WriteMetricClass(writer_, i, 1, &i, OTF2_METRIC_ASYNCHRONOUS, OTF2_RECORDER_KIND_CPU),
                  "metric class");
        }
    }

    void counter(const std::string& name, uint32_t id) {
        check(OTF2_GlobalDefWriter_WriteMetricMember(writer_, id, string(name), string(""), OTF2_METRIC_TYPE_PAPI,
                                                     OTF2_METRIC_ACCUMULATED_START, OTF2_TYPE_UINT64, OTF2_BASE_DECIMAL, 0, string("#")),
              "metric member");
        check(OTF2_GlobalDefWriter_WriteMetricClass(writer_, id, 1, &id, OTF2_METRIC_SYNCHRONOUS, OTF2_RECORDER_KIND_CPU), "metric class");
    }

    void places(const Recording& recording, const std::vector<uint64_t>& event_counts) {
        check(OTF2_GlobalDefWriter_WriteSystemTreeNode(writer_, 0, string("simulated machine"), string("machine"),
                                                       OTF2_UNDEFINED_SYSTEM_TREE_NODE),
              "system tree");
        std::map<std::string, uint32_t> nodes;
        for (uint32_t rank = 0; rank < recording.ranks.size(); ++rank) {
            const std::string& host = recording.ranks[rank].host;
            const auto [node, is_new] = nodes.try_emplace(host, nodes.size() + 1);
            if (is_new) check(OTF2_GlobalDefWriter_WriteSystemTreeNode(writer_, node->second, string(host), string("node"), 0), "node");
            const OTF2_StringRef name = string("MPI Rank " + std::to_string(rank));
            check(OTF2_GlobalDefWriter_WriteLocationGroup(writer_, rank, name, OTF2_LOCATION_GROUP_TYPE_PROCESS, node->second,
                                                          OTF2_UNDEFINED_LOCATION_GROUP),
                  "location group");
            check(OTF2_GlobalDefWriter_WriteLocation(writer_, rank, name, OTF2_LOCATION_TYPE_CPU_THREAD, event_counts[rank], rank),
                  "location");
        }
    }

    void communicators(const Recording& recording) {
        auto group = [&](uint32_t id, OTF2_GroupType type, const std::vector<uint64_t>& members) {
            check(OTF2_GlobalDefWriter_WriteGroup(writer_, id, string(""), type, OTF2_PARADIGM_MPI, OTF2_GROUP_FLAG_NONE, members.size(),
                                                  members.data()),
                  "group");
        };
        group(0, OTF2_GROUP_TYPE_COMM_LOCATIONS, recording.communicators[0].members);
        group(1, OTF2_GROUP_TYPE_COMM_GROUP, recording.communicators[0].members);
        group(2, OTF2_GROUP_TYPE_COMM_SELF, {});
        for (uint32_t id = 0; id < recording.communicators.size(); ++id) {
            const Communicator& made = recording.communicators[id];
            const OTF2_GroupRef members = id + 1;  // of communicator 0: group 1, of 1 (self): group 2
            if (id > 1) group(members, OTF2_GROUP_TYPE_COMM_GROUP, made.members);
            const OTF2_CommRef parent = id < 2 ? OTF2_UNDEFINED_COMM : made.parent;
            check(OTF2_GlobalDefWriter_WriteComm(writer_, id, string(made.name), members, parent, OTF2_COMM_FLAG_NONE), "communicator");
        }
        for (uint32_t id = 0; id < recording.windows.size(); ++id)
            check(OTF2_GlobalDefWriter_WriteRmaWin(writer_, id, string(""), recording.windows[id], OTF2_RMA_WIN_FLAG_NONE), "window");
    }

  private:
    OTF2_GlobalDefWriter* writer_;
    std::map<std::string, OTF2_StringRef> strings_;
};

// Writes one rank's events; noise goes in front of the first MPI record that is not earlier than its end.
class LocationWriter {
  public:
    LocationWriter(OTF2_EvtWriter* writer, const std::vector<uint32_t>& account_of_source, const std::vector<OTF2_StringRef>& culprits,
                   size_t accounts, Detail detail, Habit habit)
        : writer_(writer),
          account_(account_of_source),
          culprits_(culprits),
          total_(accounts),
          written_(accounts),
          detail_(detail),
          habit_(habit),
          tick_(tick_ns(habit)) {
        list_ = OTF2_AttributeList_New();
    }
    ~LocationWriter() { OTF2_AttributeList_Delete(list_); }
    LocationWriter(const LocationWriter&) = delete;

    void write(const Recording::Rank& rank) {
        if (rank.events.empty()) return;
        for (uint32_t account = 0; account < total_.size(); ++account) metric(rank.events.front().time, account);
        for (const Event& event : with_habit(rank, habit_)) {
            while (next_ < rank.noise.size() && rank.noise[next_].end <= event.time) write_noise(rank.noise[next_++]);
            if (detail_ == Detail::counters)
                for (uint32_t account = 0; account < total_.size(); ++account)
                    if (total_[account] != written_[account]) metric(event.time, account);
            record(event);
        }
    }

  private:
    void write_noise(const NoiseEvent& event) {
        const uint32_t account = account_[event.source];
        total_[account] += event.duration();
        if (detail_ == Detail::counters) return;
        if (culprits_[event.source] != 0) OTF2_AttributeList_AddStringRef(list_, culprit, culprits_[event.source]);
        metric(event.end, account);
    }

    void metric(int64_t time, uint32_t account) {
        const OTF2_Type type = OTF2_TYPE_UINT64;
        OTF2_MetricValue value;
        value.unsigned_int = written_[account] = total_[account];
        check(OTF2_EvtWriter_Metric(writer_, list_, time / tick_, account, 1, &type, &value), "a metric");
    }

    void record(const Event& e) {
        const uint64_t time = e.time / tick_;
        const uint32_t root = e.peer < 0 ? OTF2_UNDEFINED_UINT32 : e.peer;
        OTF2_ErrorCode code = OTF2_SUCCESS;
        switch (e.kind) {
            case Kind::enter:
                code = OTF2_EvtWriter_Enter(writer_, nullptr, time, e.region);
                break;
            case Kind::leave:
                if (e.found) {
                    OTF2_AttributeList_AddInt32(list_, source, e.peer);
                    OTF2_AttributeList_AddInt32(list_, tag, e.tag);
                    OTF2_AttributeList_AddCommRef(list_, comm, e.comm);
                    const int any = (e.posted_peer < 0 ? 1 : 0) | (e.posted_tag < 0 ? 2 : 0);
                    if (any != 0) OTF2_AttributeList_AddUint8(list_, probed, static_cast<uint8_t>(any));
                }
                code = OTF2_EvtWriter_Leave(writer_, list_, time, e.region);
                break;
            case Kind::mpi_send:
                if (e.mode != 0) OTF2_AttributeList_AddUint8(list_, mode, e.mode);
                code = OTF2_EvtWriter_MpiSend(writer_, list_, time, e.peer, e.comm, e.tag, e.bytes);
                break;
            case Kind::mpi_isend:
                if (e.mode != 0) OTF2_AttributeList_AddUint8(list_, mode, e.mode);
                code = OTF2_EvtWriter_MpiIsend(writer_, list_, time, e.peer, e.comm, e.tag, e.bytes, e.request);
                break;
            case Kind::mpi_isend_complete:
                code = OTF2_EvtWriter_MpiIsendComplete(writer_, nullptr, time, e.request);
                break;
            case Kind::mpi_irecv_request:
                OTF2_AttributeList_AddInt32(list_, source, e.peer);
                OTF2_AttributeList_AddInt32(list_, tag, e.tag);
                OTF2_AttributeList_AddCommRef(list_, comm, e.comm);
                code = OTF2_EvtWriter_MpiIrecvRequest(writer_, list_, time, e.request);
                break;
            case Kind::mpi_recv:
                if (e.wildcard) {
                    OTF2_AttributeList_AddInt32(list_, source, e.posted_peer);
                    OTF2_AttributeList_AddInt32(list_, tag, e.posted_tag);
                }
                code = OTF2_EvtWriter_MpiRecv(writer_, list_, time, e.peer, e.comm, e.tag, e.bytes);
                break;
            case Kind::mpi_irecv:
                code = OTF2_EvtWriter_MpiIrecv(writer_, nullptr, time, e.peer, e.comm, e.tag, e.bytes, e.request);
                break;
            case Kind::mpi_request_test:
                code = OTF2_EvtWriter_MpiRequestTest(writer_, nullptr, time, e.request);
                break;
            case Kind::collective_begin:
                code = OTF2_EvtWriter_MpiCollectiveBegin(writer_, nullptr, time);
                break;
            case Kind::collective_end:
                code = OTF2_EvtWriter_MpiCollectiveEnd(writer_, nullptr, time, e.operation, e.comm, root, e.bytes, e.bytes_received);
                break;
            case Kind::nonblocking_collective_request:
                OTF2_AttributeList_AddCommRef(list_, comm, e.comm);
                code = OTF2_EvtWriter_NonBlockingCollectiveRequest(writer_, list_, time, e.request);
                break;
            case Kind::nonblocking_collective_complete:
                code = OTF2_EvtWriter_NonBlockingCollectiveComplete(writer_, nullptr, time, e.operation, e.comm, root, e.bytes,
                                                                    e.bytes_received, e.request);
                break;
            case Kind::rma_collective_begin:
                code = OTF2_EvtWriter_RmaCollectiveBegin(writer_, nullptr, time);
                break;
            case Kind::rma_collective_end:
                code = OTF2_EvtWriter_RmaCollectiveEnd(writer_, nullptr, time, e.operation,
                                                       OTF2_RMA_SYNC_LEVEL_MEMORY | OTF2_RMA_SYNC_LEVEL_PROCESS, e.comm,
                                                       OTF2_COLLECTIVE_ROOT_NONE, 0, 0);
                break;
            case Kind::rma_win_create:
                code = OTF2_EvtWriter_RmaWinCreate(writer_, nullptr, time, e.comm);
                break;
            case Kind::rma_win_destroy:
                code = OTF2_EvtWriter_RmaWinDestroy(writer_, nullptr, time, e.comm);
                break;
            case Kind::rma_notify_in:
                code = OTF2_EvtWriter_RmaSync(writer_, nullptr, time, e.comm, e.peer, OTF2_RMA_SYNC_TYPE_NOTIFY_IN);
                break;
            case Kind::rma_notify_out:
                code = OTF2_EvtWriter_RmaSync(writer_, nullptr, time, e.comm, e.peer, OTF2_RMA_SYNC_TYPE_NOTIFY_OUT);
                break;
            case Kind::rma_put:
                code = OTF2_EvtWriter_RmaPut(writer_, nullptr, time, e.comm, e.peer, e.bytes, e.request);
                break;
            case Kind::rma_get:
                code = OTF2_EvtWriter_RmaGet(writer_, nullptr, time, e.comm, e.peer, e.bytes, e.request);
                break;
            case Kind::rma_op_complete:
                code = OTF2_EvtWriter_RmaOpCompleteRemote(writer_, nullptr, time, e.comm, e.request);
                break;
            case Kind::rma_request_complete:
                code = OTF2_EvtWriter_RmaOpCompleteNonBlocking(writer_, nullptr, time, e.comm, e.request);
                break;
            case Kind::rma_request_lock:
                code = OTF2_EvtWriter_RmaRequestLock(writer_, nullptr, time, e.comm, e.peer, 0, lock_type(e));
                break;
            case Kind::rma_acquire_lock:
                code = OTF2_EvtWriter_RmaAcquireLock(writer_, nullptr, time, e.comm, e.peer, 0, lock_type(e));
                break;
            case Kind::counter: {
                const OTF2_Type type = OTF2_TYPE_UINT64;
                OTF2_MetricValue value;
                value.unsigned_int = e.bytes;
                code = OTF2_EvtWriter_Metric(writer_, nullptr, time, static_cast<uint32_t>(total_.size()), 1, &type, &value);
                break;
            }
            case Kind::rma_release_lock:
                code = OTF2_EvtWriter_RmaReleaseLock(writer_, nullptr, time, e.comm, e.peer, 0);
                break;
        }
        check(code, "an event");
    }

    OTF2_EvtWriter* writer_;
    const std::vector<uint32_t>& account_;
    const std::vector<OTF2_StringRef>& culprits_;
    std::vector<uint64_t> total_, written_;
    Detail detail_;
    Habit habit_;
    int64_t tick_;
    size_t next_ = 0;
    OTF2_AttributeList* list_;
};

OTF2_FlushType flush(void*, OTF2_FileType, OTF2_LocationRef, void*, bool) {
    return OTF2_FLUSH;
}

}  // namespace

void write_archive(const Recording& recording, const std::string& directory, Detail detail, Habit habit) {
    if (std::filesystem::exists(directory)) throw std::runtime_error(directory + ": exists already; remove it or give another name");
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {  // an open file for each location
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    OTF2_Archive* archive = OTF2_Archive_Open(directory.c_str(), "traces", OTF2_FILEMODE_WRITE, 1024 * 1024, 1024 * 1024,
                                              OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
    if (archive == nullptr) throw std::runtime_error(directory + ": OTF2 cannot make an archive there");
    OTF2_FlushCallbacks callbacks{flush, nullptr};
    check(OTF2_Archive_SetFlushCallbacks(archive, &callbacks, nullptr), "set-up");
    check(OTF2_Archive_SetSerialCollectiveCallbacks(archive), "set-up");

    const std::vector<std::string> accounts = accounts_of(recording);
    OTF2_GlobalDefWriter* global = OTF2_Archive_GetGlobalDefWriter(archive);
    if (global == nullptr) throw std::runtime_error(directory + ": cannot write definitions");
    Definitions definitions(global);
    std::vector<uint32_t> account_of_source;
    std::vector<OTF2_StringRef> culprits;
    for (const NoiseSource& noise : recording.sources) {
        account_of_source.push_back(std::find(accounts.begin(), accounts.end(), noise.name) - accounts.begin());
        culprits.push_back(definitions.string(noise.culprit));
    }

    std::vector<uint64_t> counts;
    int64_t first = INT64_MAX, last = INT64_MIN;
    check(OTF2_Archive_OpenEvtFiles(archive), "event files");
    check(OTF2_Archive_OpenDefFiles(archive), "definition files");
    for (uint32_t rank = 0; rank < recording.ranks.size(); ++rank) {
        const Recording::Rank& recorded = recording.ranks[rank];
        OTF2_EvtWriter* events = OTF2_Archive_GetEvtWriter(archive, rank);
        OTF2_DefWriter* local = OTF2_Archive_GetDefWriter(archive, rank);
        if (events == nullptr || local == nullptr) throw std::runtime_error(directory + ": no file for rank " + std::to_string(rank));
        LocationWriter(events, account_of_source, culprits, accounts.size(), detail, habit).write(recorded);
        counts.push_back(0);
        OTF2_EvtWriter_GetNumberOfEvents(events, &counts.back());
        check(OTF2_Archive_CloseEvtWriter(archive, events), "an event file");
        check(OTF2_Archive_CloseDefWriter(archive, local), "a definition file");
        if (!recorded.events.empty()) {
            first = std::min(first, recorded.events.front().time);
            last = std::max(last, recorded.events.back().time);
        }
    }
    check(OTF2_Archive_CloseDefFiles(archive), "definition files");
    check(OTF2_Archive_CloseEvtFiles(archive), "event files");

    const int64_t tick = tick_ns(habit);
    definitions.fixed(1'000'000'000 / tick, first / tick, last / tick);
    definitions.accounts(accounts);
    if (!recording.counter.empty()) definitions.counter(recording.counter, static_cast<uint32_t>(accounts.size()));
    definitions.places(recording, counts);
    definitions.communicators(recording);
    check(OTF2_Archive_SetProperty(archive, "POLTER::EXPORTER", "simulated", true), "property");
    check(OTF2_Archive_SetProperty(archive, "POLTER::INCOMPLETE", "no", true), "property");
    check(OTF2_Archive_SetProperty(archive, "POLTER::COMMAND", recording.command.c_str(), true), "property");
    check(OTF2_Archive_Close(archive), "closing");
}

}  // namespace polter::truth
