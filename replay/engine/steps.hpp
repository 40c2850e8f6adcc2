// SPDX-License-Identifier: BSD-3-Clause
// What the engine does at each record of a thread. Here, so that the compiler has it in one piece with what decodes the records.
#pragma once

#include "engine.hpp"
#include "replay/scenario/injection.hpp"
#include "replay/trace/metric_value.hpp"

namespace polter::replay {

// False: the thread cannot be read further.
inline bool Engine::advance(Thread& thread, uint64_t ticks) {
    if (ticks < thread.last_ticks) {
        thread.broken = true;
        return false;
    }
    thread.last_ticks = ticks;
    const uint64_t since = ticks - offset_ticks_;  // of times before the offset: more than all others
    if (ticks_per_second_ != 1'000'000'000 || since > static_cast<uint64_t>(most_ns)) return advance_otherwise(thread, ticks);
    thread.now = static_cast<int64_t>(since);
    return true;
}

// Called at each Enter, Leave and MPI record, after advance(): takes the noise up to it, and sets up the first event of a thread.
inline void Engine::come_to(Thread& thread) {
    if (!thread.started) {
        thread.started = true;
        thread.first = thread.last = thread.worked_until = thread.now;
        thread.claimed.start(thread.now);
    }
    if (!learning_ && thread.next_late < thread.late.size() && thread.late[thread.next_late].time <= thread.now) join_late_noise(thread);
    if (!thread.pending.empty()) take_noise(thread, thread.now);
    if (recorder_ && !thread.in_call) thread.node = recorder_->computed(thread.recorded(), thread.now);
    if (injection_ && thread.carries_rank && !thread.in_call) {
        injection_->work(thread.rank, thread.worked_until, thread.now, thread.delay);
        thread.worked_until = thread.now;
    }
}

inline void Engine::begin_interval(Thread& thread) {
    if (learning_) thread.room.add(thread.claimed.floor(), thread.now, thread.claimed.room(thread.now));
    thread.claimed.start(thread.now);
}

// Between regions a thread waits, until it does something else than begin its next share.
inline void Engine::end_of_idleness(Thread& thread) {
    if (thread.in_call && of_threads(thread.kind) &&
        (thread.kind == CallKind::thread_idle || thread.kind == CallKind::thread_join || thread.kind == CallKind::thread_lock)) {
        thread.teams.joining.reset();
        close_call(thread);
    }
}

inline void Engine::open_call(Thread& thread, CallKind kind, uint32_t region, uint32_t call_site) {
    thread.in_call = true;
    thread.has_mpi = thread.has_mpi || !of_threads(kind);
    thread.kind = kind;
    thread.region = region;
    thread.call_site = call_site;
    thread.depth = 0;
    thread.poll_run = {};
    thread.enter = thread.now;
    begin_interval(thread);
}

inline void Engine::on_enter(Thread& thread, uint32_t region, uint32_t call_site) {
    come_to(thread);
    end_of_idleness(thread);
    thread.teams.behind_barrier = false;
    thread.last = thread.now;
    const CallKind kind = archive_.definitions().kind(region);
    if (kind == CallKind::thread_task && !faults_.tasks_in_barrier) leave_barrier_for_task(thread);
    if (thread.in_call) {
        ++thread.depth;
    } else if (kind != CallKind::not_mpi && kind != CallKind::thread_task) {
        open_call(thread, kind, region, call_site);
    }
    note(thread, thread.now, no_region);
    if (thread.follows_regions && !thread.in_call) thread.regions.enter(region);
}

inline void Engine::on_leave(Thread& thread, uint32_t region) {
    come_to(thread);
    end_of_idleness(thread);
    thread.last = thread.now;
    if (thread.in_call) {
        if (thread.depth > 0 && region != thread.region) {
            --thread.depth;
        } else {
            if (thread.depth > 0) count(Flaw::call_not_left);  // regions inside the call were never left
            close_call(thread);
            return;
        }
    }
    note(thread, thread.now, no_region);
    if (thread.follows_regions && !thread.in_call) thread.regions.leave();
    if (thread.teams.in_task > 0 && archive_.definitions().kind(region) == CallKind::thread_task) return_to_barrier(thread);
}

}  // namespace polter::replay
