// SPDX-License-Identifier: BSD-3-Clause
// A release of a mutex has the order of the acquisition that it ends, also where that had no record as it did not wait. Threads that wait
// for a condition have a list, in the order in which they came: whoever signals marks the first, or all, with a number each. That is the
// release that such a thread waits for; its own acquisition has the number behind. From then on it waits for the mutex, too.
#include "mutexes.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <utility>

#include "../../conventions.hpp"
#include "../../threads/openmp_hooks.h"
#include "../../threads/thread_hooks.h"
#include "callers.hpp"
#include "core/process.hpp"
#include "lock_table.hpp"
#include "teams.hpp"

namespace polter::mpi {

uint32_t awaited_locks[polter_slots];

namespace {

struct Place {
    std::atomic<const void*> lock{nullptr};
    std::atomic<uint32_t> waiting{0};  // threads
    // Of a mutex: touched by whoever has it.
    uint32_t order = 0;     // of the latest recorded acquisition or release
    uint32_t held = 0;      // of the acquisition while it lasts, 0: not recorded
    uint32_t more = 0;      // how many acquisitions that do not wait are recorded from here
    uint64_t released = 0;  // when
    // Of a condition: under list_mutex; `order` is the latest signal's.
    polter_wait* first = nullptr;
};
LockTable<Place> all;
std::mutex list_mutex;

struct Regions {
    std::once_flag defined;
    uint32_t mutex = 0, condition = 0;
} regions;

bool active() {
    return process.on.load(std::memory_order_relaxed);
}

void change(Place& place, int by) {
    std::atomic_ref(awaited_locks[polter_slot(place.lock.load(std::memory_order_relaxed))]).fetch_add(static_cast<uint32_t>(by));
}
void wait_for(Place& place, int by) {
    place.waiting.fetch_add(static_cast<uint32_t>(by));
    change(place, by);
}

Place* place_of(const void* lock) {
    Place* place = all.add(lock);
    if (!place)
        process.archive->warn("waits for some mutexes and conditions are not recorded: the program has more than the tracer follows");
    return place;
}
// Behind those of OpenMP (locks.cpp).
uint32_t number(const Place& place) {
    return static_cast<uint32_t>(LockTable<Place>::size) + all.number(place);
}

void define_regions() {
    std::call_once(regions.defined, [] {
        const write::NoCancel no_cancel;
        regions.mutex = process.archive->region_id(trace::pthread_mutex_name, nullptr, 0);
        regions.condition = process.archive->region_id(trace::pthread_condition_name, nullptr, 0);
    });
}

// The call returns what it returns untraced, in errno as well.
class KeepErrno {
  public:
    KeepErrno() = default;
    ~KeepErrno() { errno = error_; }
    KeepErrno(const KeepErrno&) = delete;

  private:
    int error_ = errno;
};

// Where threads wait for a mutex the replay should know its whole order.
constexpr uint32_t recorded_behind_wait = 8;

void record(Place& place, write::Location& location, uint64_t time, uint32_t more) {
    const int reasons = (place.held != 0) + (place.more != 0);
    // Whoever had it released it unseen, or has ended with it.
    if (place.held) location.released(time, OTF2_PARADIGM_PTHREAD, number(place), place.held);
    place.held = ++place.order;
    place.more = more;
    change(place, 1 + (more != 0) - reasons);
    location.acquired(time, OTF2_PARADIGM_PTHREAD, number(place), place.held);
}

// Of a mutex that knows its owner, an unlock by another thread fails, and of several acquisitions by its owner the first and the last
// release count (glibc, nptl/pthread_mutex_unlock.c).
bool is_outermost(const pthread_mutex_t& mutex) {
    constexpr int kinds = 3, robust = 16;
    const int kind = mutex.__data.__kind & kinds;
    const bool owned = kind == PTHREAD_MUTEX_RECURSIVE || kind == PTHREAD_MUTEX_ERRORCHECK || mutex.__data.__kind & robust;
    if (!owned) return true;
    return mutex.__data.__owner == gettid() && (kind != PTHREAD_MUTEX_RECURSIVE || mutex.__data.__count == 1);
}

}  // namespace

int mutex_wanted(const void* mutex, const void* from) {
    if (!active() || thread.depth > 0 || !thread.location || by_others(from)) return 0;
    const KeepErrno keep;
    not_recorded(polter_uncontended_mutexes);
    const Use use(thread.location);
    Place* place = use ? place_of(mutex) : nullptr;
    if (!place) return 0;
    wait_for(*place, 1);
    define_regions();
    use.at().enter_openmp(use.at().early_stamp(), trace::region_count + regions.mutex, from);
    return 1;
}

void mutex_had(const void* mutex, int locked) {
    const KeepErrno keep;
    Place& place = *all.known(mutex);
    wait_for(place, -1);
    const Use use(thread.location);
    if (!use) return;
    const uint64_t time = use.at().stamp();
    if (locked) record(place, use.at(), time, recorded_behind_wait);
    use.at().leave_openmp(time, trace::region_count + regions.mutex);
}

void mutex_got(const pthread_mutex_t* mutex) {
    if (!active() || thread.depth > 0) return;
    Place* place = all.known(mutex);
    if (!place || !is_outermost(*mutex) || place->more == 0) return;
    const KeepErrno keep;
    const Use use(thread.location);
    if (use) record(*place, use.at(), use.at().stamp(), place->more - 1);
}

void mutex_released(const pthread_mutex_t* mutex) {
    constexpr uint64_t least_ns = 1000;  // between two of which neither ended a recorded acquisition
    if (!active() || thread.depth > 0) return;
    Place* place = all.known(mutex);
    if (!place || (!place->held && place->waiting.load() == 0) || !is_outermost(*mutex)) return;
    const KeepErrno keep;
    const Use use(thread.location);
    if (!use) return;
    const uint64_t time = use.at().early_stamp();
    if (place->held) {
        change(*place, -1);
    } else {
        if (place->released != 0 && time < place->released + least_ns) return;
        place->held = ++place->order;
    }
    use.at().released(time, OTF2_PARADIGM_PTHREAD, number(*place), place->held);
    place->held = 0;
    place->released = time;
}

int condition_wanted(polter_wait* wait, const void* from) {
    if (!active() || thread.depth > 0 || !thread.location || by_others(from)) return 0;
    const KeepErrno keep;
    not_recorded(polter_uncontended_mutexes);
    const Use use(thread.location);
    Place* place = use ? place_of(wait->condition) : nullptr;
    wait->place = place ? place_of(wait->mutex) : nullptr;
    if (!wait->place) return 0;
    {
        const std::lock_guard lock(list_mutex);
        polter_wait** last = &place->first;
        while (*last) last = &(*last)->next;
        *last = wait;
    }
    wait_for(*place, 1);
    define_regions();
    use.at().enter_openmp(use.at().early_stamp(), trace::region_count + regions.condition, from);
    return 1;
}

// A thread that is not the first of the list may be the one that is woken. It takes the signal of one that is marked.
void condition_had(polter_wait* wait, int woken) {
    const KeepErrno keep;
    Place &place = *all.known(wait->condition), &mutex = *static_cast<Place*>(wait->place);
    {
        ++thread.depth;
        const std::lock_guard lock(list_mutex);
        polter_wait** at = &place.first;
        while (*at != wait) at = &(*at)->next;
        *at = wait->next;
        polter_wait* other = woken && !wait->signal ? place.first : nullptr;
        while (other && !other->signal) other = other->next;
        if (other) std::swap(wait->signal, other->signal);
        --thread.depth;
    }
    wait_for(place, -1);
    if (wait->signal) wait_for(mutex, -1);
    const Use use(thread.location);
    if (!use) return;
    const uint64_t time = use.at().stamp();
    if (wait->signal && woken) {
        use.at().acquired(time, OTF2_PARADIGM_PTHREAD, number(place), wait->signal + 1);
        record(mutex, use.at(), time, recorded_behind_wait);
    }
    use.at().leave_openmp(time, trace::region_count + regions.condition);
}

void condition_signalled(const void* condition, int wakes_all) {
    if (!active() || thread.depth > 0) return;
    Place* place = all.known(condition);
    if (!place || place->waiting.load() == 0) return;
    const KeepErrno keep;
    const Use use(thread.location);
    if (!use) return;
    uint32_t first = 0, last = 0;
    {
        const std::lock_guard lock(list_mutex);
        first = place->order + 1;
        for (polter_wait* wait = place->first; wait; wait = wait->next) {
            if (wait->signal) continue;
            wait->signal = ++place->order;
            wait_for(*static_cast<Place*>(wait->place), 1);
            if (!wakes_all) break;
        }
        last = place->order;
    }
    const uint64_t time = use.at().early_stamp();
    for (uint32_t order = first; order <= last; ++order) use.at().released(time, OTF2_PARADIGM_PTHREAD, number(*place), order);
}

}  // namespace polter::mpi
