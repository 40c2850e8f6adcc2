// SPDX-License-Identifier: BSD-3-Clause
// A thread's stamps: the clock that follows the TSC beside the clock itself, and what the tracer says that it cost.
#include <doctest/doctest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "../../../tracer/write/archive.hpp"
#include "../../../tracer/write/thread_clock.hpp"

using namespace polter;

namespace {

constexpr uint64_t error_ns = 250;  // of a point, which two readings of the TSC enclose, and of the rate
constexpr uint64_t millisecond = 1'000'000;

// How far the two lie apart at most, for so long. The clock is read before and behind: between them nothing is known.
uint64_t furthest(write::ThreadClock& clock, uint64_t ns) {
    uint64_t most = 0;
    for (const uint64_t end = write::now() + ns;;) {
        const uint64_t before = write::now(), followed = clock.now(), after = write::now();
        if (followed < before) most = std::max(most, before - followed);
        if (followed > after) most = std::max(most, followed - after);
        if (after > end) return most;
    }
}

long involuntary_switches() {
    rusage used{};
    getrusage(RUSAGE_THREAD, &used);
    return used.ru_nivcsw;
}

// Two threads on one CPU: the kernel takes it from either of them soon.
struct Competitor {
    std::atomic<bool> ends = false;
    cpu_set_t before;
    std::jthread thread;
    Competitor() {
        sched_getaffinity(0, sizeof before, &before);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        sched_setaffinity(0, sizeof one, &one);
        thread = std::jthread([this] {
            while (!ends) continue;
        });
    }
    ~Competitor() {
        ends = true;
        thread.join();
        sched_setaffinity(0, sizeof before, &before);
    }
    static void be_preempted() {
        const long switches = involuntary_switches();
        while (involuntary_switches() == switches) continue;
    }
};

struct OneLocation {
    std::filesystem::path path;
    write::Location* location = nullptr;
    OneLocation() {
        char name[] = "/tmp/polter-stamp-XXXXXX";
        path = mkdtemp(name);
        std::string error;
        static auto& archives = *new std::vector<write::Archive*>;  // one lives as long as its process
        archives.push_back(write::Archive::create({path.string(), {}, 2}, {}, {}, error));
        REQUIRE_MESSAGE(archives.back(), error);
        location = archives.back()->add_location(0, 1, nullptr, 1);
        REQUIRE(location);
    }
    ~OneLocation() { std::filesystem::remove_all(path); }
    void next_sample() {
        while (!location->sampled()) continue;
    }
};

}  // namespace

TEST_CASE("the followed clock is the clock") {
    write::ThreadClock clock;
    CHECK(furthest(clock, 300 * millisecond) <= error_ns);  // finds its rate, and a better one
    CHECK(clock.disagreements() == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(150));  // long after its last point
    CHECK(furthest(clock, 20 * millisecond) <= error_ns);
    uint64_t last = 0;
    for (int i = 0; i < 1'000'000; ++i) {
        const uint64_t time = clock.now();
        CHECK_UNARY(time >= last);
        last = time;
    }
}

TEST_CASE("a thread's clock follows from its first reading on where the process knows the rate") {
    write::ThreadClock first;
    furthest(first, 20 * millisecond);
    if (first.follows() == 0) {
        MESSAGE("the kernel's clock cannot be followed by the TSC here: not tested");
        return;
    }
    std::jthread([] {
        write::ThreadClock second;
        second.now();
        for (int interrupted = 0; second.follows() == 0 && interrupted < 20; ++interrupted) second.now();
        CHECK(second.follows() > 0);
        CHECK(furthest(second, 5 * millisecond) <= error_ns);
    });
}

TEST_CASE("a clock that is found some ns before where the TSC led does not take the stamps back") {
    write::ThreadClock clock;
    furthest(clock, 20 * millisecond);
    const int64_t offset = write::clock_offset_ns;
    for (const int64_t step : {-300, 300}) {
        uint64_t last = clock.now();
        write::clock_offset_ns += step;
        for (const uint64_t end = write::now() + millisecond; write::now() < end;) {
            const uint64_t time = clock.now();
            CHECK_UNARY(time >= last);
            last = time;
        }
    }
    write::clock_offset_ns = offset;
}

TEST_CASE("where the clock is not what the TSC says, it is read each time from then on") {
    write::ThreadClock clock;
    furthest(clock, 5 * millisecond);
    const int64_t offset = write::clock_offset_ns;
    for (int step = 1; step <= 4; ++step) {
        write::clock_offset_ns += 5 * static_cast<int64_t>(millisecond);
        const uint64_t end = write::now() + millisecond / 5;
        while (write::now() < end) clock.now();  // so long it may follow the old one
        CHECK(furthest(clock, millisecond) <= error_ns);
    }
    if (clock.disagreements() > 0) {  // else the clock is no TSC here, and never was followed
        write::clock_offset_ns -= 7 * static_cast<int64_t>(millisecond);
        CHECK(furthest(clock, millisecond / 10) <= error_ns);  // at once
    }
    write::clock_offset_ns = offset;
}

TEST_CASE("a sample counts what the tracer's own part took, also where the call before it lost the CPU") {
    std::optional<OneLocation> tried;
    constexpr uint64_t part_ns = 20'000;                            // so much that a switch is looked for
    constexpr uint64_t calls = 2 * write::Location::sample_period;  // a part stands for both
    const Competitor competitor;
    // Until nobody took the CPU within the sample itself, which the competitor or another program does now and then.
    for (long before = -1; before != involuntary_switches();) {
        tried.emplace();
        tried->next_sample();
        CHECK_FALSE(tried->location->samples_end());
        Competitor::be_preempted();  // the call itself waits
        before = involuntary_switches();
        tried->location->begin_sample();
        tried->location->sample(part_ns);
    }
    OneLocation& one = *tried;
    CHECK(one.location->samples_end());  // in turn
    CHECK(one.location->own_cost_ns() == part_ns * calls);

    SUBCASE("one in whose own part it was lost is left out, and stands for the mean") {
        one.next_sample();
        one.location->begin_sample();
        Competitor::be_preempted();
        one.location->sample(50 * part_ns);
        CHECK_FALSE(one.location->samples_end());
        CHECK(one.location->own_cost_ns() == 2 * part_ns * calls);
    }
    SUBCASE("a short one is counted whatever happened") {
        one.next_sample();
        one.location->begin_sample();
        Competitor::be_preempted();
        one.location->sample(100);
        CHECK(one.location->own_cost_ns() == (part_ns + 100) * calls);
    }
}

TEST_CASE("samples become rare, and stand for all calls all the same") {
    OneLocation one;
    constexpr uint64_t part_ns = 100;
    uint64_t calls = 0, samples = 0;
    while (calls < 1'000'000) {
        ++calls;
        if (!one.location->sampled()) continue;
        ++samples;
        one.location->begin_sample();
        one.location->sample(part_ns);
    }
    CHECK(samples < write::Location::samples_in_short + 1'000'000 / write::Location::long_sample_period + 1);
    const uint64_t cost = one.location->own_cost_ns(), all = 2 * part_ns * calls;
    CHECK(cost <= all);
    CHECK(cost >= all - 2 * part_ns * write::Location::long_sample_period);
}
