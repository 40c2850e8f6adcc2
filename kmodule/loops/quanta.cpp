// SPDX-License-Identifier: BSD-3-Clause
// Fixed work, fixed time.
#include <algorithm>
#include <cmath>

#include "watch.hpp"

namespace polter::loops {

void fixed_work(const Options& options, Result& result, Recorder& recorder) {
    const std::uint64_t steps = steps_of(options.quantum_ns);
    result.samples.reserve(
        std::min<std::size_t>(most_samples, static_cast<std::size_t>(1e9 * options.seconds / static_cast<double>(options.quantum_ns)) + 1));
    Books books(result, recorder);
    std::uint64_t seed = 1, now = books.begin();
    const std::uint64_t end = now + static_cast<std::uint64_t>(options.seconds * 1e9);
    while (now < end && !node::Interrupt::requested() && !books.full()) {
        const std::uint64_t from = now;
        seed = work(steps, seed);
        const std::uint64_t until = now_ns();
        books.sample(from, until);
        now = books.resume();
    }
    result.end_ns = now;
    result.cut_short = books.full();
    std::uint64_t shortest = ~0ull;
    for (const auto& s : result.samples) shortest = std::min(shortest, s.end_ns - s.begin_ns);
    result.turn_ns = result.samples.empty() ? 0 : shortest;
    result.threshold_ns = options.threshold_ns ? options.threshold_ns : std::max<std::uint64_t>(1, shortest / 100);
    for (auto& s : result.samples) s.lost_ns = s.end_ns - s.begin_ns - shortest;
}

void fixed_time(const Options& options, Result& result, Recorder& recorder) {
    constexpr std::uint64_t unit_ns = 500;  // so that reading the clock is the lesser part of a unit
    const std::uint64_t steps = steps_of(unit_ns);
    Books books(result, recorder);
    std::uint64_t seed = 1, now = books.begin();
    const std::uint64_t first = now, end = now + static_cast<std::uint64_t>(options.seconds * 1e9);
    while (now < end && !node::Interrupt::requested() && !books.full()) {
        const std::uint64_t from = now, deadline = first + ((from - first) / options.quantum_ns + 1) * options.quantum_ns;
        std::uint64_t units = 0;
        do {
            seed = work(steps, seed);
            units++;
            now = now_ns();
        } while (now < deadline);
        books.sample(from, now, units);
        now = books.resume();
    }
    result.end_ns = now;
    result.cut_short = books.full();
    // What a unit takes in the best quantum; short ones, which keeping the books has cut, say little.
    double best = INFINITY;
    for (const auto& s : result.samples)
        if (s.end_ns - s.begin_ns >= options.quantum_ns / 2)
            best = std::min(best, static_cast<double>(s.end_ns - s.begin_ns) / static_cast<double>(s.work));
    if (!std::isfinite(best)) best = static_cast<double>(unit_ns);
    result.turn_ns = static_cast<std::uint64_t>(std::llround(best));
    result.threshold_ns =
        options.threshold_ns ? options.threshold_ns : std::max<std::uint64_t>(2 * result.turn_ns, options.quantum_ns / 100);
    for (auto& s : result.samples) {
        const double done = best * static_cast<double>(s.work), took = static_cast<double>(s.end_ns - s.begin_ns);
        s.lost_ns = took > done ? static_cast<std::uint64_t>(took - done) : 0;
    }
}

}  // namespace polter::loops
