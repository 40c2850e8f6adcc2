// SPDX-License-Identifier: BSD-3-Clause
// The trace's clock, read by one thread many times: between two readings of clock_gettime() at most 100 us apart it follows the processor's
// time-stamp counter (TSC), whose reading costs less than half. Only where the kernel's own clock does the same (clock source tsc or
// kvm-clock, invariant TSC), and only as long as each next reading agrees with what was extrapolated.
//
// Error: the clock's change of rate within 100 us (500 ppm at most, where a time service slews it: 50 ns), and the time between the two
// readings that a point is made of, which is a few ns.
//
// The rate that one thread has found is where the others of the process begin: else each would read the clock for its first milliseconds.
#pragma once

#include <cstdint>

#include "clock.hpp"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace polter::write {

class ThreadClock {
  public:
    // After all earlier instructions: a message has arrived before its receive ends.
    uint64_t now() {
#if defined(__x86_64__)
        _mm_lfence();
#endif
        return unordered_now();
    }
    // The processor may read it some instructions early: for what no other thread can compare with its own times.
    uint64_t unordered_now() {
#if defined(__x86_64__)
        const uint64_t since = __rdtsc() - ticks_;
        if (since < follows_) [[likely]]
            return not_before(ns_ + (since * rate_ >> rate_shift));
        return not_before(next_point());
#else
        return write::now();
#endif
    }

    // Ticks for which it is followed from the latest point on; 0: it is read each time.
    uint64_t follows() const {
        return follows_;
    }
    // How often the clock was found elsewhere than extrapolated; then it is read each time for good.
    unsigned disagreements() const {
        return disagreements_;
    }

    static constexpr uint64_t most_disagreement_ns = 500;  // two points are off by half a reading each

  private:
    static constexpr unsigned rate_shift = 32;
    // A new point may lie some ns before where the last one led: a thread's stamps never go back for that.
    uint64_t not_before(uint64_t time) {
        if (latest_ - time <= most_disagreement_ns) [[unlikely]]
            return latest_;
        return latest_ = time;
    }
    uint64_t next_point();
    uint64_t ns_of(uint64_t ticks) const;
    bool agrees(uint64_t ticks, uint64_t ns) const;

    uint64_t ticks_ = 0, ns_ = 0;            // the latest point
    uint64_t latest_ = 0;                    // returned
    uint64_t follows_ = 0;                   // ticks for which it is followed; 0: not at all
    uint64_t rate_ = 0;                      // ns per tick << rate_shift
    uint64_t base_ticks_ = 0, base_ns_ = 0;  // from which the rate is found
    unsigned rates_ = 0;                     // found one after the other, alike; of the first also that it held
    unsigned disagreements_ = 0;
};

}  // namespace polter::write
