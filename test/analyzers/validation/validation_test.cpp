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
        result.pairs.push_back({quiet, injected, quiet + estimate_off, injected + prediction_off, 3 * ms});
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

TEST_CASE("the total is judged without the switches, which are the same for each event") {
    CaseResult one = judged(0, 0);
    one.found.logged = one.found.found = one.found.recorded = 10;
    one.found.logged_ns = 1 * ms;
    one.found.recorded_ns = 1 * ms + 10 * 4'000 + 9'000;  // 4 us each, and 0.9 % that they do not explain
    one.found.longer_ns = std::vector<int64_t>(10, 4'000);
    Validated validated;
    validated.cases = {one};
    const auto log = to_json(validated)["cases"][0]["log"];
    CHECK(log["total_longer_percent"] == doctest::Approx(4.9));
    CHECK(log["unexplained_percent"] == doctest::Approx(0.9));
    CHECK(log["total_within"] == true);
    validated.cases[0].found.recorded_ns += 2'000;
    CHECK(to_json(validated)["cases"][0]["log"]["total_within"] == false);
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
