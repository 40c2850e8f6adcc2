// SPDX-License-Identifier: BSD-3-Clause
#include "locks.hpp"

#include <atomic>
#include <mutex>

#include "../../conventions.hpp"
#include "core/process.hpp"
#include "lock_table.hpp"

namespace polter::mpi {
namespace {

// Whoever holds the lock alone touches what is not atomic.
struct Place {
    std::atomic<const void*> lock{nullptr};
    uint32_t order = 0;   // of the latest recorded acquisition
    uint32_t held = 0;    // the same while it is held; 0: nobody's recorded
    uint32_t nested = 0;  // further acquisitions by whoever holds it
};
LockTable<Place> all;

struct Regions {
    std::once_flag defined;
    uint32_t critical = 0, lock = 0;
} regions;

constinit thread_local uint32_t entered = 0;  // region of the lock that the thread waits for

// NULL: there are too many.
Place* place_of(const void* lock) {
    Place* place = all.add(lock);
    if (!place) process.archive->warn("some locks of OpenMP are not recorded: the program has more than the tracer follows");
    return place;
}

void record(Place& place, uint64_t time) {
    if (place.held) {
        ++place.nested;
        return;
    }
    place.held = ++place.order;
    thread.location->acquired(time, OTF2_PARADIGM_OPENMP, all.number(place), place.held);
}

}  // namespace

int lock_wanted(int critical, const void* from) {
    if (!recording() || thread.depth > 0) return 0;
    const Use use(thread.location);
    if (!use) return 0;
    std::call_once(regions.defined, [] {
        const write::NoCancel no_cancel;
        regions.critical = process.archive->region_id(trace::openmp_critical_name, nullptr, 0);
        regions.lock = process.archive->region_id(trace::openmp_lock_name, nullptr, 0);
    });
    entered = trace::region_count + (critical ? regions.critical : regions.lock);
    use.at().enter_openmp(use.at().early_stamp(), entered, from);
    return 1;
}

void lock_had(const void* lock) {
    if (!recording()) return;
    const Use use(thread.location);
    if (!use) return;
    const uint64_t time = use.at().stamp();
    if (Place* place = lock ? place_of(lock) : nullptr) record(*place, time);
    use.at().leave_openmp(time, entered);
}

void lock_got(const void* lock) {
    if (!recording() || thread.depth > 0) return;
    const Use use(thread.location);
    if (!use) return;
    if (Place* place = place_of(lock)) record(*place, use.at().stamp());
}

void lock_released(const void* lock) {
    if (!recording() || thread.depth > 0) return;
    const Use use(thread.location);
    if (!use) return;
    Place* place = place_of(lock);
    if (!place || !place->held) return;
    if (place->nested) {
        --place->nested;
        return;
    }
    // Before the next one may have it.
    use.at().released(use.at().early_stamp(), OTF2_PARADIGM_OPENMP, all.number(*place), place->held);
    place->held = 0;
}

}  // namespace polter::mpi
