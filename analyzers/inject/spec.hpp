// SPDX-License-Identifier: BSD-3-Clause
// What noise to inject, where: the words that a user gives as SPEC.
//
//     KIND[,KEY=VALUE]…        periodic,period=10ms,duration=250us,ranks=0
//
// A published pattern's name, or a file of schema polter.inject/1, stands for a kind with its values.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace polter::inject {

// What is wrong, and what to do.
struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

enum class Kind : uint8_t {
    periodic,     // every `period`, always `duration`
    bernoulli,    // every `period` with probability `probability`, `duration`
    exponential,  // exponential gaps and durations, with these means
    pareto,       // exponential gaps, durations of a Pareto distribution of shape `shape` and mean `duration`, at most 100 times that
    replay,       // events from a file
    timers,       // a storm of timer interrupts: one every `period`
    packets,      // loopback packets, whose softirqs run on the CPU: a burst every `period`
    calls,        // function calls from another CPU (inter-processor interrupts): one every `period`
};
const char* name_of(Kind);

struct Spec {
    std::string text, name;  // as given; as the log calls the source
    Kind kind = Kind::periodic;
    int64_t period_ns = 0, duration_ns = 0;
    double probability = 0.1, shape = 1.5;
    int64_t phase_ns = -1;  // of periodic; −1: drawn
    // In turn noise for `on`, none for `off`, from `after` on. 0 and 0: always noise. What the kind draws is time with noise.
    int64_t on_ns = 0, off_ns = 0, after_ns = 0;
    uint64_t seed = 1;
    bool together = false;    // all CPUs or ranks at the same times (co-scheduled)
    bool by_rank = false;     // `places` are ranks; else CPUs
    std::vector<int> places;  // sorted; empty: all
    std::string file, minus;  // of replay: where the events come from; a quiet trace whose noise is not injected

    bool interrupts() const { return kind == Kind::timers || kind == Kind::packets || kind == Kind::calls; }
    // The part of a CPU that it takes on average, while there is noise; 0 where only running it tells.
    double load() const;
};

Spec parse_spec(const std::string& text);  // throws Error
// "250us", "2.5ms", "1s", "400" (ns). Throws Error.
int64_t parse_time(const std::string& text);
// "0", "0-3", "0+2+5-7" or "0:2". Throws Error.
std::vector<int> parse_places(const std::string& text);
std::string spec_help();

// The highest part of a CPU that real-time threads may take here, at most 0.95, and the longest single event.
struct Limits {
    double load = 0.95;
    int64_t longest_ns = 950'000'000;
};
Limits limits_here();
// Refuses what this machine cannot do: too much of a CPU, a CPU that is not there. Throws Error.
void check(const std::vector<Spec>& specs, const Limits& limits);
// The refusal of more than that. `where`: "CPU 1", "a CPU".
std::string too_much(const std::string& where, double load, double most);

}  // namespace polter::inject
