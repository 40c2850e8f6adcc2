// SPDX-License-Identifier: BSD-3-Clause
// MPI_Init and MPI_Finalize: where the measurement begins and ends.
#include "init.hpp"

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "clocks/leaders.hpp"
#include "collectives/windows.hpp"
#include "fortran.hpp"
#include "messages/partitioned.hpp"
#include "place.hpp"
#include "threads/earlier.hpp"
#include "threads/started.hpp"
#include "threads/teams.hpp"

namespace polter::mpi {
namespace {

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

// "Open MPI v4.1.4, package: …", "MPICH Version:\t4.0.2\n…": the first sentence, in one style.
std::string mpi_version() {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    pmpi.Get_library_version(text, &length);
    std::string version(text, strcspn(text, ",\n"));
    for (const char* filler : {"Version:", "v"})
        if (const size_t at = version.find(std::string(" ") + filler); at != std::string::npos) version.erase(at + 1, std::strlen(filler));
    for (char& c : version)
        if (c == '\t') c = ' ';
    version.erase(std::unique(version.begin(), version.end(), [](char a, char b) { return a == ' ' && b == ' '; }), version.end());
    return version;
}

const char* level_name(int level) {
    switch (level) {
        case MPI_THREAD_SINGLE:
            return "MPI_THREAD_SINGLE";
        case MPI_THREAD_FUNNELED:
            return "MPI_THREAD_FUNNELED";
        case MPI_THREAD_SERIALIZED:
            return "MPI_THREAD_SERIALIZED";
        default:
            return "MPI_THREAD_MULTIPLE";
    }
}

// What tells this MPI_COMM_WORLD from others of the same experiment: the launcher's name of the job, else which launcher it was.
std::string world() {
    for (const char* name : {"PMIX_NAMESPACE", trace::env_launcher, "SLURM_STEP_ID"})
        if (std::string value = environment(name); !value.empty()) return value;
    return "";
}

// "0-3,8"; empty where the kernel does not say.
std::string allowed_cpus() {
    constexpr int most = 1 << 16;
    cpu_set_t* set = CPU_ALLOC(most);
    if (!set) return "";
    std::string list;
    if (sched_getaffinity(0, CPU_ALLOC_SIZE(most), set) == 0) {
        const auto allowed = [&](int cpu) { return cpu < most && CPU_ISSET_S(cpu, CPU_ALLOC_SIZE(most), set); };
        int left = CPU_COUNT_S(CPU_ALLOC_SIZE(most), set);  // else all that no machine has are asked for one by one
        for (int cpu = 0; left > 0; ++cpu) {
            if (!allowed(cpu)) continue;
            const int first = cpu;
            while (allowed(cpu + 1)) ++cpu;
            left -= cpu - first + 1;
            list += (list.empty() ? "" : ",") + std::to_string(first) + (cpu > first ? "-" + std::to_string(cpu) : "");
        }
    }
    CPU_FREE(set);
    return list;
}

write::Identity identity() {
    write::Identity self;
    int rank = 0, size = 1, level = MPI_THREAD_SINGLE;
    pmpi.Comm_rank(constants.comm_world, &rank);
    pmpi.Comm_size(constants.comm_world, &size);
    pmpi.Query_thread(&level);
    process.threaded = level == MPI_THREAD_MULTIPLE;
    self.rank = static_cast<uint32_t>(rank);
    self.size = static_cast<uint32_t>(size);
    char host[256] = "unknown";
    gethostname(host, sizeof host - 1);
    self.host = host;
    self.pid = getpid();
    self.program = program_invocation_short_name;
    self.mpi = mpi_version();
    self.clock = clock_name();
    self.cpus = allowed_cpus();
    self.thread_level = level_name(level);
    self.world = world();
    timespec started{};
    clock_gettime(CLOCK_REALTIME, &started);
    self.started_ns = static_cast<uint64_t>(started.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(started.tv_nsec);
    return self;
}

unsigned buffer_chunks() {
    const std::string text = environment(trace::env_buffer_chunks);
    const long number = text.empty() ? 4 : std::strtol(text.c_str(), nullptr, 10);
    return static_cast<unsigned>(std::clamp(number, 2l, 256l));
}

// The child of a fork shares the mappings and files of its parent and must not touch them.
void in_child() {
    process.on = false;
    if (process.archive) process.archive->abandon_files();
    process.archive = nullptr;
    process.ended = nullptr;
    process.clocks = nullptr;
}

// A program may end without MPI_Finalize; what stdio writes then is after this.
__attribute__((destructor)) void at_exit() {
    thread.feed = nullptr;
    if (write::Archive* ended = process.ended.exchange(nullptr)) ended->tell_missed();
    if (process.archive) process.archive->leave();
}

}  // namespace

namespace handler {

// Everything here is before the trace's first event, so only the job sees its time.
Init::Init(uint32_t region, const void* from) : region_(region), from_(from) {
    experiment_ = environment(trace::env_experiment);
    if (thread.depth++ != 0 || process.archive || experiment_.empty()) return;
    const char* missing = nullptr;
    if (!find_mpi(missing)) {
        std::fprintf(stderr,
                     "polter: not traced: the preload library is for another MPI than the program's (no %s); name the right one by --mpi\n",
                     missing);
        return;
    }
    const uint64_t began = write::now();
    write::clock_offset_ns = polter_noise_clock_offset();
    clock_.now();
    note_earlier_threads();
    open_exporter();
    active_ = true;
    own_cost_ = write::now() - began - static_cast<uint64_t>(write::clock_offset_ns);
    entered_ = write::now();
}

void Init::open_exporter() {
    if (environment(trace::env_exporter) == "none") {
        exporter_.why = environment(trace::env_exporter_why);
        if (exporter_.why.empty()) exporter_.why = "not asked for";
        return;
    }
    char error[512] = "";
    polter_noise_options options{};  // all else from the environment
    options.threads = pages_for_openmp();
    process.session = polter_session_open(&options, error, sizeof error);
    polter_noise* page = process.session ? polter_noise_open(process.session, error, sizeof error) : nullptr;
    if (!page) {
        exporter_.why = error;
        return;
    }
    feed_ = std::make_unique<write::NoiseFeed>(page);
    feed_->begin();
    thread.feed = feed_.get();
    exporter_.page = &feed_->header();
    exporter_.name = polter_backend_name(exporter_.page->backend);
    exporter_.why = polter_backend_limits(exporter_.page->backend);
    if (exporter_.why.empty()) return;
    const std::string better = polter_session_lacks(process.session), chosen = environment(trace::env_exporter_why);
    if (!chosen.empty()) exporter_.why += "; " + chosen;
    if (!better.empty()) exporter_.why += "; in this process " + better;
    thread.noise = page;
}

void Init::end(int result) {
    thread.depth--;
    if (!active_) return;
    if (result == MPI_SUCCESS) begin_trace();
    if (process.on) return;
    thread.noise = nullptr;  // its page goes with this
    thread.feed = nullptr;
}

void Init::begin_trace() {
    const uint64_t began = write::now();
    clock_.now();
    find_most();
    fortran::prepare();
    const write::Identity self = identity();
    std::string error;
    write::CounterPlan counters;
    std::string no_counters;
    read_counter_plan(counters, no_counters);
    const Place place = place_of_files(experiment_, environment(trace::env_job));
    error = place.error;
    if (!place.folder.empty())
        process.archive = write::Archive::create({place.folder, counters, buffer_chunks(), &process.on}, self, exporter_, error);
    if (!process.archive) {
        std::fprintf(stderr, "polter: rank %u is not traced, the program goes on: %s\n", self.rank, error.c_str());
        return;
    }
    if (!no_counters.empty()) process.archive->warn("no counters in the trace: " + no_counters);
    write::Location* location = process.archive->add_location(0, gettid(), std::move(feed_), entered_);
    if (!location) return;
    const int rank = static_cast<int>(self.rank), size = static_cast<int>(self.size);
    if (place.shared) process.clocks = ClockExchange::begin(experiment_, self.world, rank, size, self.clock).release();
    if (process.clocks) {
        process.clocks->run(process.archive, clocks_at_init_ns);
        process.clocks->repeat(std::strtoull(environment(trace::env_clock_interval).c_str(), nullptr, 10));
    }
    process.comms = new Comms(*process.archive);
    process.requests = new Requests;
    process.messages = new Messages;
    process.windows = new Windows;
    process.files = new Files;
    process.partitioned = new Partitioned;
    thread.location = location;
    pthread_atfork(nullptr, nullptr, in_child);

    process.detail.begin(self.rank, entered_);
    process.merges_polls = !std::getenv(trace::env_each_poll);
    if (const auto off = process.detail.restrictions(); !off.is_null()) process.archive->define(off);
    process.on = true;
    follow_openmp();
    follow_threads();
    clock_.now();
    location->enter(entered_, region_, from_);
    process.archive->add_own_cost(own_cost_ + (write::now() - began));
    location->leave(location->end_startup(), region_);
}

// Before MPI ends, and in its time: the job waits for its slowest process there as well.
Finalize::Finalize(Call& call) : call_(call) {
    if (thread.depth != 1 || !process.clocks) return;
    const uint64_t spent = process.clocks->run(process.archive, clocks_at_finalize_ns);
    process.clocks->end();
    process.clocks = nullptr;
    if (process.archive) process.archive->add_own_cost(spent);
}

void Finalize::end(int) {
    if (thread.depth != 1 || !process.archive) return;
    if (thread.location) thread.location->take_rest();
    call_.leave();
    process.ended = process.archive;
    if (!end_threads()) {  // to close anything would be to write beside that thread: the sealer finds the events in the tails
        process.archive->give_up("another thread was still writing an event a second after MPI_Finalize");
        return;
    }
    thread.noise = nullptr;
    thread.feed = nullptr;
    tell_earlier_threads();
    process.archive->finish(process.detail.pcontrol_ns(write::now()));
    process.archive = nullptr;
    if (process.session) polter_session_close(process.session);
    process.session = nullptr;
}

}  // namespace handler
}  // namespace polter::mpi
