// SPDX-License-Identifier: BSD-3-Clause
// What the three loops share: the clock, and the books that they keep beside their work.
#pragma once

#include <ctime>

#include "interrupt.hpp"
#include "loops.hpp"

namespace polter::loops {

// The clock of the recorded events. By the vDSO, so no system call where the clock source allows it.
inline std::uint64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
}

constexpr std::size_t most_samples = 4'000'000;

class Books {
  public:
    Books(Result& result, Recorder& recorder) : result_(result), recorder_(recorder) {}

    // The loop begins to watch, from the time that this returns; what was recorded before is no part of it.
    std::uint64_t begin();
    // It has watched until then: the events that ended in (from, until] belong to the sample, earlier ones are below the threshold.
    void sample(std::uint64_t from_ns, std::uint64_t until_ns, std::uint64_t work = 0);
    // No sample; only so that the recorder's ring does not overflow.
    void empty(std::uint64_t until_ns);
    // It watches again, from the time that this returns.
    std::uint64_t resume();
    bool full() const { return result_.samples.size() >= most_samples; }

  private:
    void take(std::uint64_t until_ns);
    void outside(const Event&, std::uint64_t until_ns);
    Result& result_;
    Recorder& recorder_;
    std::vector<Event> taken_;
    std::uint64_t watching_ns_ = 0;  // since when it watches
    std::uint64_t stopped_ns_ = 0;   // until when it did
};

// Work that no compiler shortens and no memory delays: so many steps of a linear congruential generator.
inline std::uint64_t work(std::uint64_t steps, std::uint64_t seed) {
    for (std::uint64_t i = 0; i < steps; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(seed));
    }
    return seed;
}

// Steps that take about so long, undisturbed.
std::uint64_t steps_of(std::uint64_t ns);

void selfish(const Options&, Result&, Recorder&);
void fixed_work(const Options&, Result&, Recorder&);
void fixed_time(const Options&, Result&, Recorder&);

}  // namespace polter::loops
