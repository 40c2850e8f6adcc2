// SPDX-License-Identifier: BSD-3-Clause
// Random programs of parallel regions and barriers, executed twice by a few lines of their own: with noise, which gives the trace, and
// without, which gives the answer. What a thread needs to wake up and to leave a barrier is the same in both, so the replay has to be
// exact.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include "replay/testing.hpp"
#include "support/trace_spec.hpp"

namespace {

using namespace polter;
using Kind = test::Record::Kind;

// A thread's time in both executions, and its records.
class Clock {
  public:
    Clock(test::TraceSpec& trace, size_t thread) : trace_(trace), thread_(thread) {}

    int64_t with = 0, without = 0;
    std::vector<std::pair<int64_t, int64_t>> events;  // with noise, without

    void work(int64_t ns, int64_t noise) {
        with += ns;
        without += ns;
        hit(noise);
    }
    // Noise that ends now: all the time since the last record is longer.
    void hit(int64_t noise) {
        if (noise == 0) return;
        with += noise;
        test::Record& record = trace_.add(thread_, with, Kind::noise, "os:timer");
        record.ns = noise;
    }
    // Noise of a thread that waits: it is over before the wait is.
    void hit_in_wait(int64_t noise, int64_t until) {
        if (noise == 0 || with + noise >= until) return;
        trace_.add(thread_, with + noise, Kind::noise, "os:timer").ns = noise;
    }
    void record(Kind kind, const char* region = "") {
        trace_.add(thread_, with, kind, region).comm = 1 + team;
        events.emplace_back(with, without);
    }
    uint32_t team = 0;

  private:
    test::TraceSpec& trace_;
    size_t thread_;
};

class Program {
  public:
    explicit Program(uint64_t seed) : random_(seed), trace(1) {
        trace.accounts = {"os:timer"};
        const size_t threads = 1 + pick(5);
        for (size_t i = 1; i < threads; ++i) {
            trace.hosts.emplace_back("node0");
            trace.records.emplace_back();
            trace.threads[i] = 0;
        }
        // One team of all, and one of the first two.
        for (size_t i = 0; i < threads; ++i) trace.teams[1].push_back(i);
        for (size_t i = 0; i < std::min<size_t>(2, threads); ++i) trace.teams[2].push_back(i);
        for (size_t i = 0; i < threads; ++i) {
            clocks.emplace_back(trace, i);
            wake_.push_back(1 + static_cast<int64_t>(pick(20)));
            leave_.push_back(1 + static_cast<int64_t>(pick(20)));
        }
        within_ = pick(2) == 1;
        clocks[0].record(Kind::enter, "main");
        for (size_t region = 0; region < 8; ++region) execute(static_cast<uint32_t>(pick(2)));
        clocks[0].work(5, 0);
        clocks[0].record(Kind::leave, "main");
    }

  private:
    size_t pick(size_t below) { return random_() % below; }
    int64_t work() { return 10 + static_cast<int64_t>(pick(300)); }
    int64_t noise() { return pick(3) == 0 ? 1 + static_cast<int64_t>(pick(200)) : 0; }

    void barrier(const std::vector<size_t>& members, const char* region, bool workers_too, bool ends_workers) {
        int64_t with = 0, without = 0;
        for (const size_t i : members) {
            with = std::max(with, clocks[i].with);
            without = std::max(without, clocks[i].without);
        }
        for (const size_t i : members) {
            Clock& clock = clocks[i];
            if (i > 0 && !workers_too) {
                if (ends_workers) clock.record(Kind::team_end);
                continue;
            }
            clock.record(Kind::enter, region);
            clock.hit_in_wait(noise(), with);
            clock.with = with;
            clock.without = without;
            clock.work(leave_[i], noise());
            clock.record(Kind::leave, region);
        }
    }

    void execute(uint32_t team) {
        const auto& list = trace.teams.at(1 + team);
        const std::vector<size_t> members(list.begin(), list.end());
        Clock& master = clocks[0];
        for (const size_t i : members) clocks[i].team = team;
        master.work(work(), noise());
        master.record(Kind::fork);
        const int64_t with = master.with, without = master.without;
        for (const size_t i : members) {
            Clock& clock = clocks[i];
            if (i > 0) {
                if (!clock.events.empty()) clock.hit_in_wait(noise(), with);
                const bool first = clock.events.empty();
                clock.with = std::max(clock.with, with);
                clock.without = std::max(clock.without, without);
                clock.work(wake_[i], first ? 0 : noise());
            } else {
                clock.work(1, 0);
            }
            clock.record(Kind::team_begin);
        }
        for (size_t barriers = pick(3); barriers-- > 0;) {
            for (const size_t i : members) clocks[i].work(work(), noise());
            barrier(members, "omp-barrier", true, false);
        }
        for (const size_t i : members) clocks[i].work(work(), noise());
        barrier(members, "omp-implicit-barrier", within_, !within_);
        for (const size_t i : members) {
            if (i > 0 && !within_) continue;
            clocks[i].work(1, 0);
            clocks[i].record(Kind::team_end);
        }
        master.work(1, 0);
        master.record(Kind::join);
    }

    std::mt19937_64 random_;
    std::vector<int64_t> wake_, leave_;
    bool within_ = false;  // as recorded within the runtime: workers have the region's last barrier, too

  public:
    test::TraceSpec trace;
    std::vector<Clock> clocks;
};

// Events whose time without noise is another one.
int wrong(uint64_t seed, replay::Faults faults) {
    Program program(seed);
    const test::TemporaryDirectory directory;
    test::write_trace(program.trace, directory.path("t"));
    std::map<std::pair<uint32_t, int64_t>, int64_t> found;
    replay::Hooks hooks;
    hooks.faults = faults;
    hooks.observer = [&](const replay::Scenarios& scenarios, const replay::Thread& thread, int64_t time, const int64_t* delay) {
        found[{thread.index, time}] = time - delay[scenarios.all()];
    };
    replay::Options options;
    options.trace = directory.path("t");
    options.attribution = true;
    const replay::Result result = replay::replay_with(options, hooks);
    int count = 0;
    for (size_t i = 0; i < program.clocks.size(); ++i)
        for (const auto& [with, without] : program.clocks[i].events) {
            const auto at = found.find({static_cast<uint32_t>(i), with});
            count += at == found.end() || at->second != without;
        }
    if (result.conditional || result.bounds_low_ns > result.approximated_ns || result.approximated_ns > result.bounds_high_ns) ++count;
    return count;
}

}  // namespace

TEST_CASE("random parallel regions end when they would have without the noise") {
    for (uint64_t seed = 1; seed <= test::programs_of(200); ++seed) {
        CAPTURE(seed);
        CHECK(wrong(seed, {}) == 0);
    }
}

TEST_CASE("threads that do not wait for each other are found") {
    int apart = 0, starts = 0;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        apart += wrong(seed, {.threads_apart = true}) > 0;
        starts += wrong(seed, {.own_start = true}) > 0;
    }
    CHECK(apart > 10);
    CHECK(starts > 5);
}

// Thread 1 releases a lock `releases` times, and has acquisitions of it on record only at the end. Thread 2, whose records are read behind
// all of these, waited for the first release, which noise of 100 delayed.
static replay::Result read_behind(uint32_t releases, int64_t& had) {
    test::TraceSpec trace(1);
    trace.accounts = {"os:timer"};
    trace.teams[1] = {0, 1, 2};
    for (size_t thread = 1; thread <= 2; ++thread) {
        trace.hosts.emplace_back("node0");
        trace.records.emplace_back();
        trace.threads[thread] = 0;
    }
    const auto add = [&](size_t thread, int64_t time, Kind kind, uint64_t number, uint32_t of = 1) {
        test::Record& record = trace.add(thread, time, kind, "");
        record.comm = of;
        record.request = number;
    };
    const uint32_t lock = 7;
    trace.add(0, 0, Kind::enter, "main");
    for (const uint64_t thread : {1, 2}) add(0, 10, Kind::create, thread);
    for (const size_t thread : {1, 2}) add(thread, 20, Kind::thread_begin, thread);
    trace.add(1, 390, Kind::noise, "os:timer").ns = 100;
    for (uint32_t order = 1; order <= releases; ++order) add(1, 400 + 10 * (order - 1), Kind::release, order == 1 ? 1 : order + 1, lock);
    const int64_t end = 400 + 10 * static_cast<int64_t>(releases);
    add(1, end, Kind::acquire, releases + 2, lock);
    add(1, end + 5, Kind::release, releases + 2, lock);
    trace.add(2, 250, Kind::enter, "pthread_mutex_lock");
    add(2, 405, Kind::acquire, 2, lock);
    trace.add(2, 405, Kind::leave, "pthread_mutex_lock");
    for (const size_t thread : {1, 2}) {
        add(thread, end + 10, Kind::thread_end, thread);
        trace.add(0, end + 20, Kind::enter, "pthread_join");
        add(0, end + 20, Kind::thread_wait, thread);
        trace.add(0, end + 20, Kind::leave, "pthread_join");
    }
    trace.add(0, end + 30, Kind::leave, "main");
    const test::TemporaryDirectory directory;
    test::write_trace(trace, directory.path("t"));
    replay::Hooks hooks;
    hooks.observer = [&](const replay::Scenarios& scenarios, const replay::Thread& thread, int64_t time, const int64_t* delay) {
        if (thread.index == 2 && time == 405) had = time - delay[scenarios.all()];
    };
    replay::Options options;
    options.trace = directory.path("t");
    return replay::replay_with(options, hooks);
}

TEST_CASE("a thread that is read far behind another one finds the release that it waited for, or is told that it is gone") {
    const auto has = [](const replay::Result& result, const char* text) {
        return std::any_of(result.warnings.begin(), result.warnings.end(),
                           [&](const auto& warning) { return warning.text.find(text) != std::string::npos; });
    };
    int64_t had = 0;
    const replay::Result kept = read_behind(1000, had);
    CHECK(had == 305);
    const replay::Result gone = read_behind(3000, had);
    CHECK(had == 405);
    CHECK(has(gone, "in another order"));
    CHECK(gone.conditional);
    for (const replay::Result* result : {&kept, &gone}) CHECK(!has(*result, "has no record of it"));
}
