// SPDX-License-Identifier: BSD-3-Clause
// What was observed of a node: sums by CPU, account, culprit. Times are nanoseconds of CLOCK_MONOTONIC of the initial time namespace.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "histogram.h"

namespace polter::node {

// Events of one kind, with their durations.
struct Stats {
    std::uint64_t count = 0;
    std::uint64_t total_ns = 0;
    std::uint64_t max_ns = 0;
    std::array<std::uint64_t, POLTER_BINS> bin{};

    void add(std::uint64_t ns);
    void operator+=(const Stats&);
    // Of a later state of the same sums, less an earlier one. `max_ns` is then the upper bound of the highest bin that has moved, or the
    // maximum, if that has.
    Stats since(const Stats& earlier) const;

    std::uint64_t mean_ns() const { return count ? total_ns / count : 0; }
    // The smallest duration that at least this part of the events does not exceed, as the middle of its bin (histogram.h: at most 12.5 %
    // off). 0 without events.
    std::uint64_t percentile_ns(double part) const;
};

// An account of page.h, or that a task had the CPU (net of what interrupted it).
inline constexpr unsigned ran = POLTER_ACCOUNT_SLOTS;

struct Entry {
    unsigned cpu = 0;
    unsigned account = 0;  // enum polter_account, or `ran`
    bool idle = false;     // it hit a CPU that ran no task, or (ran) there was none to run
    std::string culprit;   // a task's command name, an interrupt's, a softirq's; a work item's function behind "work:"; "" for idle
    Stats stats;
};

struct Cpu {
    unsigned cpu = 0;
    std::uint64_t begin_ns = 0, end_ns = 0;  // measured in between; the end is now while it goes on
    std::uint64_t steal_ns = 0;              // by /proc/stat, in its clock ticks
};

struct Observation {
    std::vector<Cpu> cpus;            // those that were measured
    std::vector<Entry> entries;       // each (CPU, account, idle, culprit) once
    std::uint32_t accounts_seen = 0;  // bit set of enum polter_account
    std::string not_seen;             // in words, why the others are not
    // Flaws, counted.
    std::uint64_t events_not_shown = 0;               // by the kernel
    std::uint64_t unbalanced = 0;                     // interruptions whose begin and end do not fit: dropped
    std::uint64_t not_booked = 0, not_booked_ns = 0;  // events that found no room in the table of culprits: in no sum
    std::uint64_t waits_not_followed = 0;             // no room for another task
};

// Measures from its making until stop().
class Observer {
  public:
    virtual ~Observer() = default;
    virtual const char* name() const = 0;
    // The sums so far. Taken while events go on: a count may be one event ahead of its total.
    virtual Observation read() = 0;
    // Ends the measuring of each CPU; read() then gives the final sums, exactly.
    virtual void stop() = 0;
};

}  // namespace polter::node
