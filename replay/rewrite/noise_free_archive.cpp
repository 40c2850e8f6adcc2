// SPDX-License-Identifier: BSD-3-Clause
#include "noise_free_archive.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <otf2/otf2.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>

#include "definition_copy.hpp"
#include "event_copy.hpp"
#include "remaining_noise.hpp"
#include "replay/base/error.hpp"
#include "replay/base/layout.hpp"
#include "replay/base/temporary.hpp"
#include "replay/engine/engine.hpp"
#include "replay/parallel/lending.hpp"
#include "replay/trace/archive.hpp"
#include "replay/trace/conventions.hpp"
#include "replay/trace/metric_value.hpp"
#include "replay/trace/otf2_watchdog.hpp"

namespace polter::replay {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t shortest_event = 2;  // bytes: no OTF2 event record is shorter
constexpr size_t most_chunks = 4;       // of OTF2's buffer; more are written to the file
constexpr const char* part = "traces";  // name of the archive and of its folder of events

struct Chunks {
    size_t count = 0;
    void* list[most_chunks] = {};
};

void* allocate(void*, OTF2_FileType, OTF2_LocationRef, void** buffer, uint64_t bytes) {
    auto* chunks = static_cast<Chunks*>(*buffer);
    if (!chunks) *buffer = chunks = new (std::nothrow) Chunks;
    if (!chunks || chunks->count == most_chunks) return nullptr;
    void* chunk = std::malloc(bytes);
    if (chunk) chunks->list[chunks->count++] = chunk;
    return chunk;
}

void release(void*, OTF2_FileType, OTF2_LocationRef, void** buffer, bool final) {
    auto* chunks = static_cast<Chunks*>(*buffer);
    if (!chunks) return;
    while (chunks->count > 0) std::free(chunks->list[--chunks->count]);
    if (!final) return;
    delete chunks;
    *buffer = nullptr;
}

OTF2_FlushType write_out(void*, OTF2_FileType, OTF2_LocationRef, void*, bool) {
    return OTF2_FLUSH;
}

// While it exists, remembers the first error of the file system. OTF2 does not report it: calls that lost data return success, or a later
// error.
struct Cause {
    OTF2_ErrorCode code = OTF2_SUCCESS;
    OTF2_ErrorCallback before = OTF2_Error_RegisterCallback(keep, this);

    Cause() = default;
    ~Cause() { OTF2_Error_RegisterCallback(before, nullptr); }
    Cause(const Cause&) = delete;
    Cause& operator=(const Cause&) = delete;

    static OTF2_ErrorCode keep(void* cause, const char*, uint64_t, const char*, OTF2_ErrorCode code, const char*, va_list) {
        const bool of_files = code == OTF2_ERROR_ENOSPC || code == OTF2_ERROR_EDQUOT || code == OTF2_ERROR_EFBIG || code == OTF2_ERROR_EIO;
        if (auto& kept = static_cast<Cause*>(cause)->code; of_files && kept == OTF2_SUCCESS) kept = code;
        return code;
    }
};

// The trace being read and the archive being written; closes both in any case.
struct Pair {
    Cause cause;
    OTF2_Reader* reader = nullptr;
    OTF2_Archive* archive = nullptr;
    std::string anchor, written;

    Pair(const std::string& from, const std::string& to, const std::string& shown) : anchor(from), written(shown) {
        reader = OTF2_Reader_Open(from.c_str());
        if (!reader || OTF2_Reader_SetSerialCollectiveCallbacks(reader) != OTF2_SUCCESS)
            throw InputError(fmt::format("{}: can no longer be read; was it changed meanwhile?", from));
        archive = OTF2_Archive_Open(to.c_str(), part, OTF2_FILEMODE_WRITE, OTF2_CHUNK_SIZE_EVENTS_DEFAULT,
                                    OTF2_CHUNK_SIZE_DEFINITIONS_DEFAULT, OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
        static const OTF2_FlushCallbacks flush{write_out, nullptr};
        static const OTF2_MemoryCallbacks memory{allocate, release};
        if (!archive) throw InputError(fmt::format("{}: OTF2 cannot make an archive there", shown));
        check(OTF2_Archive_SetFlushCallbacks(archive, &flush, nullptr));
        check(OTF2_Archive_SetMemoryCallbacks(archive, &memory, nullptr));
        check(OTF2_Archive_SetSerialCollectiveCallbacks(archive));
    }
    ~Pair() {
        // After a failed write, OTF2 would free memory twice when closing.
        if (archive && std::uncaught_exceptions() == 0) OTF2_Archive_Close(archive);
        if (reader) OTF2_Reader_Close(reader);
    }
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;

    void check(OTF2_ErrorCode code) const {
        if (const OTF2_ErrorCode why = cause.code != OTF2_SUCCESS ? cause.code : code; why != OTF2_SUCCESS)
            throw InputError(fmt::format("{}: writing the archive failed ({}); is there room?", written, OTF2_Error_GetDescription(why)));
    }
    void close() {
        OTF2_Archive* done = archive;
        archive = nullptr;
        check(OTF2_Archive_Close(done));
    }
};

using Callbacks = std::unique_ptr<OTF2_EvtReaderCallbacks, decltype(&OTF2_EvtReaderCallbacks_Delete)>;

void copy_events(Pair& pair, uint64_t id, const OTF2_EvtReaderCallbacks* callbacks, EventCopy& copy) {
    OTF2_EvtReader* events = OTF2_Reader_GetEvtReader(pair.reader, id);
    copy.writer = OTF2_Archive_GetEvtWriter(pair.archive, id);
    if (!copy.writer) throw InputError(fmt::format("{}: cannot write location {}; is there room?", pair.written, id));
    if (events && OTF2_Reader_RegisterEvtCallbacks(pair.reader, events, callbacks, &copy) == OTF2_SUCCESS) {
        constexpr uint64_t batch = 1u << 16;
        for (uint64_t read = batch, all = 0; read == batch && all < copy.most_records; all += read) {
            read = 0;
            const InOtf2 inside(Reading::events, id);
            if (OTF2_Reader_ReadLocalEvents(pair.reader, events, batch, &read) != OTF2_SUCCESS) break;
        }
    }
    if (events) OTF2_Reader_CloseEvtReader(pair.reader, events);
    if (!copy.error.empty()) throw InputError(copy.error);
    pair.check(copy.code);
    pair.check(OTF2_Archive_CloseEvtWriter(pair.archive, copy.writer));
}

void make_local_definitions(Pair& pair, const std::vector<uint64_t>& locations) {
    pair.check(OTF2_Archive_OpenDefFiles(pair.archive));
    for (const uint64_t id : locations)
        if (OTF2_DefWriter* local = OTF2_Archive_GetDefWriter(pair.archive, id))
            pair.check(OTF2_Archive_CloseDefWriter(pair.archive, local));
    pair.check(OTF2_Archive_CloseDefFiles(pair.archive));
}

uint64_t most_records(const std::string& anchor, uint64_t id) {
    const uint64_t bytes = event_file_bytes(anchor, id);
    return bytes > 0 ? bytes / shortest_event : UINT64_MAX;
}

}  // namespace

Approximated::Approximated(const std::string& directory, Group* group, Faults faults) : group_(group), faults_(faults) {
    if (group_ && group_->rank() > 0) return;
    fs::path path = fs::path(directory).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    directory_ = path.string();
    std::error_code error;
    if (directory_.empty() || fs::exists(fs::symlink_status(path, error)))
        throw InputError(fmt::format("{}: exists already, and nothing is overwritten; give another name or remove it", directory));
    partial_ = directory_ + ".partial-XXXXXX";
    if (!mkdtemp(partial_.data()))
        throw InputError(fmt::format("{}: cannot be made ({}); does the folder that it shall lie in exist, and may you write there?",
                                     directory, std::strerror(errno)));
    // Inside another unfinished directory, that one is to be removed.
    inside_another_ = watch && *watch->unfinished;
    if (watch && !inside_another_) watch_path(watch->unfinished, partial_);
    held_ = open(partial_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat about;
    if (held_ < 0 || fstat(held_, &about) != 0 || about.st_uid != geteuid())
        throw InputError(fmt::format("{}: was changed by another user; give a name in a folder of your own", partial_));
    reach_ = fmt::format("/proc/self/fd/{}", held_);
    fs::permissions(reach_, fs::perms::group_read | fs::perms::group_exec | fs::perms::others_read | fs::perms::others_exec,
                    fs::perm_options::add, error);
}

Approximated::~Approximated() {
    std::error_code ignored;
    if (!partial_.empty()) fs::remove_all(partial_, ignored);
    if (held_ >= 0) close(held_);
    if (watch && !inside_another_) watch_path(watch->unfinished, "");
}

void Approximated::begin(const Definitions& definitions, std::vector<bool> removed) {
    removed_ = std::move(removed);
    open_.assign(definitions.locations.size(), {});
    ticks_per_second_ = definitions.ticks_per_second;
    global_offset_ = definitions.global_offset;
    // A process that writes no archive needs no folder for one.
    delays_ = std::make_unique<DelayFile>(reach_.empty() ? temporary_directory() + "/polter-delays" : reach_ + "/delays",
                                          definitions.locations.size());
}

Observers Approximated::following(Observers others, size_t lane) {
    others.at_noise = [this](const Thread& thread, const PendingNoise& record, int64_t begin, int64_t end) {
        open_[thread.index].pieces.push_back({begin, end, record.recorded(), record.account, !removed_[record.account]});
    };
    others.at_event = [this, lane, further = std::move(others.at_event)](const Thread& thread, int64_t time, const int64_t* delay) {
        note(thread, delay[lane]);
        if (further) further(thread, time, delay);
    };
    return others;
}

void Approximated::note(const Thread& thread, int64_t delay) {
    if (thread.in_call && thread.now > thread.enter) return;  // inside a call: the times of its regions are known at its Leave
    Open& open = open_[thread.index];
    if (!faults_.noise_stays_behind) note_kept(thread, delay);
    open.since = thread.now;
    open.delay = delay;
    open.in_call = thread.in_call;
    open.pieces.clear();
    delays_->add(thread.index, {thread.record, static_cast<int64_t>(thread.last_ticks - global_offset_),
                                ns_in_ticks(delay, ticks_per_second_), thread.in_call});
}

void Approximated::note_kept(const Thread& thread, int64_t delay) {
    Open& open = open_[thread.index];
    const CallEnd& call = thread.engine->concluded();
    const KeptNoise kept = place_kept_noise(
        {open.since, thread.now, open.delay, delay, open.in_call, call.waited_until, call.approximated_until, call.stepwise}, open.pieces,
        faults_.keep_absorbed);
    for (const NoiseCut& cut : kept.cuts) delays_->add(thread.index, cut);
    const int64_t begin = ns_in_ticks(open.since, ticks_per_second_), end = static_cast<int64_t>(thread.last_ticks - global_offset_);
    for (const DelayTurn& turn : kept.turns) {
        const int64_t ticks = ns_in_ticks(turn.time, ticks_per_second_);
        if (ticks < end && (ticks > begin || !open.in_call))
            delays_->add(thread.index, {0, ticks, ns_in_ticks(turn.delay, ticks_per_second_), open.in_call});
    }
}

std::vector<Approximated::Spilled> Approximated::spilled(const Engine& replayed, Borrowing* borrowing) const {
    const ReadAt own = [this](void* to, size_t bytes, int64_t at) { delays_->read(to, bytes, at); };
    std::vector<Spilled> list(replayed.threads().size());
    if (!group_) {
        for (size_t i = 0; i < list.size(); ++i) list[i] = {own, delays_->first(i)};
        return list;
    }
    Bytes mine;
    for (size_t i = 0; i < list.size(); ++i) {
        if (replayed.threads()[i]->remote) continue;
        mine.put(i);
        mine.put(delays_->first(i));
    }
    const std::vector<Bytes> all = group_->gather(mine);
    for (int process = 0; process < group_->size(); ++process)
        for (Input input(all[static_cast<size_t>(process)]); !input.empty();) {
            Spilled& one = list[input.get<size_t>()];
            one.first = input.get<int64_t>();
            one.read = process == group_->rank() || !borrowing ? own : borrowing->of(process);
        }
    return list;
}

void Approximated::write(const std::string& anchor, const Engine& replayed, const Definitions& definitions, const std::string& what,
                         const std::function<void(double)>& progress, std::vector<Warning>& warnings) {
    delays_->finish();
    std::optional<Borrowing> borrowing;
    if (group_ && group_->rank() == 0) borrowing.emplace(*group_);
    const std::vector<Spilled> spilled_delays = spilled(replayed, borrowing ? &*borrowing : nullptr);
    if (group_ && group_->rank() > 0) {
        lend(*group_, [this](void* to, size_t bytes, int64_t at) { delays_->read(to, bytes, at); });
        return;
    }
    Pair pair(anchor, reach_ + "/archive", directory_);
    const uint64_t refused = copy_properties(pair.reader, pair.archive);
    pair.check(OTF2_Archive_SetProperty(pair.archive, std::string(names::approximated).c_str(), what.c_str(), true));

    DefinitionCopy list;
    copy_definitions(pair.reader, anchor, list);
    read_mappings(pair.reader, anchor, list.locations);
    if (OTF2_Reader_OpenEvtFiles(pair.reader) != OTF2_SUCCESS)
        throw InputError(fmt::format("{}: its event files cannot be opened", anchor));
    pair.check(OTF2_Archive_OpenEvtFiles(pair.archive));

    std::unordered_map<uint64_t, size_t> index_of;
    for (size_t i = 0; i < definitions.locations.size(); ++i) index_of.emplace(definitions.locations[i].id, i);
    const Callbacks callbacks(copying_callbacks(), OTF2_EvtReaderCallbacks_Delete);
    DefinitionCopy all;
    uint64_t unknown = 0, unmoved = 0, forgotten = 0, cut_records = 0;
    int64_t last = 0, approximated_last = 0, cut_ns = 0;
    for (size_t done = 0; done < list.locations.size(); ++done) {
        const uint64_t id = list.locations[done];
        if (all.events.contains(id)) continue;  // defined twice
        const auto index = index_of.find(id);
        const bool replayed_here = index != index_of.end();
        std::unique_ptr<DelayFile::Reader> delays;
        if (replayed_here)
            delays = std::make_unique<DelayFile::Reader>(spilled_delays[index->second].read, spilled_delays[index->second].first);
        ApproximatedClock clock(delays.get(), faults_.wrong_end);
        EventCopy copy(definitions, removed_, clock);
        copy.keep_ago = faults_.ago_as_measured;
        copy.most_records = replayed_here ? replayed.threads()[index->second]->events : most_records(anchor, id);
        copy_events(pair, id, callbacks.get(), copy);
        all.events[id] = copy.records;
        unknown += copy.unknown;
        forgotten += clock.forgotten();
        cut_records += copy.cut_records;
        cut_ns += copy.cut_ns;
        unmoved += !replayed_here && copy.records > 0;
        last = std::max(last, copy.last);
        approximated_last = std::max(approximated_last, copy.approximated_last);
        if (progress) progress(static_cast<double>(done + 1) / static_cast<double>(list.locations.size()));
    }
    if (borrowing) borrowing->end();
    OTF2_Reader_CloseEvtFiles(pair.reader);
    pair.check(OTF2_Archive_CloseEvtFiles(pair.archive));
    make_local_definitions(pair, list.locations);

    all.writer = OTF2_Archive_GetGlobalDefWriter(pair.archive);
    if (!all.writer) throw InputError(fmt::format("{}: cannot write its definitions; is there room?", pair.written));
    all.shorter_by = static_cast<uint64_t>(last - approximated_last);
    all.least_length = static_cast<uint64_t>(approximated_last);
    copy_definitions(pair.reader, anchor, all);
    pair.check(all.code);
    pair.check(OTF2_Archive_CloseGlobalDefWriter(pair.archive, all.writer));
    pair.close();
    delays_.reset();

    const std::string made = reach_ + "/archive";
    if (renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, directory_.c_str(), RENAME_NOREPLACE) != 0) {
        // Some file systems do not support it.
        const int why = errno;
        std::error_code error;
        if (why != EINVAL || fs::exists(fs::symlink_status(directory_, error)))
            throw InputError(fmt::format("{}: cannot be made ({}); give another name", directory_, std::strerror(why)));
        fs::rename(made, directory_, error);
        if (error) throw InputError(fmt::format("{}: cannot be made ({}); give another name", directory_, error.message()));
    }

    uint32_t snapshots = 0, thumbnails = 0;
    OTF2_Reader_GetNumberOfSnapshots(pair.reader, &snapshots);
    OTF2_Reader_GetNumberOfThumbnails(pair.reader, &thumbnails);
    const auto left_out = [&](uint64_t count, const char* kind) {
        if (count > 0) warnings.push_back(warning(Flaw::left_out_of_timeline, count, kind));
    };
    left_out(unknown, "records of kinds that OTF2 does not know are not in the approximated timeline");
    left_out(all.unknown, "definitions of kinds that OTF2 does not know are not in the approximated timeline");
    left_out(refused, "properties of the archive are not in the approximated timeline: OTF2 refuses them");
    left_out(snapshots, "snapshots are not in the approximated timeline");
    left_out(thumbnails, "thumbnails are not in the approximated timeline");
    left_out(fs::exists(fs::path(anchor).replace_extension(".marker")) ? 1 : 0, "file of markers is not in the approximated timeline");
    left_out(forgotten,
             "noise records tell of noise longer ago than is remembered: in the approximated timeline it is as long ago as measured");
    if (cut_records > 0)
        warnings.push_back(warning(Flaw::cut_from_timeline, cut_records, cut_ns, short_time(static_cast<int64_t>(cut_ns))));
    left_out(unmoved, "locations that are no threads of processes stand at their measured times in the approximated timeline");
}

}  // namespace polter::replay
