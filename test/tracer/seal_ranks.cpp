// SPDX-License-Identifier: BSD-3-Clause
#include "seal_ranks.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <stdexcept>

#include "../../tracer/conventions.hpp"

namespace seal_test {
namespace fs = std::filesystem;
namespace trace = polter::trace;

namespace {

constexpr unsigned tail_chunks = 64;  // enough that the test's ranks never flush

struct TailFile {
    trace::TailHeader* header = nullptr;
    char* slots = nullptr;
    explicit TailFile(const fs::path& path) {
        auto size = trace::tail_header_size + tail_chunks * trace::event_chunk_size;
        int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
        if (fd < 0 || ftruncate(fd, static_cast<off_t>(size)) != 0) throw std::runtime_error("tail file");
        void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (memory == MAP_FAILED) throw std::runtime_error("tail mapping");
        header = static_cast<trace::TailHeader*>(memory);
        slots = static_cast<char*>(memory) + trace::tail_header_size;
        header->magic = trace::tail_magic;
        header->chunk_size = trace::event_chunk_size;
    }
};

void* take_chunk(void* user, OTF2_FileType type, OTF2_LocationRef, void**, uint64_t size) {
    if (type != OTF2_FILETYPE_EVENTS) return std::calloc(1, size);
    auto& tail = *static_cast<TailFile*>(user);
    auto n = tail.header->chunks_in_use;
    if (n >= tail_chunks) return nullptr;
    auto slot = static_cast<uint32_t>((n * 7 + 3) % tail_chunks);  // not in order
    tail.header->order[n] = slot;
    tail.header->chunks_in_use = n + 1;
    return tail.slots + slot * trace::event_chunk_size;
}
void free_chunks(void* user, OTF2_FileType type, OTF2_LocationRef, void**, bool) {
    if (type == OTF2_FILETYPE_EVENTS) static_cast<TailFile*>(user)->header->chunks_in_use = 0;
}
OTF2_FlushType flush(void*, OTF2_FileType, OTF2_LocationRef, void*, bool) {
    return OTF2_FLUSH;
}

void write_events(OTF2_EvtWriter* writer, const RankSpec& spec) {
    auto time = spec.start_ns;
    auto* attributes = OTF2_AttributeList_New();
    for (unsigned call = 0; call < spec.calls; ++call) {
        OTF2_EvtWriter_Enter(writer, nullptr, time += 10, call % 7);
        if (call % 10 == 0) {
            OTF2_AttributeList_AddStringRef(attributes, trace::attribute_culprit, call / 10 % 2);
            OTF2_Type type = OTF2_TYPE_UINT64;
            OTF2_MetricValue value{};
            value.unsigned_int = call;
            OTF2_EvtWriter_Metric(writer, attributes, time += 10, POLTER_PREEMPT, 1, &type, &value);
        }
        OTF2_EvtWriter_MpiSend(writer, nullptr, time, (spec.rank + 1) % spec.size, call % 2 ? 2 : trace::comm_world, 5, 1000 + call);
        OTF2_EvtWriter_Leave(writer, nullptr, time += 10, call % 7);
    }
    OTF2_AttributeList_Delete(attributes);
}

}  // namespace

Experiment::Experiment() {
    char name[] = "/tmp/polter-seal-XXXXXX";
    if (!mkdtemp(name)) throw std::runtime_error("mkdtemp");
    path = name;
}
Experiment::~Experiment() {
    std::error_code error;
    fs::remove_all(path, error);
}

fs::path write_rank(const fs::path& experiment, const RankSpec& spec) {
    auto folder = experiment / trace::ranks_folder / fmt::format("{}.{}", spec.host, 1000 + spec.rank);
    fs::create_directories(folder);
    std::ofstream sidecar(folder / trace::sidecar_name);
    sidecar
        << fmt::format(
               R"({{"polter_rank":1,"rank":{0},"size":{1},"host":"{2}","pid":{3},"program":"p","mpi":"m","cpus":"0-1","thread_level":"t","clock_offset_ns":0,"world":"{4}"}})",
               spec.rank, spec.size, spec.host, 1000 + spec.rank, spec.world)
        << "\n";
    sidecar << R"({"exporter":"bpf","seen":["timer","preempt"],"net":["timer"],"why":""})"
               "\n";
    sidecar << fmt::format(R"({{"location":{0},"thread":0,"name":"MPI Rank {0}","tid":7}})", spec.rank) << "\n";
    // The ids of the two culprits differ from rank to rank; so does that of the communicator's name.
    const char* names[] = {"rival", "kworker/0:1"};
    for (unsigned i = 0; i < 2; ++i) sidecar << fmt::format(R"({{"string":{},"value":"{}"}})", i, names[(i + spec.rank) % 2]) << "\n";
    sidecar << R"({"comm":2,"name":"half","parent":0,"key":"w.1","group":"world"})"
               "\n";
    for (const auto& line : spec.extra_lines) sidecar << line << "\n";
    sidecar.flush();

    auto pid = fork();
    if (pid == 0) {
        TailFile tail(folder / fmt::format("{}.tail", spec.rank));
        auto* archive = OTF2_Archive_Open(folder.c_str(), trace::archive_name, OTF2_FILEMODE_WRITE, trace::event_chunk_size, 4 << 20,
                                          OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
        OTF2_MemoryCallbacks memory{take_chunk, free_chunks};
        OTF2_FlushCallbacks flushes{flush, nullptr};
        OTF2_Archive_SetFlushCallbacks(archive, &flushes, nullptr);
        OTF2_Archive_SetMemoryCallbacks(archive, &memory, &tail);
        OTF2_Archive_SetSerialCollectiveCallbacks(archive);
        OTF2_Archive_OpenEvtFiles(archive);
        auto* writer = OTF2_Archive_GetEvtWriter(archive, spec.rank);
        write_events(writer, spec);
        if (!spec.finishes) {
            OTF2_EvtWriter_Enter(writer, nullptr, spec.start_ns + 1'000'000'000, 3);
            raise(SIGKILL);
        }
        OTF2_Archive_CloseEvtWriter(archive, writer);
        OTF2_Archive_CloseEvtFiles(archive);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (spec.finishes) {
        uint64_t metrics = (spec.calls + 9) / 10, events = 3ull * spec.calls + metrics,
                 last = spec.start_ns + 20ull * spec.calls + 10 * metrics;
        sidecar << fmt::format(R"({{"final":true,{}"events":{{"{}":{}}},"dropped":1,"dropped_ns":5,"own_cost_ns":{},"warnings":[])",
                               spec.final_fields, spec.rank, events, spec.own_cost_ns);
        if (spec.times) sidecar << fmt::format(R"(,"times":{{"{}":[{},{}]}})", spec.rank, spec.start_ns + 10, last);
        sidecar << "}\n";
        fs::remove(folder / fmt::format("{}.tail", spec.rank));
    }
    return folder;
}

namespace {

struct ReadState {
    Contents contents;
    std::string error;
};

OTF2_CallbackCode on_any(ReadState& state, OTF2_LocationRef location, OTF2_TimeStamp time) {
    ++state.contents.events[location];
    state.contents.times[location].push_back(time);
    // A reader that goes round would never end.
    return state.contents.events[location] > 10'000'000 ? OTF2_CALLBACK_INTERRUPT : OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_enter(OTF2_LocationRef location, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*, OTF2_RegionRef) {
    auto& state = *static_cast<ReadState*>(user);
    ++state.contents.depth[location];
    return on_any(state, location, time);
}
OTF2_CallbackCode on_leave(OTF2_LocationRef location, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*, OTF2_RegionRef) {
    auto& state = *static_cast<ReadState*>(user);
    --state.contents.depth[location];
    return on_any(state, location, time);
}
OTF2_CallbackCode on_send(OTF2_LocationRef location, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*, uint32_t,
                          OTF2_CommRef comm, uint32_t, uint64_t) {
    auto& state = *static_cast<ReadState*>(user);
    state.contents.send_comms[location].push_back(comm);
    return on_any(state, location, time);
}
OTF2_CallbackCode on_metric(OTF2_LocationRef location, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList* attributes,
                            OTF2_MetricRef, uint8_t, const OTF2_Type*, const OTF2_MetricValue*) {
    auto& state = *static_cast<ReadState*>(user);
    OTF2_StringRef culprit;
    if (OTF2_AttributeList_TestAttributeByID(attributes, trace::attribute_culprit) &&
        OTF2_AttributeList_GetStringRef(attributes, trace::attribute_culprit, &culprit) == OTF2_SUCCESS)
        state.contents.culprits[location].push_back(state.contents.strings[culprit]);
    return on_any(state, location, time);
}

OTF2_ErrorCode on_error(void* user, const char*, uint64_t, const char* function, OTF2_ErrorCode code, const char* format,
                        va_list arguments) {
    char text[300];
    std::vsnprintf(text, sizeof text, format, arguments);
    auto& state = *static_cast<ReadState*>(user);
    if (state.error.empty()) state.error = fmt::format("{}: {}", function, text);
    return code;
}

}  // namespace

Contents read_archive(const fs::path& experiment) {
    ReadState state;
    auto before = OTF2_Error_RegisterCallback(on_error, &state);
    auto* reader = OTF2_Reader_Open((experiment / "traces.otf2").c_str());
    if (!reader) throw std::runtime_error("no archive: " + state.error);
    OTF2_Reader_SetSerialCollectiveCallbacks(reader);
    auto* global = OTF2_Reader_GetGlobalDefReader(reader);
    auto* defs = OTF2_GlobalDefReaderCallbacks_New();
    OTF2_GlobalDefReaderCallbacks_SetStringCallback(defs, [](void* user, OTF2_StringRef id, const char* text) {
        static_cast<ReadState*>(user)->contents.strings[id] = text;
        return OTF2_CALLBACK_SUCCESS;
    });
    OTF2_GlobalDefReaderCallbacks_SetClockPropertiesCallback(defs, [](void* user, uint64_t, uint64_t offset, uint64_t length, uint64_t) {
        static_cast<ReadState*>(user)->contents.offset = offset;
        static_cast<ReadState*>(user)->contents.length = length;
        return OTF2_CALLBACK_SUCCESS;
    });
    OTF2_GlobalDefReaderCallbacks_SetLocationCallback(
        defs, [](void* user, OTF2_LocationRef id, OTF2_StringRef, OTF2_LocationType, uint64_t events, OTF2_LocationGroupRef) {
            static_cast<ReadState*>(user)->contents.defined_events[id] = events;
            return OTF2_CALLBACK_SUCCESS;
        });
    OTF2_GlobalDefReaderCallbacks_SetGroupCallback(defs, [](void* user, OTF2_GroupRef id, OTF2_StringRef, OTF2_GroupType, OTF2_Paradigm,
                                                            OTF2_GroupFlag, uint32_t count, const uint64_t* members) {
        static_cast<ReadState*>(user)->contents.groups[id].assign(members, members + count);
        return OTF2_CALLBACK_SUCCESS;
    });
    OTF2_GlobalDefReaderCallbacks_SetCommCallback(
        defs, [](void* user, OTF2_CommRef id, OTF2_StringRef name, OTF2_GroupRef group, OTF2_CommRef, OTF2_CommFlag) {
            auto& contents = static_cast<ReadState*>(user)->contents;
            contents.comm_names[id] = contents.strings[name];
            contents.comm_groups[id] = group;
            return OTF2_CALLBACK_SUCCESS;
        });
    OTF2_GlobalDefReaderCallbacks_SetMetricMemberCallback(
        defs, [](void* user, OTF2_MetricMemberRef id, OTF2_StringRef name, OTF2_StringRef, OTF2_MetricType, OTF2_MetricMode, OTF2_Type,
                 OTF2_Base, int64_t, OTF2_StringRef) {
            auto& contents = static_cast<ReadState*>(user)->contents;
            contents.metric_names[id] = contents.strings[name];
            return OTF2_CALLBACK_SUCCESS;
        });
    OTF2_Reader_RegisterGlobalDefCallbacks(reader, global, defs, &state);
    OTF2_GlobalDefReaderCallbacks_Delete(defs);
    uint64_t read = 0;
    OTF2_Reader_ReadAllGlobalDefinitions(reader, global, &read);
    uint32_t count = 0;
    char** names = nullptr;
    OTF2_Reader_GetPropertyNames(reader, &count, &names);
    for (uint32_t i = 0; i < count; ++i) {
        char* value = nullptr;
        OTF2_Reader_GetProperty(reader, names[i], &value);
        state.contents.properties[names[i]] = value;
        std::free(value);
    }
    std::free(names);
    for (const auto& [location, events] : state.contents.defined_events) OTF2_Reader_SelectLocation(reader, location);
    OTF2_Reader_OpenDefFiles(reader);
    OTF2_Reader_OpenEvtFiles(reader);
    auto* callbacks = OTF2_EvtReaderCallbacks_New();
    OTF2_EvtReaderCallbacks_SetEnterCallback(callbacks, on_enter);
    OTF2_EvtReaderCallbacks_SetLeaveCallback(callbacks, on_leave);
    OTF2_EvtReaderCallbacks_SetMpiSendCallback(callbacks, on_send);
    OTF2_EvtReaderCallbacks_SetMetricCallback(callbacks, on_metric);
    for (const auto& [location, events] : state.contents.defined_events) {
        if (auto* local = OTF2_Reader_GetDefReader(reader, location)) {
            OTF2_Reader_ReadAllLocalDefinitions(reader, local, &read);
            OTF2_Reader_CloseDefReader(reader, local);
        }
        auto* reader_of = OTF2_Reader_GetEvtReader(reader, location);
        OTF2_Reader_RegisterEvtCallbacks(reader, reader_of, callbacks, &state);
        OTF2_Reader_ReadAllLocalEvents(reader, reader_of, &read);
        OTF2_Reader_CloseEvtReader(reader, reader_of);
    }
    OTF2_EvtReaderCallbacks_Delete(callbacks);
    OTF2_Reader_CloseDefFiles(reader);
    OTF2_Reader_CloseEvtFiles(reader);
    OTF2_Reader_Close(reader);
    OTF2_Error_RegisterCallback(before, nullptr);
    if (!state.error.empty()) throw std::runtime_error(state.error);
    return state.contents;
}

}  // namespace seal_test
