// SPDX-License-Identifier: BSD-3-Clause
#include "process.hpp"

#include <pthread.h>
#include <unistd.h>

#include "../threads/earlier.hpp"
#include "call.hpp"

namespace polter::mpi {

Process process;
constinit thread_local Thread thread;

namespace {

// Where a thread that had a location ends, its page must go back while the thread is still there.
pthread_key_t thread_end;
std::once_flag thread_end_made;

// Thread-specific data that the program destroys later may call MPI: that is a further thread to the trace.
void end_thread(void* of) {
    auto* location = static_cast<write::Location*>(of);
    delete thread.scratch;
    thread.scratch = nullptr;
    thread.noise = nullptr;
    thread.feed = nullptr;
    thread.location = nullptr;
    if (!process.on.load(std::memory_order_relaxed)) return;
    const write::NoCancel no_cancel;
    ++thread.depth;  // a signal handler's calls are not recorded here
    {
        const std::lock_guard lock(process.places_mutex);
        if (process.on.load(std::memory_order_relaxed)) {
            location->end_started(location->stamp());
            location->close_noise();
            location->abandon();
        }
    }
    --thread.depth;
}

// `of`: the location that is continued; none: a new one.
write::Location* adopt(write::Location* of) {
    const write::NoCancel no_cancel;
    std::call_once(thread_end_made, [] { pthread_key_create(&thread_end, end_thread); });
    const uint64_t began = write::now();
    std::unique_ptr<write::NoiseFeed> feed;
    polter_noise* own = nullptr;
    if (process.session) {
        char error[256] = "";
        if (polter_noise* page = polter_noise_open(process.session, error, sizeof error)) {
            feed = std::make_unique<write::NoiseFeed>(page);
            feed->begin();
            if (*polter_backend_limits(feed->header().backend)) own = page;
        } else {
            process.archive->warn(std::string("a further thread has no noise in the trace: ") + error);
        }
    }
    write::NoiseFeed* const of_location = feed.get();
    write::Location* location = nullptr;
    if (of)
        location = of->resume(std::move(feed)) ? of : nullptr;
    else
        location =
            process.archive->add_location(process.threads.fetch_add(1, std::memory_order_relaxed), gettid(), std::move(feed), write::now());
    process.archive->add_own_cost(write::now() - began);
    if (!location) return nullptr;
    recorded_thread(gettid());
    thread.noise = own;
    thread.feed = of_location;
    pthread_setspecific(thread_end, location);
    return thread.location = location;
}

}  // namespace

write::Location* adopt_thread() {
    return adopt(nullptr);
}

write::Location* adopt_thread_now() {
    const write::NoCancel no_cancel;
    ++thread.depth;  // a signal handler in between must not wait for the lock
    write::Location* mine = nullptr;
    {
        const std::lock_guard lock(process.places_mutex);
        if (process.on.load(std::memory_order_relaxed)) mine = adopt_thread();
    }
    --thread.depth;
    return mine;
}

write::Location* place_thread(write::Location* before) {
    constexpr uint32_t most_threads = 1 << 12;  // of the process that have a location
    static std::vector<write::Location*> places;
    if (before && before->abandoned()) {
        if (write::Location* mine = adopt(before)) return mine;
    }
    for (write::Location* place : places)
        if (place->abandoned()) {
            if (write::Location* mine = adopt(place)) return mine;
        }
    if (process.threads.load(std::memory_order_relaxed) >= most_threads) {
        process.archive->warn("threads beyond the 4096th of a process are not recorded");
        return nullptr;
    }
    write::Location* mine = adopt(nullptr);
    if (mine) places.push_back(mine);
    return mine;
}

}  // namespace polter::mpi
