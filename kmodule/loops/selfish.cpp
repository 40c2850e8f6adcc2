// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "watch.hpp"

namespace polter::loops {
namespace {

// Before the loop begins: what a turn takes that nothing delays.
std::uint64_t shortest_turn() {
    std::uint64_t shortest = ~0ull, last = now_ns();
    for (int i = 0; i < 100'000; i++) {
        const std::uint64_t now = now_ns();
        shortest = std::min(shortest, now - last);
        last = now;
    }
    return std::max<std::uint64_t>(shortest, 1);
}

}  // namespace

void selfish(const Options& options, Result& result, Recorder& recorder) {
    result.turn_ns = shortest_turn();
    result.threshold_ns = options.threshold_ns ? options.threshold_ns : 9 * result.turn_ns;
    constexpr std::uint64_t often_ns = 10'000'000;  // how long the ring is left alone: room for a thousand events
    Books books(result, recorder);
    std::uint64_t last = books.begin(), visited = last;
    const std::uint64_t end = last + static_cast<std::uint64_t>(options.seconds * 1e9);
    std::uint64_t now = last;
    while (now < end && !node::Interrupt::requested() && !books.full()) {
        now = now_ns();
        if (now - last >= result.threshold_ns) {
            books.sample(last, now);
            last = visited = books.resume();
        } else if (now - visited >= often_ns) {
            if (recorder.moved()) {
                books.empty(now);
                last = books.resume();
            } else {
                last = now;
            }
            visited = last;
        } else {
            last = now;
        }
    }
    books.empty(now);
    result.end_ns = now;
    result.cut_short = books.full();
    for (auto& sample : result.samples) sample.lost_ns = sample.end_ns - sample.begin_ns - result.turn_ns;
}

}  // namespace polter::loops
