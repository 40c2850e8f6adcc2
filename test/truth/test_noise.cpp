// SPDX-License-Identifier: BSD-3-Clause
// The processor model that the bench's truth rests on: what is stolen is what work takes longer, no more and no less.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <stdexcept>

#include "recorder/noise.hpp"

using namespace polter::truth;

namespace {

std::vector<NoiseSource> sources() {
    return {parse_noise("timer:periodic:period=1000,duration=40"), parse_noise("irq:random:period=700,duration=90,culprit=nvme0q1"),
            parse_noise("preempt:heavy_tailed:period=5000,duration=600,alpha=1.4"),
            parse_noise("steal:random:period=300,duration=100,rank=2")};
}

// All that hits a rank before `horizon`, seen by one that only waits.
std::vector<NoiseEvent> all_events(int64_t rank, uint64_t seed, int64_t horizon) {
    Processor idle(sources(), rank, seed);
    idle.finish(horizon, 0);
    return idle.noise();
}

// Whether work that began at `now` may be done at `end`, counted nanosecond by nanosecond.
bool adds_up(const std::vector<NoiseEvent>& events, int64_t now, int64_t work, int64_t end) {
    int64_t done = 0;
    bool stolen_at_end = false;
    for (int64_t t = now; t < end; ++t) {
        bool stolen = false;
        for (const NoiseEvent& e : events) stolen |= e.start <= t && t < e.end;
        done += !stolen;
        stolen_at_end = stolen;
    }
    // It ends with its last nanosecond of work; without work, with the event that held it up.
    return done == work && (work == 0 || !stolen_at_end);
}

}  // namespace

TEST_CASE("work takes its own time and what is stolen from it") {
    for (uint64_t seed : {1, 2, 3}) {
        for (int64_t rank : {0, 2}) {
            CAPTURE(seed);
            CAPTURE(rank);
            const std::vector<NoiseEvent> events = all_events(rank, seed, 60'000);
            Processor processor(sources(), rank, seed);
            std::mt19937_64 random(seed);
            int64_t now = 0;
            while (now < 40'000) {
                const int64_t work = static_cast<int64_t>(random() % 900);
                const int64_t end = processor.finish(now, work);
                CHECK(adds_up(events, now, work, end));
                // The check itself: an end that leaves an event out, or counts one twice, does not add up.
                CHECK_FALSE(adds_up(events, now, work + 1, end));
                if (work > 0) CHECK_FALSE(adds_up(events, now, work, end - 1));
                now = end + static_cast<int64_t>(random() % 300);  // waits for something else, noise or not
                now = processor.finish(now, 0);
            }
            // What was recorded is what hit by then, whole events only.
            const auto& noise = processor.noise();
            REQUIRE(noise.size() <= events.size());
            for (size_t i = 0; i < noise.size(); ++i) {
                CHECK(noise[i].start == events[i].start);
                CHECK(noise[i].end == events[i].end);
                CHECK(noise[i].source == events[i].source);
                if (i > 0) CHECK(noise[i].start >= noise[i - 1].end);
            }
        }
    }
}

TEST_CASE("the same seed gives the same noise, another one other noise, a rank of its own only there") {
    const auto a = all_events(0, 5, 100'000), b = all_events(0, 5, 100'000), c = all_events(0, 6, 100'000), d = all_events(2, 5, 100'000);
    REQUIRE(a.size() == b.size());
    CHECK(a.back().end == b.back().end);
    CHECK(a.back().end != c.back().end);
    auto from = [](const std::vector<NoiseEvent>& events, uint32_t source) {
        return std::count_if(events.begin(), events.end(), [&](const NoiseEvent& e) { return e.source == source; });
    };
    CHECK(from(a, 3) == 0);
    CHECK(from(d, 3) > 0);
    for (uint32_t source : {0, 1, 2}) CHECK(from(a, source) > 0);
}

TEST_CASE("mean duration and distance are those asked for") {
    for (const char* text : {"a:periodic:period=10000,duration=500", "a:random:period=10000,duration=500",
                             "a:heavy_tailed:period=10000,duration=500,alpha=2.5"}) {
        CAPTURE(text);
        Processor idle({parse_noise(text)}, 0, 9);
        const int64_t horizon = 1'000'000'000;
        idle.finish(horizon, 0);
        double sum = 0;
        for (const NoiseEvent& e : idle.noise()) sum += static_cast<double>(e.duration());
        const double n = static_cast<double>(idle.noise().size());
        CHECK(sum / n == doctest::Approx(500).epsilon(0.05));
        CHECK(static_cast<double>(horizon) / n == doctest::Approx(10'000).epsilon(0.05));
    }
}

TEST_CASE("what is wrong with a description is said") {
    for (const char* text : {"", "timer", "timer:periodic", "timer:sometimes:period=10,duration=1", "timer:periodic:period=10",
                             ":periodic:period=10,duration=1", "timer:periodic:period=10,duration=10", "timer:periodic:period=x,duration=1",
                             "timer:periodic:period=10,duration", "timer:periodic:period=10,duration=1,colour=3",
                             "timer:heavy_tailed:period=10,duration=1,alpha=0.5"}) {
        CAPTURE(text);
        CHECK_THROWS_AS(parse_noise(text), std::invalid_argument);
    }
}
