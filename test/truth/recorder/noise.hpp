// SPDX-License-Identifier: BSD-3-Clause
// Noise as a rank's processor sees it: a seeded, endless row of stolen intervals that never overlap, and a clock that says when work
// is done on a processor they are stolen from. Integer nanoseconds of simulated time.
#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

namespace polter::truth {

enum class Arrival { periodic, random, heavy_tailed };

// One source of noise, as given on the command line: NAME:ARRIVAL:KEY=VALUE,… with the keys period (ns, mean distance of two events),
// duration (ns, mean), rank (only this one; without it every rank), culprit (no ',' in it), alpha (Pareto's, > 1; heavy_tailed only).
// periodic: equal distances from a random phase, durations within ±20 %. random: exponential distances and durations.
// heavy_tailed: exponential distances, Pareto durations cut at 100 times the mean.
struct NoiseSource {
    std::string name, culprit;
    Arrival arrival = Arrival::periodic;
    int64_t period = 0, duration = 0;
    int64_t rank = -1;
    double alpha = 1.5;
};

// Throws std::invalid_argument, saying what is wrong with the text.
NoiseSource parse_noise(const std::string& text);

struct NoiseEvent {
    int64_t start = 0, end = 0;
    uint32_t source = 0;  // index into the list of sources
    int64_t duration() const { return end - start; }
};

// A rank's processor. Two events that would overlap are served one after the other, as pending interrupts are; so durations add up.
class Processor {
  public:
    Processor() = default;
    // Nothing hits before `begin`.
    Processor(const std::vector<NoiseSource>& sources, int64_t rank, uint64_t seed, int64_t begin = 0);

    // When `work` ns of work that begin at `now` are done. Work of 0 waits out the event that `now` lies in.
    // `now` must not be earlier than the result of the call before.
    int64_t finish(int64_t now, int64_t work);

    // Events that ended by the latest time given to or by finish(), oldest first.
    const std::vector<NoiseEvent>& noise() const { return noise_; }

  private:
    struct Stream {
        NoiseSource source;
        uint32_t index;
        std::mt19937_64 random;
        int64_t next_start, next_duration;
    };
    static void advance(Stream&);
    NoiseEvent& upcoming();
    void pass();

    std::vector<Stream> streams_;
    bool have_upcoming_ = false;
    NoiseEvent upcoming_;
    int64_t last_end_ = 0;
    std::vector<NoiseEvent> noise_;
};

}  // namespace polter::truth
