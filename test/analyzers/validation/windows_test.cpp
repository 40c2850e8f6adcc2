// SPDX-License-Identifier: BSD-3-Clause
// Two runs that are each injected in the windows in which the other is quiet, from traces whose answers are known.
#include "analyzers/validation/windows.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>

#include "analyzers/inject/alongside.hpp"
#include "analyzers/validation/program_cost.hpp"
#include "analyzers/validation/validate.hpp"
#include "test/replay/support/micro_parse.hpp"
#include "units.hpp"

using namespace polter;
using namespace polter::validation;

namespace {

std::vector<Call> calls(const std::string& names) {
    std::vector<Call> list;
    for (const char name : names) list.push_back({static_cast<int64_t>(list.size()) * ms, std::string(1, name), name < 'a'});
    return list;
}

// Each point as its two calls, "!" where the work behind it differs.
std::string points_of(const std::string& first, const std::string& second) {
    std::string text;
    for (const Point& point : common_points(calls(first), calls(second)))
        text +=
            fmt::format("{}{}{} ", point.first, point.second == point.first ? "" : fmt::format("/{}", point.second), point.same ? "" : "!");
    return text;
}

}  // namespace

TEST_CASE("points of a program are calls that two runs have at the same place") {
    CHECK(points_of("AxxBxC", "AxxBxC") == "0 1 2 3 4 5! ");
    CHECK(points_of("AxxBxC", "AxyBxC") == "0 1! 3 4 5! ");           // another call before B
    CHECK(points_of("AyxBxC", "AzxBxC") == "0! 3 4 5! ");             // and all that follow up to B
    CHECK(points_of("AxxBxC", "AxxxBxC") == "0 1 2! 3/4 4/5 5/6! ");  // one more
    CHECK(points_of("AxyxyyxyB", "AxyyxyyxB") == "0 1 2 5 8! ");      // the same in another order
    CHECK(points_of("AxyxyyxyB", "AxyyxyyyB") == "0 1 2 5! 8! ");     // at first
    CHECK(points_of("ABBCD", "ABCD") == "0 1! 3/2 4/3! ");            // one collective more
    CHECK(points_of("Axyx", "Axyxy") == "0 1 2 3! ");                 // behind the last collective
    CHECK(points_of("AxyBx", "AxyCx") == "0 1 2! ");                  // or the last that both have
    CHECK(points_of("AB", "CD") == "");
    CHECK(points_of("", "A") == "");
    auto longer = calls("AxxB");
    longer[1].sent = 8;  // its message is another one
    CHECK(common_points(calls("AxxB"), longer).size() == 2);
    CHECK_FALSE(common_points(calls("AxxB"), longer).front().same);
    CHECK(common_points(longer, longer).size() == 4);
}

TEST_CASE("windows are known from the log") {
    inject::Log log;
    log.origin_ns = 7'000 * ms;
    log.begin_ns = log.origin_ns + 20 * ms;
    log.sources.push_back({"periodic", "periodic,period=10ms,load=5%,on=100ms,off=50ms,after=30ms", {}});
    const Windows windows(log);
    const auto place = [&](int64_t at) { return std::pair(windows.at(at * ms).number, windows.at(at * ms).since / ms); };
    CHECK(place(49).first == -1);
    CHECK(place(50) == std::pair<int64_t, int64_t>(0, 50));
    CHECK(place(149) == std::pair<int64_t, int64_t>(0, 50));
    CHECK(place(150) == std::pair<int64_t, int64_t>(1, 150));
    CHECK(place(200) == std::pair<int64_t, int64_t>(2, 200));
    CHECK(windows.at(60 * ms).noise());
    CHECK_FALSE(windows.at(160 * ms).noise());
    log.sources[0].spec = "periodic,period=10ms,load=5%";
    CHECK_THROWS_AS(Windows{log}, inject::Error);
}

TEST_CASE("pieces are work of which exactly one run did all with noise") {
    std::vector<Call> first, second;
    for (int64_t i = 0; i < 40; ++i) {
        first.push_back({i * 10 * ms, "A", true});
        second.push_back({i * 10 * ms + ms, "A", true});
    }
    const auto points = common_points(first, second);
    const auto pieces = pieces_of(points, first, Windows(0, 100 * ms, 100 * ms), second, Windows(100 * ms, 100 * ms, 100 * ms));
    std::vector<size_t> with_noise, without;
    for (const Piece& one : pieces) (one.first_noisy ? with_noise : without).push_back(one.index);
    // Not the first tenth of a window, nor what reaches into the next one.
    CHECK(with_noise == std::vector<size_t>{1, 2, 3, 4, 5, 6, 7, 8, 21, 22, 23, 24, 25, 26, 27, 28});
    CHECK(without == std::vector<size_t>{11, 12, 13, 14, 15, 16, 17, 18, 31, 32, 33, 34, 35, 36, 37, 38});
    CHECK(pieces_of(points, first, Windows(0, 100 * ms, 100 * ms), second, Windows(0, 100 * ms, 100 * ms)).empty());
}

namespace {

constexpr int64_t window = 100 * ms, period = 10 * ms, length = 500 * us, hidden = 40 * us, timer = 5 * us;

// 400 steps of 2 ms and more, each ended by a barrier, on a machine that takes `speed` times as long and that slows down by a tenth within
// the run; noise in every other window. Steps of the second half are twice as long: the program is not the same everywhere.
void write_run(const test::TemporaryDirectory& directory, const std::string& name, double speed, bool second) {
    inject::Log log;
    log.origin_ns = 7'000 * ms;
    log.begin_ns = log.origin_ns + 50 * ms;
    log.sources.push_back(
        {"periodic", fmt::format("periodic,period=10ms,duration=500us,on=100ms,off=100ms,after={}ms", second ? 100 : 0), {}});
    const int64_t first_event = 50 * ms + (second ? window : 0) + 3 * ms;
    int64_t number = 0;
    const auto next_event = [&] { return first_event + number / 10 * 2 * window + number % 10 * period; };
    std::string text = "ranks 1\naccounts os:timer os:preempt\n0 0 enter main\n0 1000 enter MPI_Init\n0 50000000 leave MPI_Init\n";
    int64_t now = 50 * ms;
    for (int step = 0; step < 400; ++step) {
        auto work = static_cast<int64_t>((step < 200 ? 2e6 : 4e6) * speed * (1 + 0.1 * step / 400));
        while (now + work > next_event()) {
            const int64_t at = std::max(now, next_event());
            work -= at - now;
            now = at + hidden + timer;
            text += fmt::format("0 {} noise os:timer {} local_timer\n", now, timer);
            log.sources[0].events.push_back({0, 0, log.origin_ns + now, length, length});
            now += length;
            text += fmt::format("0 {} noise os:preempt {} polter-inject\n", now, length);
            ++number;
        }
        now += work;
        text += fmt::format("0 {} enter MPI_Barrier\n0 {} leave MPI_Barrier\n", now, now + us);
        now += us;
    }
    text += fmt::format("0 {} enter MPI_Finalize\n0 {} leave MPI_Finalize\n0 {} leave main\n", now, now + us, now + us);
    std::ofstream(directory.path(name + ".txt")) << text;
    test::write_trace(test::parse_micro(directory.path(name + ".txt")).trace, directory.path(name));
    inject::write_log(log, directory.path(name) + "/" + inject::log_name);
}

struct Errors {
    double effect, estimate, by_loop, as_recorded, prediction;  // percent of the quiet time, medians
    size_t pairs;
};

// The loop has lost 25 us to an event that no record has; this program, 40 us.
Errors errors(const WindowFaults& faults = {}) {
    EventCost cost;
    cost.cpus[0] = {25 * us + timer, 25 * us, 20 * us, 100, 250};
    const test::TemporaryDirectory directory;
    write_run(directory, "first", 1, false);
    write_run(directory, "second", 1.07, true);
    Found found;
    const Crossover judged = judge_windows(directory.path("first"), directory.path("second"), directory.path(""), cost, found, faults);
    CHECK(found.found == found.logged);
    CHECK(judged.compared > 0.4);
    CHECK(judged.settled == (faults.rounds > 1));
    CaseResult result;
    result.pairs = judged.pairs;
    judge(result, 1);
    const auto percent = [&](int64_t ns) { return 100 * static_cast<double>(ns) / static_cast<double>(result.quiet.median); };
    return {percent(result.effect.median),
            percent(result.estimation.error.median),
            percent(result.estimation_by_loop.error.median),
            percent(result.estimation_as_recorded.error.median),
            percent(result.prediction.error.median),
            judged.pairs.size()};
}

}  // namespace

TEST_CASE("estimate and prediction by windows are right, however fast each run was") {
    const Errors right = errors();
    CHECK(right.pairs >= 4);
    CHECK(right.effect == doctest::Approx(5.75).epsilon(0.04));  // 545 us in 10 ms
    CHECK(std::fabs(right.estimate) < 0.1);
    CHECK(std::fabs(right.prediction) < 0.1);
    CHECK(right.by_loop == doctest::Approx(0.16).epsilon(0.3));
    CHECK(right.as_recorded == doctest::Approx(0.42).epsilon(0.1));
}

TEST_CASE("each step of the windows that is left out shows") {
    CHECK(std::fabs(errors({.one_way = true}).estimate) > 2);  // the second run is slower by 7 %
    CHECK(std::fabs(errors({.rounds = 1}).prediction) > 0.2);
}

namespace {

// Two ranks, each hit for 2 ms in 10, one after the other, mostly in the same step: 400 steps of 1 ms, ended by a barrier.
void write_two_ranks(const test::TemporaryDirectory& directory, const std::string& name, bool second) {
    constexpr int64_t duration = 2 * ms;
    inject::Log log;
    log.origin_ns = 7'000 * ms;
    log.begin_ns = log.origin_ns + 50 * ms;
    log.sources.push_back({"periodic", fmt::format("periodic,period=10ms,load=20%,on=100ms,off=100ms,after={}ms", second ? 100 : 0), {}});
    std::string text = "ranks 2\naccounts os:preempt\n";
    std::array<int64_t, 2> now{50 * ms, 50 * ms}, number{};
    const auto next_event = [&](size_t rank) {
        return 50 * ms + (second ? window : 0) + number[rank] / 10 * 2 * window + number[rank] % 10 * period +
               (rank == 0 ? 1'000 : 3'200) * us;
    };
    // Up to a moment, which each event moves by its length if the rank has work to do; behind an event that reaches over it.
    const auto run_until = [&](size_t rank, int64_t until, bool works) {
        while (next_event(rank) < until) {
            const int64_t at = std::max(now[rank], next_event(rank));
            now[rank] = at + duration;
            if (works) until += duration;
            text += fmt::format("{} {} noise os:preempt {} polter-inject\n", rank, now[rank], duration);
            log.sources[0].events.push_back(
                {static_cast<int32_t>(rank), static_cast<int32_t>(rank), log.origin_ns + at, duration, duration});
            ++number[rank];
        }
        now[rank] = std::max(now[rank], until);
    };
    for (const size_t rank : {0, 1})
        text += fmt::format("{} 0 enter main\n{} 1000 enter MPI_Init\n{} 50000000 leave MPI_Init\n", rank, rank, rank);
    for (int step = 0; step < 400; ++step) {
        for (const size_t rank : {0, 1}) {
            run_until(rank, now[rank] + ms, true);
            text += fmt::format("{} {} enter MPI_Barrier\n", rank, now[rank]);
        }
        const int64_t all_there = std::max(now[0], now[1]) + us;
        for (const size_t rank : {0, 1}) {
            run_until(rank, all_there, false);
            text += fmt::format("{0} {1} collective barrier 0 0\n{0} {1} leave MPI_Barrier\n", rank, now[rank]);
        }
    }
    for (const size_t rank : {0, 1})
        text += fmt::format("{} {} enter MPI_Finalize\n{} {} leave MPI_Finalize\n{} {} leave main\n", rank, now[rank] + us, rank,
                            now[rank] + 2 * us, rank, now[rank] + 2 * us);
    std::ofstream(directory.path(name + ".txt")) << text;
    test::write_trace(test::parse_micro(directory.path(name + ".txt")).trace, directory.path(name));
    inject::write_log(log, directory.path(name) + "/" + inject::log_name);
}

}  // namespace

TEST_CASE("events that stall two ranks in turn are removed; where they hit the other run may stay open") {
    const test::TemporaryDirectory directory;
    write_two_ranks(directory, "first", false);
    write_two_ranks(directory, "second", true);
    Found found;
    CaseResult result;
    const Crossover judged = judge_windows(directory.path("first"), directory.path("second"), directory.path(""), {}, found);
    result.pairs = judged.pairs;
    judge(result, 1);
    CHECK(result.pairs.size() >= 2);
    CHECK(result.effect.median > result.quiet.median / 2);
    CHECK(std::llabs(result.estimation.error.median) < result.quiet.median / 200);
    CHECK_FALSE(judged.settled);
}

TEST_CASE("the program's own work tells what an event takes from it") {
    // 60 pieces of 1 ms on a second run that is slower by a tenth; each third has an event in the first run, which takes 1 and hides 50 us.
    std::vector<Call> first, second;
    int64_t a = 0, b = 0;
    for (uint32_t i = 0; i < 60; ++i) {
        const bool hit = i % 3 == 1;
        first.push_back(
            {.time = a, .name = "A", .collective = true, .left = a + us, .noise_ns = hit ? ms : 0, .events = hit, .timers = hit});
        second.push_back({.time = b, .name = "A", .collective = true, .left = b + us});
        a += us + ms + (hit ? ms + 50 * us : 0);
        b += us + ms + ms / 10;
    }
    const auto hidden_here = hidden_in_work(first, second);
    CHECK(hidden_here == std::vector<int64_t>(20, 50 * us));
    auto polled = first;
    for (Call& call : polled) call.polled = call.events > 0;
    CHECK(hidden_in_work(polled, second).empty());
    auto without_timer = first;
    for (Call& call : without_timer) call.timers = 0;  // it hit another task
    CHECK(hidden_in_work(without_timer, second).empty());

    EventCost loop;
    loop.cpus[0] = loop.cpus[1] = {70 * us, 30 * us, 20 * us, 100, 250};
    const EventCost cost = with_program(loop, {{0, std::vector<int64_t>(50, 50 * us)}, {1, std::vector<int64_t>(49, 50 * us)}});
    CHECK(cost.of(0).hidden == 50 * us);
    CHECK(cost.of(0).beyond == 90 * us);
    CHECK(cost.of(1) == loop.of(1));  // too few
}
