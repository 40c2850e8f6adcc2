// SPDX-License-Identifier: BSD-3-Clause
#include "events.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <chrono>
#include <cstring>

#include "../conventions.hpp"
#include "otf2.hpp"

namespace polter::seal {
namespace fs = std::filesystem;
namespace {

constexpr int attempts = 3;
constexpr auto least_time = std::chrono::seconds(20);
constexpr uint64_t bytes_per_second = 2 << 20;  // far below what any disk and reader give

// Shared with the child, which may die at any event.
struct Progress {
    uint64_t events, first_ns, last_ns, closed;
    bool finished;  // the reader said that there is no more, or an event was refused
    char problem[200];
};

// One pass of the reader. Each callback is one instance of `event`: checks, then the writer's function of the same name.
struct Pass {
    OTF2_EvtWriter* writer = nullptr;  // none: only reading
    const EventLimits& limits;
    Progress& progress;
    uint64_t most;
    std::vector<OTF2_RegionRef> open;

    bool refuse(const char* why) {
        std::snprintf(progress.problem, sizeof progress.problem, "%s", why);
        progress.finished = true;
        return false;
    }
    bool accept(OTF2_TimeStamp time, OTF2_AttributeList* attributes) {
        if (progress.events >= most) {
            progress.finished = true;
            return false;
        }
        // The reader goes round and round over a last chunk that was never closed.
        if (progress.events && time < progress.last_ns) return refuse("time runs backward");
        auto count = OTF2_AttributeList_GetNumberOfElements(attributes);
        for (uint32_t i = 0; i < count; ++i) {
            OTF2_AttributeRef id;
            OTF2_Type type;
            OTF2_AttributeValue value;
            OTF2_AttributeList_GetAttributeByIndex(attributes, i, &id, &type, &value);
            if (id >= trace::attribute_count) return refuse("an unknown attribute");
            if (type == OTF2_TYPE_STRING && value.stringRef >= limits.strings) return refuse("an undefined string");
            if (type == OTF2_TYPE_CALLING_CONTEXT && value.callingContextRef >= limits.call_sites) return refuse("an undefined call site");
            if (type == OTF2_TYPE_COMM && !comm(value.commRef)) return refuse("an undefined communicator");
        }
        return true;
    }
    bool comm(OTF2_CommRef id) const { return id < limits.comms.size() && limits.comms[id]; }
    void wrote(OTF2_TimeStamp time) {
        if (!progress.events) progress.first_ns = time;
        progress.last_ns = time;
        ++progress.events;
    }
};

template <auto Write>
struct Copy;
template <typename... Args, OTF2_ErrorCode (*Write)(OTF2_EvtWriter*, OTF2_AttributeList*, OTF2_TimeStamp, Args...)>
struct Copy<Write> {
    using Check = bool (*)(Pass&, Args...);
    template <Check check = nullptr>
    static OTF2_CallbackCode event(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList* attributes,
                                   Args... args) {
        auto& pass = *static_cast<Pass*>(user);
        if (!pass.accept(time, attributes)) return OTF2_CALLBACK_INTERRUPT;
        if constexpr (check != nullptr) {
            if (!check(pass, args...)) return OTF2_CALLBACK_INTERRUPT;
        }
        if (pass.writer && Write(pass.writer, attributes, time, args...) != OTF2_SUCCESS) {
            pass.refuse("the new file cannot be written");
            return OTF2_CALLBACK_INTERRUPT;
        }
        pass.wrote(time);
        return OTF2_CALLBACK_SUCCESS;
    }
};

bool enters(Pass& pass, OTF2_RegionRef region) {
    if (region >= pass.limits.regions) return pass.refuse("an undefined region");
    pass.open.push_back(region);
    return true;
}
bool leaves(Pass& pass, OTF2_RegionRef region) {
    if (pass.open.empty() || pass.open.back() != region) return pass.refuse("a region is left that was not entered last");
    pass.open.pop_back();
    return true;
}
bool message(Pass& pass, uint32_t, OTF2_CommRef comm, uint32_t, uint64_t) {
    return pass.comm(comm) || pass.refuse("an undefined communicator");
}
bool request(Pass& pass, uint32_t, OTF2_CommRef comm, uint32_t, uint64_t, uint64_t) {
    return pass.comm(comm) || pass.refuse("an undefined communicator");
}
bool collective(Pass& pass, OTF2_CollectiveOp, OTF2_CommRef comm, uint32_t, uint64_t, uint64_t) {
    return pass.comm(comm) || pass.refuse("an undefined communicator");
}
bool collective_request(Pass& pass, OTF2_CollectiveOp, OTF2_CommRef comm, uint32_t, uint64_t, uint64_t, uint64_t) {
    return pass.comm(comm) || pass.refuse("an undefined communicator");
}
template <typename... Args>
bool team(Pass& pass, OTF2_CommRef comm, Args...) {
    return pass.comm(comm) || pass.refuse("an undefined team of threads");
}
bool metric(Pass& pass, OTF2_MetricRef metric, uint8_t members, const OTF2_Type*, const OTF2_MetricValue*) {
    return (metric < POLTER_ACCOUNTS && members == 1) || (metric == trace::metric_class_of_counters && members == pass.limits.counters) ||
           pass.refuse("an undefined metric");
}
// Of one-sided communication: the window comes first but in a collective's record.
bool window(Pass& pass, OTF2_RmaWinRef id) {
    return (id < pass.limits.windows.size() && pass.limits.windows[id]) || pass.refuse("an undefined window");
}
template <typename... Args>
bool on_window(Pass& pass, OTF2_RmaWinRef id, Args...) {
    return window(pass, id);
}
bool window_collective(Pass& pass, OTF2_CollectiveOp, OTF2_RmaSyncLevel, OTF2_RmaWinRef id, uint32_t, uint64_t, uint64_t) {
    return window(pass, id);
}
bool parameter(Pass& pass, OTF2_ParameterRef id, int64_t) {
    return id == trace::parameter_level || pass.refuse("an undefined parameter");
}
// A kind of event that the tracer does not write.
OTF2_CallbackCode unknown(OTF2_LocationRef, OTF2_TimeStamp, uint64_t, void* user, OTF2_AttributeList*) {
    static_cast<Pass*>(user)->refuse("an unknown kind of event");
    return OTF2_CALLBACK_INTERRUPT;
}

void set_callbacks(OTF2_EvtReaderCallbacks* to) {
    OTF2_EvtReaderCallbacks_SetUnknownCallback(to, unknown);
#define COPY(name) OTF2_EvtReaderCallbacks_Set##name##Callback(to, Copy<OTF2_EvtWriter_##name>::event<>)
#define COPY_IF(name, check) OTF2_EvtReaderCallbacks_Set##name##Callback(to, Copy<OTF2_EvtWriter_##name>::event<check>)
    COPY_IF(Enter, enters);
    COPY_IF(Leave, leaves);
    COPY_IF(Metric, metric);
    COPY_IF(MpiSend, message);
    COPY_IF(MpiIsend, request);
    COPY_IF(MpiRecv, message);
    COPY_IF(MpiIrecv, request);
    COPY_IF(MpiCollectiveEnd, collective);
    COPY_IF(NonBlockingCollectiveComplete, collective_request);
    COPY(MpiIsendComplete);
    COPY(MpiIrecvRequest);
    COPY(MpiRequestTest);
    COPY(MpiRequestCancelled);
    COPY(MpiCollectiveBegin);
    COPY(NonBlockingCollectiveRequest);
    COPY_IF(ParameterInt, parameter);
    COPY(RmaCollectiveBegin);
    COPY_IF(RmaCollectiveEnd, window_collective);
    COPY_IF(RmaWinCreate, on_window<>);
    COPY_IF(RmaWinDestroy, on_window<>);
    COPY_IF(RmaSync, on_window);
    COPY_IF(RmaRequestLock, on_window);
    COPY_IF(RmaAcquireLock, on_window);
    COPY_IF(RmaReleaseLock, on_window);
    COPY_IF(RmaPut, on_window);
    COPY_IF(RmaGet, on_window);
    COPY_IF(RmaAtomic, on_window);
    COPY_IF(RmaOpCompleteRemote, on_window);
    COPY_IF(RmaOpCompleteNonBlocking, on_window);
    COPY_IF(RmaOpTest, on_window);
    COPY(ThreadFork);
    COPY(ThreadJoin);
    COPY_IF(ThreadTeamBegin, team<>);
    COPY_IF(ThreadTeamEnd, team<>);
    COPY(ThreadAcquireLock);
    COPY(ThreadReleaseLock);
    COPY_IF(ThreadCreate, team);
    COPY_IF(ThreadBegin, team);
    COPY_IF(ThreadWait, team);
    COPY_IF(ThreadEnd, team);
    COPY(BufferFlush);
    COPY(MeasurementOnOff);
    COPY(ProgramEnd);
    COPY(CommCreate);
    COPY(CommDestroy);
#undef COPY
#undef COPY_IF
}

void read_events(const fs::path& folder, uint64_t location, Pass& pass) {
    Reader reader(OTF2_Reader_Open((folder / "traces.otf2").c_str()));
    if (!reader || OTF2_Reader_SetSerialCollectiveCallbacks(reader.get()) != OTF2_SUCCESS ||
        OTF2_Reader_SelectLocation(reader.get(), location) != OTF2_SUCCESS || OTF2_Reader_OpenEvtFiles(reader.get()) != OTF2_SUCCESS) {
        pass.refuse("OTF2 cannot open it");
        return;
    }
    auto* events = OTF2_Reader_GetEvtReader(reader.get(), location);
    if (!events) {
        pass.refuse("OTF2 cannot open it");
        return;
    }
    auto* callbacks = OTF2_EvtReaderCallbacks_New();
    set_callbacks(callbacks);
    OTF2_Reader_RegisterEvtCallbacks(reader.get(), events, callbacks, &pass);
    OTF2_EvtReaderCallbacks_Delete(callbacks);
    uint64_t read = 0;
    do {
        auto code = OTF2_Reader_ReadLocalEvents(reader.get(), events, 1 << 20, &read);
        if (pass.progress.finished) return;
        if (code != OTF2_SUCCESS) {
            pass.refuse("OTF2 cannot read on");
            return;
        }
    } while (read);
    pass.progress.finished = true;
}

// In the child. Its exit code only says that it got to the end.
void child(const fs::path& in, uint64_t location, const EventLimits& limits, Progress& progress, uint64_t most, const fs::path* out) {
    QuietOtf2 quiet;
    Pass pass{nullptr, limits, progress, most, {}};
    if (!out) {
        read_events(in, location, pass);
        return;
    }
    auto archive = create_archive(*out);
    check_otf2(OTF2_Archive_OpenEvtFiles(archive.get()), *out);
    pass.writer = OTF2_Archive_GetEvtWriter(archive.get(), location);
    if (!pass.writer) throw std::runtime_error(quiet.first_error());
    if (most) read_events(in, location, pass);
    for (; !pass.open.empty(); pass.open.pop_back()) {
        check_otf2(OTF2_EvtWriter_Leave(pass.writer, nullptr, progress.last_ns, pass.open.back()), *out);
        ++progress.events;
        ++progress.closed;
    }
    check_otf2(OTF2_Archive_CloseEvtWriter(archive.get(), pass.writer), *out);
    check_otf2(OTF2_Archive_CloseEvtFiles(archive.get()), *out);
}

struct SharedProgress {
    Progress* it;
    SharedProgress() {
        void* memory = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw std::runtime_error(fmt::format("no memory to read events: {}", std::strerror(errno)));
        it = static_cast<Progress*>(memory);
    }
    ~SharedProgress() { munmap(it, sizeof *it); }
    SharedProgress(const SharedProgress&) = delete;
    SharedProgress& operator=(const SharedProgress&) = delete;
};

EventSummary read_bounded(const File& event_file, uint64_t location, const EventLimits& limits, const fs::path& work, const fs::path* out) {
    const auto size = event_file.size();
    auto in = work / "in", written = work / "out";
    if (size) frame_locations(in, {{location, &event_file}});
    auto limit = least_time + std::chrono::seconds(size / bytes_per_second);
    uint64_t most = size / 2;  // no event is smaller; zero: an empty file is written, nothing read
    SharedProgress progress;
    EventSummary summary;
    for (int attempt = 1;; ++attempt) {
        if (attempt == attempts) most = 0;
        std::memset(progress.it, 0, sizeof *progress.it);
        fs::remove_all(written);
        fs::create_directories(written);
        bool ended = in_child(limit, [&] { child(in, location, limits, *progress.it, most, out ? &written : nullptr); });
        if (summary.problem.empty()) summary.problem = progress.it->problem;
        if (ended) break;
        if (summary.problem.empty()) summary.problem = "OTF2's reader died or did not come to an end";
        if (attempt == attempts)
            throw std::runtime_error(
                fmt::format("{}: no event file can be written for location {}; is the disk full?", written.string(), location));
        most = progress.it->events;
    }
    summary.events = progress.it->events;
    summary.first_ns = progress.it->first_ns;
    summary.last_ns = progress.it->last_ns;
    summary.closed = progress.it->closed;
    if (out) {
        auto name = fmt::format("{}.evt", location);
        fs::create_directories(out->parent_path());
        check_whole(written / trace::archive_name / name);
        fs::rename(written / trace::archive_name / name, *out);
    }
    fs::remove_all(in);
    fs::remove_all(written);
    return summary;
}

}  // namespace

EventSummary scan_events(const File& event_file, uint64_t location, const EventLimits& limits, const fs::path& work) {
    return read_bounded(event_file, location, limits, work, nullptr);
}

EventSummary rewrite_events(const File& event_file, uint64_t location, const EventLimits& limits, const fs::path& work,
                            const fs::path& out) {
    return read_bounded(event_file, location, limits, work, &out);
}

}  // namespace polter::seal
