// SPDX-License-Identifier: BSD-3-Clause
// What the supervisor and its worker process share: one anonymous mapping. The worker writes events, the supervisor takes them out, so they
// survive the worker whatever ends it.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "log.hpp"
#include "schedule.hpp"

namespace polter::inject {

enum class Step : uint32_t { starting, running, ended, ring_full, rank_gone, failed };

// One thread of the worker: one specification at one place.
struct Target {
    static constexpr uint64_t ring = 1u << 12;

    // Set before the worker is told to begin.
    int32_t spec, place;  // place: the rank, or the position in the list of CPUs
    int32_t cpu;          // where a CPU was given
    pid_t pid;            // of the rank; 0: none was given
    // Of the worker; the supervisor reads.
    std::atomic<pid_t> thread;
    std::atomic<Step> step;
    std::atomic<int32_t> error;     // errno, where it failed
    std::atomic<bool> unbound;      // the rank may run on several CPUs
    std::atomic<uint64_t> written;  // events so far
    std::atomic<uint64_t> caused;   // interrupts so far
    // Of the supervisor.
    std::atomic<uint64_t> taken;
    Injected events[ring];
};

struct Shared {
    std::atomic<bool> stop;
    std::atomic<bool> normal_priority, not_locked;
    std::atomic<bool> packets_here;  // packets are received on the CPU that sends them: another needs a network namespace
    // Set before the worker is told to begin.
    int64_t start_ns, until_ns;  // CLOCK_MONOTONIC
    double most_load;            // of a CPU
    uint32_t targets;
    // When the injector may take a CPU again: whatever hits it, the rest of the CPU's time stays free. CLOCK_MONOTONIC.
    std::atomic<int64_t> free_from[CPU_SETSIZE];
};

// The worker's whole life: gets ready, waits for a byte from `begin_fd`, injects. `schedule_of`: of each target. Never returns.
[[noreturn]] void work(Shared& shared, Target* targets, const std::function<Schedule(const Target&)>& schedule_of,
                       const std::vector<Spec>& specs, pid_t supervisor, int begin_fd);

int64_t monotonic_ns();

}  // namespace polter::inject
