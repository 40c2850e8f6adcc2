// SPDX-License-Identifier: BSD-3-Clause
// What one process leaves on disk: the folder ranks/<host>.<pid>/ with an OTF2 event file a location, their tails and the sidecar.
// Nothing here needs another process; the sealer makes one archive of all.
//
// Thread-safe, but for create and finish. Nothing throws. A failure ends the tracing (stop), never the program.
#pragma once

#include <otf2/otf2.h>

#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "counters.hpp"
#include "location.hpp"
#include "sidecar.hpp"

namespace polter::write {

struct Identity {
    uint32_t rank = 0, size = 1;
    std::string host, program, mpi, thread_level, world;
    std::string clock;  // names the one that it reads; empty: not known
    std::string cpus;   // that it may use, as it began: "0-3,8"
    int pid = 0;
    uint64_t started_ns = 0;  // by the clock on the wall, which all nodes share more or less
};

struct Exporter {
    std::string name = "none", why;            // why: where the name is "none"
    const polter_page_header* page = nullptr;  // what it can see; NULL: nothing
};

class Archive {
  public:
    struct Options {
        std::string experiment;             // an existing directory
        CounterPlan counters;               // of each thread
        unsigned buffer_chunks = 4;         // of trace::event_chunk_size, for each location, before OTF2 flushes
        std::atomic<bool>* gate = nullptr;  // made false when the tracing stops, so that its callers can spare their part
    };

    // NULL on failure, with the reason (what, where). The result lives until the process ends.
    static Archive* create(const Options&, const Identity&, const Exporter&, std::string& error);

    // A thread's location, with its page or NULL. `first_ns` is the time of its first event; the noise baseline is written there. NULL
    // on failure, which stops the tracing. The location lives as long as the archive.
    Location* add_location(uint32_t thread, int tid, std::unique_ptr<NoiseFeed>, uint64_t first_ns);

    uint32_t string_id(const char* text);
    // Of a region of the program, by its name; `file` may be NULL.
    uint32_t region_id(const char* name, const char* file, unsigned line);

    // Returns when no thread is between begin_use() and end_use() of its location that found `on` true; false: one still is after
    // `limit_ns`, and nothing may be written or closed.
    bool wait_for_users(uint64_t limit_ns);

    // One line of the sidecar (../README.md); a failure stops the tracing.
    void define(const nlohmann::ordered_json& line);

    // Reaches the result's `warnings`. Said once each; at most 100 are kept.
    void warn(const std::string& text);
    // Ends the tracing for good: one line on standard error, a warning, and the time up to which there are events.
    void stop(const std::string& reason, uint64_t time);
    // The same in place of finish(), where that would write beside another thread.
    void give_up(const std::string& reason);
    bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

    void add_own_cost(uint64_t ns) { own_cost_ns_.fetch_add(ns, std::memory_order_relaxed); }

    // Closes all locations and writes the `final` line. No thread may write any more.
    // `pcontrol_ns`: how long MPI_Pcontrol had switched details off.
    void finish(uint64_t pcontrol_ns = 0);

    // What the event files still hold in memory goes nowhere: in a forked child it is the parent's; where they cannot be written, or the
    // process may not write them at its end, stdio would try at exit(), and the program would be ended by SIGXFSZ. The tails keep it.
    void abandon_files();
    // For the end of a process that never finalised: abandons its files if they may be larger than it may write.
    void leave();
    // At the end of the process, behind finish() or where that could not be called: how many events of its threads came after the end of
    // the trace. Nothing where there were none.
    void tell_missed();

  private:
    friend class Location;
    explicit Archive(const Options& options) : options_(options) {}
    bool open(const Identity&, const Exporter&, std::string& error);
    bool close_writers();

    static void* allocate(void* self, OTF2_FileType, OTF2_LocationRef, void** memory, uint64_t size);
    static void release(void* self, OTF2_FileType, OTF2_LocationRef, void** memory, bool final);
    static OTF2_FlushType before_flush(void* self, OTF2_FileType, OTF2_LocationRef, void*, bool final);
    Location* location(uint64_t id);

    Options options_;
    Identity identity_;
    std::string folder_;
    std::string events_;  // where the event files are, without symbolic links
    OTF2_Archive* archive_ = nullptr;
    Sidecar sidecar_;
    std::atomic<bool> stopped_ = false;
    std::atomic<bool> broken_ = false;  // OTF2 failed to write: its writers must not be touched again
    std::atomic<uint64_t> own_cost_ns_ = 0;
    CallSiteIds call_site_ids_{*this};
    std::mutex region_mutex_;
    std::unordered_map<std::string, uint32_t> regions_;
    std::mutex mutex_;  // of what follows
    std::vector<Location*> locations_;
    std::unordered_map<std::string, uint32_t> strings_;
    std::vector<std::string> warnings_;
    uint64_t tracing_ended_ns_ = 0;
};

}  // namespace polter::write
