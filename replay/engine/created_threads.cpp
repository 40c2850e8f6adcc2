// SPDX-License-Identifier: BSD-3-Clause
// Threads that the program starts itself, locks of the threads of a process, tasks: which records belong together. A thread is known by its
// number in the process, an acquisition of a lock by its order. A thread that executes a task in a barrier has not come to that barrier
// yet.
#include <algorithm>
#include <iterator>
#include <utility>

#include "steps.hpp"

namespace polter::replay {

void Engine::on_create(Thread& thread, uint32_t comm, uint64_t number) {
    come_to(thread);
    thread.last = thread.now;
    end_of_idleness(thread);
    if (thread.in_call || learning_) return;
    begin_interval(thread);
    if (recorder_) thread.node = recorder_->begin_call(thread.recorded(), thread.now);
    happens(created_[{comm, number}].creation, thread, thread.now, thread.delay, thread.node);
    note(thread, thread.now, no_region);
}

void Engine::on_thread_begin(Thread& thread, uint32_t comm, uint64_t number) {
    const bool first = !thread.started;
    come_to(thread);
    thread.last = thread.now;
    if (thread.in_call && thread.kind != CallKind::thread_idle) return;
    if (!thread.in_call) open_call(thread, CallKind::thread_idle, no_region, no_call_site);
    if (!learning_) {
        CreatedThread& created = created_[{comm, number}];
        created.end.by = &thread;
        thread.teams.fork = &created.creation;
    }
    thread.teams.begins = first;
    close_call(thread);
}

// Whether it waited for others by means of which the trace knows nothing is not known: in the upper bound its noise was absorbed there.
void Engine::on_thread_end(Thread& thread, uint32_t comm, uint64_t number) {
    come_to(thread);
    thread.last = thread.now;
    end_of_idleness(thread);
    if (thread.in_call) return;
    begin_interval(thread);
    if (!learning_) {
        if (recorder_) thread.node = recorder_->begin_call(thread.recorded(), thread.now);
        CreatedThread& created = created_[{comm, number}];
        LaneVector delay = lane_pool_.copy(thread.delay);
        if (lanes_.bounded()) {
            const int64_t at_creation = created.creation.known ? created.creation.delay[lanes_.high] : 0;
            delay[lanes_.high] = std::min(delay[lanes_.high], at_creation);
        }
        const int64_t* at_end = delay;
        happens(created.end, thread, thread.now, at_end, thread.node);
    }
    open_call(thread, CallKind::thread_idle, no_region, no_call_site);
    note(thread, thread.now, no_region);
}

void Engine::on_thread_wait(Thread& thread, uint32_t comm, uint64_t number) {
    come_to(thread);
    thread.last = thread.now;
    const bool waits = thread.in_call && thread.kind == CallKind::thread_wait;
    if (!waits) end_of_idleness(thread);
    if (learning_ || (thread.in_call && !waits)) return;
    thread.teams.awaited.push_back(&created_[{comm, number}].end);
    if (waits) return;
    open_call(thread, CallKind::thread_wait, no_region, no_call_site);
    close_call(thread);
}

void Engine::on_acquire(Thread& thread, uint32_t number, uint32_t order) {
    come_to(thread);
    thread.last = thread.now;
    const bool in_call = thread.in_call && thread.depth == 0;
    ThreadLock* lock = learning_ ? nullptr : &locks_[{thread.rank, number}];
    if (in_call && thread.kind == CallKind::thread_condition) {
        if (lock) meets(thread, *lock, order);
        return;
    }
    const bool waits = in_call && thread.kind == CallKind::thread_lock;
    if (!waits) end_of_idleness(thread);
    if (!waits && (learning_ || thread.in_call)) return;
    thread.teams.lock = lock;
    thread.teams.order = order;
    if (!waits) open_call(thread, CallKind::thread_lock, no_region, no_call_site);  // it had the lock at once
    close_call(thread);
}

// Of releases behind which the next acquisition has no record so many are kept, as another thread's acquisition may not have been read yet.
static constexpr uint32_t kept_releases = 1024;

static bool is_old(uint32_t order, uint32_t latest) {
    return latest >= order && latest - order >= kept_releases;
}

// NULL: no longer kept. Then that order is not followed.
static ThreadEvent* release_of(ThreadLock& lock, uint32_t order) {
    const auto found = lock.releases.find(order);
    if (found != lock.releases.end()) return &found->second;
    return is_old(order, lock.latest) ? nullptr : &lock.releases[order];
}

// An acquisition of that order is over: none other waits for the release before it.
static void drop_before(ThreadLock& lock, uint32_t order) {
    const auto release = lock.releases.find(order - 1);
    if (release == lock.releases.end()) return;
    if (release->second.wanted > 0) --release->second.wanted;
    if (release->second.wanted == 0) lock.releases.erase(release);
}

// A wait for a condition has several of these: the signal by which it ended, then the mutex.
void Engine::meets(Thread& thread, ThreadLock& lock, uint32_t order) {
    thread.teams.met.push_back({&lock, order});
    if (order <= 1) return;
    ThreadEvent* release = release_of(lock, order - 1);
    if (!release) return thread.engine->count(Flaw::lock_order);
    ++release->wanted;
    thread.teams.awaited.push_back(release);
}

void Engine::conditions_met(Thread& thread) {
    for (const auto& [lock, order] : thread.teams.met) {
        drop_before(*lock, order);
        lock->asked = std::max(lock->asked, thread.leave - thread.delay[lanes_.all]);
        lock->latest = std::max(lock->latest, order);
    }
    thread.teams.met.clear();
}

void Engine::on_release(Thread& thread, uint32_t lock, uint32_t order) {
    come_to(thread);
    thread.last = thread.now;
    end_of_idleness(thread);
    if (learning_) return;
    if (!thread.in_call) {
        begin_interval(thread);
        if (recorder_) thread.node = recorder_->begin_call(thread.recorded(), thread.now);
    }
    happens(locks_[{thread.rank, lock}].releases[order], thread, thread.now, thread.delay, thread.node);
    if (!thread.in_call) note(thread, thread.now, no_region);
}

void Engine::lock_releases(Thread& thread, std::vector<ThreadEvent*>& others) {
    const TeamPlaces& teams = thread.teams;
    if (!teams.lock || teams.order <= 1) return;
    ThreadEvent* release = release_of(*teams.lock, teams.order - 1);
    if (!release) return count(Flaw::lock_order);
    ++release->wanted;
    others.push_back(release);
}

// When the one before asked is not known where its acquisition has no record: it was before this one did, as measured.
bool Engine::acquired(Thread& thread, int64_t asked) {
    ThreadLock* lock = std::exchange(thread.teams.lock, nullptr);
    if (!lock) return true;
    const uint32_t order = thread.teams.order;
    const bool in_order = asked >= lock->asked && (order <= lock->latest + 1 || asked >= thread.enter);
    if (order > lock->latest) {
        lock->asked = asked;
        lock->latest = order;
    }
    drop_before(*lock, order);
    for (auto release = lock->releases.begin(); release != lock->releases.end() && is_old(release->first, order);)
        release = release->second.wanted > 0 ? std::next(release) : lock->releases.erase(release);
    return in_order;
}

// Up to here it has looked for something to do. How long that takes without the noise is not known: as long as measured.
void Engine::leave_barrier_for_task(Thread& thread) {
    TeamPlaces& teams = thread.teams;
    teams.tasks = true;
    const bool barrier = thread.kind == CallKind::thread_barrier || thread.kind == CallKind::thread_dynamic_barrier;
    if (teams.in_task > 0) {
        ++teams.in_task;
    } else if (thread.in_call && thread.depth == 0 && barrier) {
        teams.in_task = 1;
        teams.barrier_region = thread.region;
        teams.dynamic_barrier = thread.kind == CallKind::thread_dynamic_barrier;
        thread.in_call = false;
        thread.pieces.clear();
        begin_interval(thread);
    }
}

void Engine::return_to_barrier(Thread& thread) {
    TeamPlaces& teams = thread.teams;
    if (--teams.in_task > 0 || thread.in_call) return;
    open_call(thread, teams.dynamic_barrier ? CallKind::thread_dynamic_barrier : CallKind::thread_barrier, teams.barrier_region,
              no_call_site);
}

bool Engine::at_barrier_of_tasks(const Thread& thread) const {
    if (!thread.teams.at_barrier || thread.teams.open.empty()) return false;
    const Team& team = *thread.teams.open.back().team;
    return team.barriers[thread.teams.barrier - team.first_barrier].tasks;
}

}  // namespace polter::replay
