// SPDX-License-Identifier: BSD-3-Clause
// The verdict of polter validate, from pairs whose answers are known.
#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "analyzers/validation/validate.hpp"
#include "units.hpp"

using namespace polter::validation;

namespace {

// Quiet runs of 1 s that differ by `spread`, injected ones of 1.05 s; the answers are off by so much.
CaseResult judged(int64_t estimate_off, int64_t prediction_off, int64_t spread = 2 * ms, int64_t pairs = 10,
                  const JudgeFaults& faults = {}) {
    CaseResult result;
    for (int64_t i = 0; i < pairs; ++i) {
        const int64_t chance = (i % 5 - 2) * spread / 4, quiet = 1000 * ms + chance, injected = 1050 * ms + chance;
        Pair pair;
        pair.quiet = quiet;
        pair.injected = injected;
        pair.estimated = quiet + estimate_off;
        pair.predicted = injected + prediction_off;
        pair.machine_noise = 3 * ms;
        result.pairs.push_back(pair);
    }
    judge(result, 1, faults);
    return result;
}

}  // namespace

TEST_CASE("right answers are right, and wrong ones are wrong") {
    const CaseResult right = judged(9 * ms, -10 * ms);
    CHECK(right.no_verdict == "");
    CHECK(right.estimation.within);
    CHECK(right.prediction.within);
    CHECK(right.effect.median == 50 * ms);
    CHECK(right.estimation.error.median == 9 * ms);
    CHECK(right.estimation.error.low == 9 * ms);  // the pairs do not differ in it
    CHECK(right.machine_noise == 3 * ms);
    CHECK(verdict_of({right}).starts_with("Correct here"));

    const CaseResult wrong = judged(11 * ms, 12 * ms);
    CHECK_FALSE(wrong.estimation.within);
    CHECK_FALSE(wrong.prediction.within);
    CHECK(verdict_of({wrong}).starts_with("Wrong here"));
    CHECK(verdict_of({wrong}).find("off by at most 1.10 % of the run time, the prediction by 1.14 %") != std::string::npos);
    CHECK(verdict_of({right, wrong}).starts_with("Partly correct here: in 1 of 2"));
}

TEST_CASE("an event's record is longer by the switches, and the total is judged without them") {
    // Ten events of 100 us, each with a timer interrupt of 5 us right before it and switches of 3 and 1 us; one with 9 us more.
    constexpr int64_t us = 1'000, origin = 7'000'000;
    std::vector<polter::inject::Injected> events;
    std::vector<Slice> slices;
    for (int64_t i = 0; i < 10; ++i) {
        const int64_t begin = (i + 1) * 10 * ms, end = begin + 100 * us;
        events.push_back({0, 0, begin + origin, 100 * us, 100 * us});
        slices.push_back({begin - 9 * us, begin - 4 * us, false, false, false, true});
        slices.push_back({begin - 3 * us, end + (i == 4 ? 10 : 1) * us, true, true, false, false});
    }
    slices.push_back({5 * ms, 5 * ms + 30 * us, false, false, false, true});  // a tick, which woke nobody
    const Found found = match_rank(events, slices, origin, 1000 * ms);
    CHECK(found.logged == 10);
    CHECK(found.found == 10);
    CHECK(found.recorded == 10);
    CHECK(found.invented == 0);
    CHECK(found.recorded_ns - found.logged_ns == 10 * 4 * us + 9 * us);
    CHECK(found.rest_ns == 9 * us);
    CHECK(found.woken_ns == std::vector<int64_t>(10, 5 * us));
    CHECK(found.before_ns == std::vector<int64_t>(10, 3 * us));
    CHECK(found.after_ns[0] == 1 * us);

    CaseResult one = judged(0, 0);
    one.found = found;
    Validated validated;
    validated.cases = {one};
    const auto log = to_json(validated)["cases"][0]["log"];
    CHECK(log["total_longer_percent"] == doctest::Approx(4.9));
    CHECK(log["unexplained_percent"] == doctest::Approx(0.9));
    CHECK(log["covered_percent"] == doctest::Approx(100));
    CHECK(log["total_within"] == true);
    slices[3].end -= 30 * us;  // the trace lacks a third of an event
    validated.cases[0].found = match_rank(events, slices, origin, 1000 * ms);
    CHECK(validated.cases[0].found.covered_ns == 971 * us);
    CHECK(to_json(validated)["cases"][0]["log"]["total_within"] == false);
}

TEST_CASE("one interruption by two events counts once") {
    const std::vector<polter::inject::Injected> events = {{0, 0, 1'000'000, 100'000, 100'000}, {0, 0, 1'120'000, 100'000, 100'000}};
    const Found found = match_rank(events, {{996'000, 1'222'000, true, true, false, false}}, 0, 10 * ms);
    CHECK(found.found == 2);
    CHECK(found.recorded == 1);
    CHECK(found.recorded_ns == 226'000);
    CHECK(found.longer_ns == std::vector<int64_t>{14'000, 12'000});
}

namespace {

// A loop on CPU 1 for a second: a tick of 5 us every 4 ms, of which 35 us more are hidden; events of 100 us every 10 ms, whose timer
// interrupt is seen with 5 us and preemption with 108 us of the 160 us that they take. `change`: of the events' detours.
nlohmann::json loop_with(const std::function<void(int64_t, nlohmann::json&)>& change = {}) {
    constexpr int64_t us = 1'000;
    nlohmann::json loop = {{"cpu", 1}, {"measured_by", "bpf"}, {"detours", nlohmann::json::array()}};
    const auto detour = [&](int64_t begin, int64_t lost, int64_t unattributed, nlohmann::json events) {
        loop["detours"].push_back({{"begin_ns", begin},
                                   {"duration_ns", lost + 20},
                                   {"lost_ns", lost},
                                   {"unattributed_ns", unattributed},
                                   {"events", std::move(events)}});
    };
    const nlohmann::json timer = {{"source", "timer"}, {"culprit", "local_timer"}, {"ns", 5 * us}};
    for (int64_t i = 0; i < 250; ++i) {
        detour(i * 4 * ms + 1 * ms, 40 * us, 35 * us, {timer});
        if (i % 2 == 1 || i < 4) continue;
        detour(i * 4 * ms + 2 * ms, 160 * us, 47 * us, {timer, {{"source", "preempt"}, {"culprit", "polter-inject"}, {"ns", 108 * us}}});
        if (change) change(i, loop["detours"].back());
    }
    return loop;
}

polter::inject::Log log_of_loop() {
    polter::inject::Log log;
    log.sources.push_back({"noise", "periodic", {}});
    for (int64_t i = 0; i < 250; i += 2) log.sources[0].events.push_back({0, 1, i * 4 * ms + 2 * ms + 50'000, 100'000, 100'000});
    log.sources[0].events.push_back({0, 0, 5 * ms, 100'000, 100'000});  // another CPU
    return log;
}

}  // namespace

TEST_CASE("what is hidden from the exporter is what the loop lost beyond the records") {
    const EventCost cost = event_cost(log_of_loop(), {loop_with()});
    CHECK(cost.measured_by == "bpf");
    REQUIRE(cost.cpus.size() == 1);
    const CpuCost& one = cost.cpus.at(1);
    CHECK(one.beyond == 60'000);
    CHECK(one.hidden_timer == 35'000);
    CHECK(one.hidden == 47'000);
    CHECK(one.events == 123);  // the first two have no detour
    CHECK(one.ticks == 250);
    CHECK(cost.of(1) == one);
    CHECK(cost.of(5) == one);  // not measured: the mean
    CHECK(event_cost_from(to_json(cost)).cpus.at(1) == one);
}

TEST_CASE("detours of other tasks, and single long ones, do not count for an event's cost") {
    const auto others = loop_with([](int64_t i, nlohmann::json& detour) {
        if (i % 4 != 0) return;
        detour["events"].push_back({{"source", "preempt"}, {"culprit", "bash"}, {"ns", 1'000'000}});
        detour["lost_ns"] = 1'160'000;
    });
    CHECK(event_cost(log_of_loop(), {others}).cpus.at(1).beyond == 60'000);
    CHECK(event_cost(log_of_loop(), {others}).cpus.at(1).events == 61);
    const auto stopped = loop_with([](int64_t i, nlohmann::json& detour) {
        if (i % 60 == 0) detour["lost_ns"] = 9'000'000;
    });
    CHECK(event_cost(log_of_loop(), {stopped}).cpus.at(1).beyond == 60'000);
    auto few = log_of_loop();
    few.sources[0].events.resize(20);
    CHECK(event_cost(few, {loop_with()}).cpus.empty());  // of 20 events 18 have a detour
}

TEST_CASE("the verdict has the estimate from the records alone beside that with hidden time") {
    CaseResult one = judged(0, 0);
    for (Pair& pair : one.pairs) {
        pair.estimated_as_recorded = pair.quiet + 20 * ms;
        pair.cost.cpus[0] = pair.cost_by_loop.cpus[0] = {60'000, 47'000, 35'000, 100, 250};
    }
    judge(one, 1);
    CHECK(one.estimation.within);
    CHECK_FALSE(one.estimation_as_recorded.within);
    CHECK(one.hidden_timer.median == 35'000);
    CHECK(verdict_of({one}).starts_with("Correct here"));
    CHECK(verdict_of({one}).ends_with(
        "From the records alone, with the hidden time still in it, the estimate lies there in 0 and is off by at most "
        "2.00 %."));
    Validated validated;
    validated.cases = {one};
    CHECK(to_json(validated)["cases"][0]["hidden_ns"] == 20 * ms);
    CHECK(to_text(validated).find("47.0 us (47.0 to 47.0) of an event, 35.0 us (35.0 to 35.0) of a timer interrupt") != std::string::npos);
}

TEST_CASE("the verdict says where log and trace differ") {
    CaseResult lacks = judged(0, 0), invents = judged(0, 0);
    lacks.found.logged = 1000;
    lacks.found.found = 980;
    CHECK(verdict_of({lacks}).ends_with("The trace lacks 20 of 1000 injected events."));
    invents.found.recorded = 100;
    invents.found.invented = 2;
    CHECK(verdict_of({invents}).ends_with("2 interruptions by the injector that it did not log."));
    CHECK(verdict_of({judged(0, 0)}).ends_with(" %."));
}

TEST_CASE("no verdict where the runs differ so much that an answer without the noise would pass") {
    // The estimate removes nothing, the prediction adds nothing.
    const CaseResult idle = judged(50 * ms, -50 * ms, 400 * ms, 10, {.always_a_verdict = true});
    CHECK(idle.estimation.within);
    CHECK(idle.prediction.within);
    CHECK(idle.no_verdict == "");
    CHECK(judged(50 * ms, -50 * ms, 400 * ms).no_verdict != "");
    // More pairs of the same runs tell it apart; half of those runs still differ by more than the effect.
    const CaseResult more = judged(50 * ms, -50 * ms, 120 * ms, 200);
    CHECK(more.quiet_spread > more.effect.median);
    CHECK(more.no_verdict == "");
    CHECK_FALSE(more.estimation.within);
    CHECK_FALSE(more.prediction.within);

    const CaseResult noisy = judged(0, 0, 400 * ms);
    CHECK(noisy.no_verdict.starts_with("the injected noise costs 5.0 %, and the runs' medians are known to within -"));
    CHECK(verdict_of({noisy}).starts_with("No verdict"));
    CHECK(verdict_of({noisy, judged(0, 0)}).find("1 cases (1 more without a verdict)") != std::string::npos);
    Validated validated;
    validated.cases = {noisy};
    const auto json = to_json(validated);
    CHECK(json["cases"][0]["estimation"]["within"].is_null());
}

TEST_CASE("what is given for comparison decides nothing") {
    CaseResult one = judged(0, 0);
    for (Pair& pair : one.pairs) {
        pair.predicted_by_log = pair.injected - 30 * ms;
        pair.measured_quiet = pair.quiet + 5 * ms;
        pair.estimated_with_own = pair.quiet + 50 * ms;
    }
    judge(one, 1);
    CHECK_FALSE(one.estimation_with_own.within);
    CHECK(one.measured_quiet.median == 1005 * ms);
    CHECK_FALSE(one.prediction_by_log.within);
    CHECK(one.prediction.within);
    CHECK(verdict_of({one}).starts_with("Correct here"));
}

TEST_CASE("the interval of a median contains it, and the same seed gives the same") {
    const std::vector<int64_t> values = {5, 1, 4, 2, 3, 9, 8, 6, 7, 100};
    const Interval one = median_of(values, 3), again = median_of(values, 3);
    CHECK(one.median == 5);
    CHECK(one.low <= one.median);
    CHECK(one.high >= one.median);
    CHECK(one.high < 100);
    CHECK(one.low == again.low);
    CHECK(one.high == again.high);
}
