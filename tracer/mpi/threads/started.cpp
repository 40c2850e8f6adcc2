// SPDX-License-Identifier: BSD-3-Clause
// Threads of the program in OTF2's form (paradigm PTHREAD, create and wait): ThreadCreate on the thread that starts another one,
// ThreadBegin and ThreadEnd on that, ThreadWait in the region of pthread_join. A thread is known by its number among those that the process
// started.
//
// A thread may be started, end, or outlive MPI_Finalize at any time. So whatever is written here is written under Process::places_mutex,
// and MPI_Finalize ends under it what still runs.
#include "started.hpp"

#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <vector>

#include "../../conventions.hpp"
#include "../../threads/thread_hooks.h"
#include "callers.hpp"
#include "mutexes.hpp"

namespace polter::mpi {
namespace {

constexpr size_t least_stack = 1 << 16;  // bytes; what opens a location takes some 10 KiB of them

// All under places_mutex.
struct Threads {
    bool defined = false;
    uint32_t comm = 0, region = 0, members = 0;     // local ids; how many members were named
    uint64_t sequence = 0;                          // of the latest thread
    uint64_t began_ns = 0, spent_ns = 0;            // since when, and for how long threads were begun
    std::unordered_map<pthread_t, uint64_t> known;  // by the C library's handle, until it is joined or belongs to another thread
    std::vector<write::Location*> named;            // members
};
Threads& threads() {
    static auto& all = *new Threads;  // threads may end behind the process's destructors
    return all;
}

bool active() {
    return process.on.load(std::memory_order_relaxed);
}

// Ours, while a thread is in it: not cancelled, and its signal handlers record nothing.
class Part {
  public:
    Part() : lock_(process.places_mutex) {}
    Part(const Part&) = delete;

  private:
    // From before the lock until behind it: a handler in between must not wait for it.
    struct Inside {
        Inside() { ++thread.depth; }
        ~Inside() { --thread.depth; }
    } inside_;
    write::NoCancel no_cancel_;
    std::lock_guard<std::mutex> lock_;
};

void define_once() {
    Threads& all = threads();
    if (std::exchange(all.defined, true)) return;
    all.began_ns = write::now();
    all.comm = process.comms->new_id();
    process.archive->define({{"comm", all.comm}, {"created", true}});
    process.archive->define({{"comm", all.comm}, {"member", all.members++}, {"thread", 0}});
    all.region = process.archive->region_id(trace::pthread_join_name, nullptr, 0);
}

// What begins a thread takes some of its stack. Without attributes it has the process's limit, or the 2 MiB of the C library.
bool has_room(const pthread_attr_t* attributes) {
    size_t size = 0;
    return !attributes || pthread_attr_getstacksize(attributes, &size) != 0 || size >= least_stack;
}

// What a program that starts threads all the time pays is bounded: after the first 50 ms of CPU time, for 2 % of its time.
bool affordable() {
    const Threads& all = threads();
    return all.spent_ns < 50'000'000 + (write::now() - all.began_ns) / 50;
}

int create(polter_started* started, const pthread_attr_t* attributes, const void* from) {
    if (!active() || thread.depth > 0) return 0;  // within MPI: a thread of its own
    if (by_openmp(from)) return 0;                // it has its location by its team (teams.cpp)
    const Part part;
    if (!active()) return 0;
    define_once();
    if (!has_room(attributes)) {
        process.archive->warn("a thread that the program started has no records: its stack is smaller than 64 KiB. Its noise is not known");
        return 0;
    }
    if (!affordable()) {
        process.archive->warn(
            "some threads that the program started have no records: it starts too many for recording each. Their noise is not known");
        return 0;
    }
    started->sequence = ++threads().sequence;
    if (thread.location) thread.location->create(thread.location->stamp(), threads().comm, started->sequence);
    return 1;
}

void begin(const polter_started* started) {
    if (!active()) return;
    const Part part;
    if (!active()) return;
    Threads& all = threads();
    all.known[pthread_self()] = started->sequence;
    if (write::Location* location = place_thread(nullptr)) {
        if (std::find(all.named.begin(), all.named.end(), location) == all.named.end()) {
            all.named.push_back(location);
            process.archive->define({{"comm", all.comm}, {"member", all.members++}, {"thread", trace::thread_of(location->id())}});
        }
        location->begin_started(location->stamp(), all.comm, started->sequence);
    }
    timespec used{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);  // since the thread began
    all.spent_ns += static_cast<uint64_t>(used.tv_nsec);
}

int enter_join(pthread_t, const void* from) {
    if (!active() || thread.depth > 0 || !thread.location) return 0;
    const Part part;
    if (!active() || !threads().defined) return 0;
    thread.location->begin_region(threads().region, true, from);
    return 1;
}

void leave_join(pthread_t joined, int is_joined) {
    if (!active() || !thread.location) return;
    const Part part;
    if (!active()) return;
    Threads& all = threads();
    if (const auto known = all.known.find(joined); is_joined && known != all.known.end()) {
        thread.location->waited(thread.location->stamp(), all.comm, known->second);
        all.known.erase(known);
    }
    thread.location->end_region(all.region, trace::pthread_join_name, true);
}

constexpr polter_thread_hooks hooks{.create = create,
                                    .begin = begin,
                                    .enter_join = enter_join,
                                    .leave_join = leave_join,
                                    .awaited = awaited_locks,
                                    .mutex_wanted = mutex_wanted,
                                    .mutex_had = mutex_had,
                                    .mutex_got = mutex_got,
                                    .mutex_released = mutex_released,
                                    .condition_wanted = condition_wanted,
                                    .condition_had = condition_had,
                                    .condition_signalled = condition_signalled};

}  // namespace

// A page that its thread writes itself cannot be read from here: of such a thread the noise since its last event is not known.
bool end_threads() {
    const Part part;
    process.on = false;
    constexpr uint64_t patience_ns = 1'000'000'000;
    if (process.threads.load(std::memory_order_relaxed) > 1 && !process.archive->wait_for_users(patience_ns)) return false;
    const uint64_t time = write::now();
    for (write::Location* location : threads().named) {
        if (location->abandoned()) continue;
        if (process.session && !*polter_backend_limits(polter_session_backend(process.session))) location->take_rest();
        location->end_started(time);
    }
    return true;
}

void follow_threads() {
    know_callers();
    auto* at = static_cast<std::atomic<const polter_thread_hooks*>*>(dlsym(RTLD_DEFAULT, "polter_thread_hooks"));
    if (at) at->store(&hooks, std::memory_order_release);
}

}  // namespace polter::mpi
