// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "watch.hpp"

namespace polter::loops {

void Books::take(std::uint64_t until_ns) {
    stopped_ns_ = until_ns;
    taken_.clear();
    recorder_.take(until_ns, taken_);
}

void Books::outside(const Event& event, std::uint64_t until_ns) {
    const bool watched = event.end_ns > watching_ns_ && event.end_ns <= until_ns;
    (watched ? result_.below_events : result_.aside_events)++;
    (watched ? result_.below_events_ns : result_.aside_events_ns) += event.duration_ns;
}

void Books::sample(std::uint64_t from_ns, std::uint64_t until_ns, std::uint64_t work) {
    take(until_ns);
    Sample sample;
    sample.begin_ns = from_ns;
    sample.end_ns = until_ns;
    sample.first_event = result_.events.size();
    sample.work = work;
    for (auto& event : taken_) {
        if (event.end_ns <= from_ns || event.end_ns > until_ns) {
            outside(event, until_ns);
            continue;
        }
        event.duration_ns = std::min(event.duration_ns, event.end_ns - from_ns);
        result_.events.push_back(std::move(event));
    }
    sample.events = result_.events.size() - sample.first_event;
    result_.samples.push_back(sample);
}

void Books::empty(std::uint64_t until_ns) {
    take(until_ns);
    for (const auto& event : taken_) outside(event, until_ns);
}

std::uint64_t Books::begin() {
    empty(now_ns());
    result_.aside_events = result_.aside_events_ns = result_.below_events = result_.below_events_ns = 0;
    result_.begin_ns = resume();
    result_.aside_ns = 0;
    return result_.begin_ns;
}

std::uint64_t Books::resume() {
    watching_ns_ = now_ns();
    result_.aside_ns += watching_ns_ - stopped_ns_;
    return watching_ns_;
}

std::uint64_t steps_of(std::uint64_t ns) {
    constexpr std::uint64_t probe = 20'000;
    std::uint64_t shortest = ~0ull, seed = 1;
    for (int i = 0; i < 50; i++) {
        const std::uint64_t begin = now_ns();
        seed = work(probe, seed);
        shortest = std::min(shortest, now_ns() - begin);
    }
    return std::max<std::uint64_t>(1, probe * ns / std::max<std::uint64_t>(1, shortest));
}

}  // namespace polter::loops
