// SPDX-License-Identifier: BSD-3-Clause
// The injector's specifications, schedules, and log; what it does on a machine is tested in test/end_to_end.
#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "analyzers/inject/from_trace.hpp"
#include "analyzers/inject/log.hpp"
#include "analyzers/inject/schedule.hpp"
#include "analyzers/inject/spec.hpp"
#include "replay/scenario/injection.hpp"

using namespace polter::inject;

namespace {

struct Sums {
    int64_t events = 0, busy = 0, last = 0, longest = 0;
};

Sums run_for(const Spec& spec, uint64_t stream, int64_t until) {
    Schedule schedule(spec, stream, {}, 950'000'000);
    Sums sums;
    while (const auto event = schedule.next()) {
        if (event->begin_ns >= until) break;
        CHECK(event->begin_ns >= sums.last);
        sums.last = event->begin_ns;
        ++sums.events;
        sums.busy += event->duration_ns;
        sums.longest = std::max(sums.longest, event->duration_ns);
    }
    return sums;
}

std::string refusal(const std::string& text) {
    try {
        const Spec spec = parse_spec(text);
        check({spec}, {0.95, 950'000'000});
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("specifications are read") {
    const Spec spec = parse_spec("bernoulli,period=10ms,load=5%,probability=0.5,ranks=0+2-3,seed=9,together=yes,name=mine");
    CHECK(spec.kind == Kind::bernoulli);
    CHECK(spec.duration_ns == 1'000'000);
    CHECK(spec.places == std::vector<int>{0, 2, 3});
    CHECK(spec.by_rank);
    CHECK(spec.together);
    CHECK(spec.seed == 9);
    CHECK(spec.name == "mine");
    CHECK(parse_time("2.5ms") == 2'500'000);
    CHECK(parse_time("400") == 400);
    CHECK(parse_spec("periodic,duration=1ms,load=20%").period_ns == 5'000'000);
}

TEST_CASE("the published patterns take 2.5 % of a CPU") {
    for (const char* name : {"ferreira-10hz", "ferreira-100hz", "ferreira-1khz"}) {
        const Spec spec = parse_spec(name);
        CHECK(spec.load() == doctest::Approx(0.025));
        CHECK(run_for(spec, 0, 10'000'000'000).busy == 250'000'000);
    }
}

TEST_CASE("windows are time with and without noise") {
    const Spec spec = parse_spec("periodic,period=10ms,duration=1ms,phase=5ms,on=30ms,off=100ms,after=1s");
    Schedule schedule(spec, 0, {}, 950'000'000);
    std::vector<int64_t> begins;
    for (int i = 0; i < 7; ++i) begins.push_back(schedule.next()->begin_ns / 1'000'000);
    CHECK(begins == std::vector<int64_t>{1005, 1015, 1025, 1135, 1145, 1155, 1265});
    CHECK(spec.load() == doctest::Approx(0.1));  // within a window
    CHECK(run_for(parse_spec("exponential,period=1ms,duration=100us,on=10ms,off=30ms"), 3, 40'000'000'000).events ==
          doctest::Approx(10'000).epsilon(0.05));
}

TEST_CASE("wrong specifications are refused with what is wrong") {
    for (const auto& [text, words] :
         std::vector<std::pair<std::string, std::string>>{{"sinus", "no kind of noise"},
                                                          {"periodic", "needs period="},
                                                          {"periodic,period=10ms", "needs duration="},
                                                          {"periodic,period=10ms,duration=20ms", "below the period"},
                                                          {"periodic,period=10ms,load=5%,on=1s", "belong together"},
                                                          {"periodic,period=10ms,load=5%,on=1s,off=1us", "at least 1ms"},
                                                          {"timers,period=1ms,on=1s,off=1s", "not for timers"},
                                                          {"periodic,period=10ms,load=96%", "at most 95 %"},
                                                          {"periodic,period=10s,duration=2s", "longer than the kernel lets"},
                                                          {"periodic,period=10ms,duration=1ms,cpus=4000", "CPU 4000 is not there"},
                                                          {"periodic,period=10 parsecs,duration=1ms", "is not a time"},
                                                          {"periodic,period=10ms,duration=1ms,colour=red", "unknown key"},
                                                          {"bernoulli,period=10ms,duration=1ms,probability=0", "probability"},
                                                          {"pareto,period=10ms,duration=1ms,shape=1", "shape"},
                                                          {"exponential,period=10ms,duration=1ms,phase=1ms", "phase belongs"},
                                                          {"replay", "needs file="},
                                                          {"timers,period=1us", "from 20us"},
                                                          {"calls,period=1ms,load=5%", "load belongs"},
                                                          {"periodic,period=10ms,duration=1ms,cpus=3-1", "is not a list"}}) {
        CAPTURE(text);
        CHECK(refusal(text).find(words) != std::string::npos);
    }
    CHECK(refusal("periodic,period=10ms,load=95%") == "");
}

TEST_CASE("loads on one CPU add up") {
    const Spec all = parse_spec("periodic,period=10ms,load=50%"), one = parse_spec("periodic,period=10ms,load=46%,cpus=0");
    CHECK_THROWS_AS(check({all, one}, {}), Error);
    CHECK_NOTHROW(check({all, parse_spec("periodic,period=10ms,load=40%,cpus=0")}, {}));
    // Each rank runs on one of all CPUs.
    CHECK_THROWS_AS(check({all, parse_spec("periodic,period=10ms,load=46%,ranks=3")}, {}), Error);
    CHECK_NOTHROW(check({all, parse_spec("periodic,period=10ms,load=40%,ranks=3")}, {}));
}

TEST_CASE("schedules have the load that they promise, and the same seed gives the same events") {
    constexpr int64_t until = 2'000'000'000'000;
    for (const char* text : {"periodic,period=10ms,load=5%", "bernoulli,period=10ms,load=5%,probability=0.3",
                             "exponential,period=10ms,load=5%", "pareto,period=10ms,load=5%,shape=1.8"}) {
        CAPTURE(text);
        const Spec spec = parse_spec(text);
        const Sums sums = run_for(spec, 3, until), again = run_for(spec, 3, until), other = run_for(spec, 4, until);
        CHECK(static_cast<double>(sums.busy) / until == doctest::Approx(0.05).epsilon(0.05));
        CHECK(sums.busy == again.busy);
        CHECK(sums.last == again.last);
        CHECK(sums.last != other.last);
    }
    const Sums heavy = run_for(parse_spec("pareto,period=10ms,load=5%"), 0, until);
    CHECK(heavy.longest > 20 * 500'000);
    CHECK(heavy.longest <= 100 * 500'000);
}

TEST_CASE("co-scheduled noise hits all at the same times") {
    const Spec spec = parse_spec("exponential,period=10ms,load=5%,together=yes");
    CHECK(run_for(spec, 0, 1'000'000'000).last == run_for(spec, 7, 1'000'000'000).last);
}

TEST_CASE("a draw longer than the kernel allows is cut") {
    Schedule schedule(parse_spec("pareto,period=2s,duration=50ms,shape=1.1"), 0, {}, 60'000'000);
    int64_t longest = 0;
    for (int i = 0; i < 10'000; ++i) longest = std::max(longest, schedule.next()->duration_ns);
    CHECK(longest == 60'000'000);
}

TEST_CASE("the difference of two runs is what the quiet one lacks") {
    const std::vector<Recorded> noisy = {{"preempt/backup", {100, 50}}, {"timer/", {200, 5}}, {"timer/", {300, 6}}, {"timer/", {400, 90}}};
    const std::vector<Recorded> quiet = {{"timer/", {20, 6}}, {"timer/", {40, 4}}, {"softirq/RCU", {50, 9}}};
    const auto left = beyond(noisy, quiet);
    REQUIRE(left.size() == 2);
    CHECK(left[0].begin_ns == 100);
    CHECK(left[1].duration_ns == 90);
}

TEST_CASE("the replay reads the injector's log") {
    Log log;
    log.origin_ns = log.begin_ns = 5'000'000'000;
    log.end_ns = 6'000'000'000;
    log.sources = {{"one", "periodic,period=10ms,duration=1ms", {}}, {"none", "ferreira-10hz", {}}};
    log.sources[0].events = {{0, 1, 4'999'999'999, 10, 10}, {1, 0, 5'000'000'100, 1000, 1000}, {0, 1, 5'000'000'200, 1'000'000, 900'000}};
    CHECK(log.stretched() == 1);
    const auto file = std::filesystem::temp_directory_path() / ("polter-inject-test-" + std::to_string(getpid()) + ".json");
    write_log(log, file);
    const auto sources = polter::replay::read_injected_noise(file);
    REQUIRE(sources.size() == 1);  // a source without events has nothing to replay
    CHECK(sources[0].events.at(1)[0].begin == 100);
    CHECK(sources[0].events.at(0).size() == 1);  // the one before the origin is left out
    const Log back = read_log(file);
    CHECK(back.sources.size() == 2);
    CHECK(back.sources[0].events[1].begin_ns == 5'000'000'200);
    CHECK(back.end_ns == log.end_ns);
    const auto listed = listed_events(parse_spec(file.string()));
    CHECK(listed.at(0)[0].duration_ns == 1'000'000);
    std::filesystem::remove(file);
    CHECK_THROWS_AS(write_log(log, "/dev/null/log.json"), Error);
}
