// SPDX-License-Identifier: BSD-3-Clause
#include "archive.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <otf2/OTF2_Pthread_Locks.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "own_part.hpp"

namespace polter::write {
namespace {

using nlohmann::ordered_json;

constexpr size_t most_warnings = 100;

// OTF2's own messages: ours say more and come once. Its calls may return success although a file was cut short on closing it.
std::atomic<bool> otf2_complained{false};
OTF2_ErrorCode keep_quiet(void*, const char*, uint64_t, const char*, OTF2_ErrorCode code, const char*, va_list) {
    otf2_complained = true;
    return code;
}

// "ranks/<host>.<pid>", made anew: containers may share host names and process numbers.
bool make_folder(const std::string& experiment, const Identity& identity, std::string& folder, std::string& error) {
    const std::string ranks = experiment + "/" + trace::ranks_folder;
    if (mkdir(ranks.c_str(), 0777) != 0 && errno != EEXIST) {
        error = ranks + ": " + std::strerror(errno);
        return false;
    }
    std::string host = identity.host;
    std::replace(host.begin(), host.end(), '/', '_');
    const std::string name = ranks + "/" + host + "." + std::to_string(identity.pid);
    for (int i = 0; i < 100; i++) {
        folder = i ? name + "." + std::to_string(i) : name;
        if (mkdir(folder.c_str(), 0777) == 0) return true;
        if (errno != EEXIST) break;
    }
    error = folder + ": " + std::strerror(errno);
    return false;
}

// OTF2's token for the end of a file is its last byte; a location without events has no file.
bool ends_well(const std::string& event_file) {
    const int file = ::open(event_file.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return errno == ENOENT;
    char last = 0;
    const off_t size = lseek(file, 0, SEEK_END);
    const bool well = size > 0 && pread(file, &last, 1, size - 1) == 1 && last == trace::event_file_end;
    ::close(file);
    return well;
}

ordered_json accounts(uint32_t bits) {
    auto names = ordered_json::array();
    for (unsigned a = 0; a < POLTER_ACCOUNTS; a++)
        if (bits >> a & 1) names.push_back(polter_account_name(a));
    return names;
}

// The sums of a rank's own thread, so that they are known without reading its events. Beyond `most` what is left has no culprit.
ordered_json noise_of(const Location& location) {
    constexpr size_t most = 256;
    std::vector<std::pair<std::pair<unsigned, uint32_t>, Location::Taken>> order(location.taken().begin(), location.taken().end());
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
    std::map<unsigned, Location::Taken> unknown;
    auto list = ordered_json::array();
    for (size_t i = 0; i < order.size(); i++) {
        const auto& [by, taken] = order[i];
        if (by.second != Location::no_culprit && i < most) {
            list.push_back({polter_account_name(by.first), by.second, taken.ns, taken.events});
            continue;
        }
        unknown[by.first].ns += taken.ns;
        unknown[by.first].events += taken.events;
    }
    for (const auto& [account, taken] : unknown) list.push_back({polter_account_name(account), nullptr, taken.ns, taken.events});
    return list;
}

}  // namespace

Archive* Archive::create(const Options& options, const Identity& identity, const Exporter& exporter, std::string& error) {
    auto* archive = new Archive(options);
    if (archive->open(identity, exporter, error)) return archive;
    delete archive;
    return nullptr;
}

bool Archive::open(const Identity& identity, const Exporter& exporter, std::string& error) {
    identity_ = identity;
    const OwnPart own_part;
    if (!make_folder(options_.experiment, identity, folder_, error)) return false;
    std::error_code unknown;
    events_ = std::filesystem::canonical(folder_, unknown).string() + "/" + trace::archive_name + "/";
    if (!sidecar_.open(folder_ + "/" + trace::sidecar_name, error)) return false;

    ordered_json first{{"polter_rank", trace::sidecar_version},
                       {"rank", identity.rank},
                       {"size", identity.size},
                       {"host", identity.host},
                       {"pid", identity.pid},
                       {"program", identity.program},
                       {"mpi", identity.mpi},
                       {"cpus", identity.cpus},
                       {"thread_level", identity.thread_level},
                       {"clock_offset_ns", clock_offset_ns},
                       {"started_ns", identity.started_ns}};
    if (!identity.clock.empty()) first["clock"] = identity.clock;
    if (!identity.world.empty()) first["world"] = identity.world;
    const ordered_json second{{"exporter", exporter.name},
                              {"seen", accounts(exporter.page ? exporter.page->accounts_seen : 0)},
                              {"net", accounts(exporter.page ? exporter.page->accounts_net : 0)},
                              {"why", exporter.why}};
    if (!sidecar_.line(first) || !sidecar_.line(second)) {
        error = folder_ + "/" + trace::sidecar_name + ": " + std::strerror(errno);
        return false;
    }

    if (options_.counters.size()) {
        auto counters = ordered_json::array();
        for (const auto& event : options_.counters.perf) counters.push_back({event.name, trace::unit_of(event)});
        for (const auto& name : options_.counters.papi) counters.push_back({name, name.ends_with("-CLOCK") ? "ns" : "#"});
        if (!sidecar_.line({{"counters", counters}})) {
            error = folder_ + "/" + trace::sidecar_name + ": " + std::strerror(errno);
            return false;
        }
    }

    OTF2_Error_RegisterCallback(keep_quiet, nullptr);
    archive_ = OTF2_Archive_Open(folder_.c_str(), trace::archive_name, OTF2_FILEMODE_WRITE, trace::event_chunk_size,
                                 OTF2_CHUNK_SIZE_DEFINITIONS_DEFAULT, OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
    // No post-flush callback, so no BufferFlush record: the flush lies in the own cost.
    // OTF2 keeps the addresses of both.
    static const OTF2_FlushCallbacks flush{before_flush, nullptr};
    static const OTF2_MemoryCallbacks memory{allocate, release};
    const bool opened = archive_ && OTF2_Archive_SetFlushCallbacks(archive_, &flush, this) == OTF2_SUCCESS &&
                        OTF2_Archive_SetMemoryCallbacks(archive_, &memory, this) == OTF2_SUCCESS &&
                        OTF2_Pthread_Archive_SetLockingCallbacks(archive_, nullptr) == OTF2_SUCCESS &&
                        OTF2_Archive_SetSerialCollectiveCallbacks(archive_) == OTF2_SUCCESS &&
                        OTF2_Archive_OpenEvtFiles(archive_) == OTF2_SUCCESS;
    if (!opened) error = folder_ + ": OTF2 could not open an archive there";
    return opened;
}

Location* Archive::add_location(uint32_t thread, int tid, std::unique_ptr<NoiseFeed> noise, uint64_t first_ns) {
    const OwnPart own_part;
    const uint64_t id = trace::location_of(identity_.rank, thread);
    auto* location = new Location(*this, id, std::move(noise));
    const std::string file = folder_ + "/" + std::to_string(id) + ".tail";
    const std::string events = folder_ + "/" + trace::archive_name + "/" + std::to_string(id) + ".evt";
    std::string error;
    if (!location->tail_.open(file, events, options_.buffer_chunks, error)) {
        stop(error, first_ns);
        delete location;
        return nullptr;
    }
    {
        const std::lock_guard lock(mutex_);
        locations_.push_back(location);
    }
    std::string name = "MPI Rank " + std::to_string(identity_.rank);
    if (thread) name += ", thread " + std::to_string(thread);
    define({{"location", id}, {"thread", thread}, {"name", name}, {"tid", tid}});
    location->attributes_ = OTF2_AttributeList_New();
    location->writer_ = OTF2_Archive_GetEvtWriter(archive_, id);
    if (!location->attributes_ || !location->writer_) {
        stop("OTF2 gave no event writer", first_ns);
        return nullptr;
    }
    location->first_ = location->last_ = first_ns;
    if (options_.counters.size()) {
        location->event_counters_ = Counters::open(options_.counters, error);
        if (!location->event_counters_) warn("a thread has no counters in the trace: " + error);
    }
    if (location->noise_) location->noise_->write_baseline(first_ns, *location);
    return stopped() ? nullptr : location;
}

uint32_t Archive::string_id(const char* text) {
    uint32_t id;
    {
        const std::lock_guard lock(mutex_);
        const auto [at, fresh] = strings_.try_emplace(text, static_cast<uint32_t>(strings_.size()));
        id = at->second;
        if (!fresh) return id;
    }
    define({{"string", id}, {"value", text}});
    return id;
}

uint32_t Archive::region_id(const char* name, const char* file, unsigned line) {
    const NoCancel no_cancel;
    const std::lock_guard lock(region_mutex_);  // until the line is written, so that ids are in the order of their lines
    const std::string known = name && *name ? std::string(name, strnlen(name, trace::longest_region_name)) : "unnamed region";
    if (const auto at = regions_.find(known); at != regions_.end()) return at->second;
    const auto id = static_cast<uint32_t>(regions_.size());
    if (id == trace::most_user_regions) return id - 1;
    regions_.emplace(known, id);
    ordered_json region{{"region", id}, {"name", known}};
    if (file) {
        region["file"] = file;
        region["line"] = line;
    }
    define(region);
    return id;
}

void Archive::define(const ordered_json& line) {
    if (stopped() || sidecar_.line(line)) return;
    stop(folder_ + "/" + trace::sidecar_name + ": " + std::strerror(errno), now());
}

void Archive::warn(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (warnings_.size() < most_warnings && std::find(warnings_.begin(), warnings_.end(), text) == warnings_.end())
        warnings_.push_back(text);
}

void Archive::stop(const std::string& reason, uint64_t time) {
    if (stopped_.exchange(true)) return;
    const NoCancel no_cancel;
    if (options_.gate) options_.gate->store(false);
    warn("tracing ended early: " + reason);
    {
        const std::lock_guard lock(mutex_);
        tracing_ended_ns_ = time;
    }
    std::fprintf(stderr, "polter: rank %u: tracing ends here, the program goes on: %s\n", identity_.rank, reason.c_str());
}

void Archive::give_up(const std::string& reason) {
    stop(reason, now());
    sidecar_.line({{"gave_up", reason}});
}

// A thread's store to in_use_ and its look at `on` are in order only for itself; the kernel makes it so for all, which costs the thread
// nothing at its records.
bool Archive::wait_for_users(uint64_t limit_ns) {
    constexpr timespec pause{0, 100'000}, long_pause{0, 10'000'000};
    const NoCancel no_cancel;
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0 ||
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
        nanosleep(&long_pause, nullptr);  // by then the stores of then are seen
    std::vector<const Location*> locations;
    {
        const std::lock_guard lock(mutex_);
        locations.assign(locations_.begin(), locations_.end());
    }
    const uint64_t until = now() + limit_ns;
    for (const Location* location : locations)
        for (; location->in_use_.load(std::memory_order_acquire); nanosleep(&pause, nullptr))
            if (now() > until) return false;
    return true;
}

void Archive::finish(uint64_t pcontrol_ns) {
    const OwnPart own_part;
    const uint64_t began = now();
    uint64_t own_cost = 0, dropped = 0, dropped_ns = 0, clamped = 0, exporter_ended_ns = 0, still_open = 0;
    ordered_json events = ordered_json::object(), times = ordered_json::object(), noise = ordered_json::array();
    for (Location* location : locations_) {
        location->end_team();
        if (location->close_regions()) still_open++;
        if (location->event_counters_ && location->event_counters_->shared())
            warn("the counters were not all on the processor at all times: their values are too small; ask for fewer events");
        location->close_noise();
        dropped += location->dropped_;
        dropped_ns += location->dropped_ns_;
        clamped += location->clamped_;
        own_cost += location->own_cost_ns();
        exporter_ended_ns = std::max(exporter_ended_ns, location->exporter_ended_ns_);
        if (trace::thread_of(location->id_) == 0) noise = noise_of(*location);
        uint64_t count = 0;
        if (location->writer_ && OTF2_EvtWriter_GetNumberOfEvents(location->writer_, &count) == OTF2_SUCCESS) {
            events[std::to_string(location->id_)] = count;
            if (count) times[std::to_string(location->id_)] = {location->first_, location->last_};
        }
    }
    if (still_open)
        warn(
            std::to_string(still_open) +
            " thread(s) were in a parallel region, a task or at a lock of OpenMP when MPI_Finalize ended the trace: these end there in it");
    if (clamped) warn(std::to_string(clamped) + " events had a time below the one before them and were moved up to it");
    const bool whole = close_writers();
    own_cost += own_cost_ns_.load() + (now() - began);
    const ordered_json final{{"final", true},
                             {"events", events},
                             {"dropped", dropped},
                             {"dropped_ns", dropped_ns},
                             {"own_cost_ns", own_cost},
                             {"tracing_ended_ns", tracing_ended_ns_},
                             {"exporter_ended_ns", exporter_ended_ns},
                             {"pcontrol_ns", pcontrol_ns},
                             {"warnings", warnings_},
                             {"times", times},
                             {"noise", noise}};
    // Where the files are not whole the sealer sees it by the number of events, and takes what is there with the tails.
    if (!sidecar_.line(final) || !whole) return;
    for (Location* location : locations_) location->tail_.remove();
}

// The archive itself stays open: closing it would write an anchor that nobody needs, with a look-up of the host's address.
bool Archive::close_writers() {
    // OTF2 3.0 crashes on closing what it could not write before.
    if (broken_) return false;
    bool whole = true;
    otf2_complained = false;
    for (Location* location : locations_) {
        if (location->writer_ && OTF2_Archive_CloseEvtWriter(archive_, location->writer_) != OTF2_SUCCESS) whole = false;
        location->writer_ = nullptr;
    }
    if (OTF2_Archive_CloseEvtFiles(archive_) != OTF2_SUCCESS) whole = false;
    stopped_ = true;
    for (const Location* location : locations_) whole = whole && ends_well(events_ + std::to_string(location->id_) + ".evt");
    whole = whole && !otf2_complained;
    if (!whole) abandon_files();
    return whole;
}

void Archive::abandon_files() {
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    DIR* list = opendir("/proc/self/fd");
    while (const dirent* entry = list && nowhere >= 0 ? readdir(list) : nullptr) {
        char path[4096] = "";
        if (readlinkat(dirfd(list), entry->d_name, path, sizeof path - 1) <= 0 || std::strncmp(path, events_.c_str(), events_.size()) != 0)
            continue;
        dup3(nowhere, std::atoi(entry->d_name), O_CLOEXEC);
    }
    if (list) closedir(list);
    if (nowhere >= 0) ::close(nowhere);
}

void Archive::leave() {
    rlimit limit{};
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) abandon_files();
}

// Threads may still be counting: then a few are left out.
void Archive::tell_missed() {
    uint64_t missed = 0;
    {
        const std::lock_guard lock(mutex_);
        for (const Location* location : locations_) missed += location->missed();
    }
    if (missed) sidecar_.line({{"after_end", missed}});
}

Location* Archive::location(uint64_t id) {
    const std::lock_guard lock(mutex_);
    const auto at = std::find_if(locations_.begin(), locations_.end(), [id](const Location* l) { return l->id_ == id; });
    return at == locations_.end() ? nullptr : *at;
}

void* Archive::allocate(void* self, OTF2_FileType, OTF2_LocationRef id, void** memory, uint64_t) {
    if (!*memory) *memory = static_cast<Archive*>(self)->location(id);
    auto* location = static_cast<Location*>(*memory);
    if (!location) return nullptr;
    void* chunk = location->tail_.take();
    if (location->flush_began_) {
        const uint64_t spent = now() - location->flush_began_;
        location->flush_ns_ += spent;
        location->flush_in_sample_ns_ += spent;
        location->flush_began_ = 0;
        location->flushing_.reset();
    }
    return chunk;
}

void Archive::release(void*, OTF2_FileType, OTF2_LocationRef, void** memory, bool) {
    if (*memory) static_cast<Location*>(*memory)->tail_.flushed();
}

OTF2_FlushType Archive::before_flush(void* self, OTF2_FileType, OTF2_LocationRef id, void*, bool final) {
    if (Location* location = static_cast<Archive*>(self)->location(id); location && !final) {
        location->flush_began_ = now();
        location->flushing_.emplace();
    }
    return OTF2_FLUSH;
}

}  // namespace polter::write
