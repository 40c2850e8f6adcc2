// SPDX-License-Identifier: BSD-3-Clause
// The verdict of polter validate, from pairs whose answers are known.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "analyzers/validation/validate.hpp"

using namespace polter::validation;

namespace {

constexpr int64_t ms = 1'000'000;

// Quiet runs of 1 s that differ by `spread`, injected ones of 1.05 s; the answers are off by so much.
CaseResult judged(int64_t estimate_off, int64_t prediction_off, int64_t spread = 2 * ms) {
    CaseResult result;
    for (int64_t i = 0; i < 10; ++i) {
        const int64_t chance = (i % 5 - 2) * spread / 4, quiet = 1000 * ms + chance, injected = 1050 * ms + chance;
        Pair pair;
        pair.quiet = quiet;
        pair.injected = injected;
        pair.estimated = quiet + estimate_off;
        pair.predicted = injected + prediction_off;
        pair.machine_noise = 3 * ms;
        result.pairs.push_back(pair);
    }
    judge(result, 1);
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

TEST_CASE("what an event costs a loop is its gap less its length; events without a gap do not count") {
    const std::vector<std::pair<int64_t, int64_t>> gaps = {{1'000, 30}, {2'000, 150}, {3'000, 160}, {4'000, 170}, {6'000, 20}};
    const std::vector<polter::inject::Injected> events = {
        {0, 0, 500, 100, 100}, {0, 0, 2'040, 100, 100}, {0, 0, 3'040, 100, 100}, {0, 0, 4'040, 100, 100}, {0, 0, 6'010, 100, 100}};
    CHECK(beyond_length(gaps, events) == std::vector<int64_t>{50, 60, 70});
    CHECK(beyond_length({}, events).empty());
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

TEST_CASE("no verdict where the quiet runs differ by more than the effect") {
    const CaseResult noisy = judged(0, 0, 400 * ms);
    CHECK(noisy.quiet_spread > noisy.effect.median);
    CHECK(noisy.no_verdict != "");
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
        pair.hidden = 4 * ms;
        pair.measured_quiet = pair.quiet + 5 * ms;
        pair.estimated_with_own = pair.quiet + 50 * ms;
    }
    judge(one, 1);
    CHECK_FALSE(one.estimation_with_own.within);
    CHECK(one.measured_quiet.median == 1005 * ms);
    CHECK_FALSE(one.prediction_by_log.within);
    CHECK(one.prediction.within);
    CHECK(one.hidden == 4 * ms);
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
