// SPDX-License-Identifier: BSD-3-Clause
// Differences of runs whose answer is known.
#include "analyzers/compare/compare.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "support/trace_spec.hpp"

namespace {

using namespace polter;
using Kind = test::Record::Kind;

std::vector<compare::Value> exact(std::initializer_list<int64_t> values) {
    std::vector<compare::Value> list;
    for (const int64_t ns : values) list.push_back({ns, ns, ns});
    return list;
}

// One rank computes for `work`, and `hog` takes `stolen` of it.
std::string written(const test::TemporaryDirectory& directory, const std::string& name, int64_t work, int64_t stolen,
                    const char* program = "app") {
    test::TraceSpec spec(1);
    spec.accounts = {"os:preempt"};
    spec.properties["PROGRAM"] = program;
    spec.add(0, 0, Kind::enter, "main");
    auto& noise = spec.add(0, work, Kind::noise, "os:preempt");
    noise.ns = stolen;
    noise.culprit = "hog";
    spec.add(0, work + stolen, Kind::leave, "main");
    test::write_trace(spec, directory.path(name));
    return directory.path(name);
}

}  // namespace

TEST_CASE("one run of each side: the replay's bounds") {
    const auto e = compare::difference({{100, 90, 105}}, {{150, 145, 160}}, 1, 100);
    CHECK(e.a_ns == 100);
    CHECK(e.difference_ns == 50);
    CHECK(e.low_ns == 40);   // 145 − 105
    CHECK(e.high_ns == 70);  // 160 − 90
    CHECK(e.more_than_noise());
    CHECK(!compare::difference({{100, 90, 105}}, {{104, 99, 110}}, 1, 100).more_than_noise());
}

TEST_CASE("where there are too few runs, chance is part of the interval; with enough it is measured") {
    const auto run = [](int64_t run_time, int64_t noise) {
        compare::Run run;
        run.run_time = {run_time, run_time, run_time};
        run.noise = run.sources["preemption"] = {noise, noise, noise};
        run.without_noise = {run_time - noise, run_time - noise, run_time - noise};
        return run;
    };
    const auto near = compare::compare_runs({run(10'000, 100)}, {run(10'200, 130)}, "A", "B", 1, 100);
    CHECK(!near.run_time.estimate.more_than_noise());
    CHECK(!near.noise.estimate.more_than_noise());
    CHECK(!near.sources.front().estimate.more_than_noise());
    CHECK(near.run_time.estimate.low_ns == 200 - 306);
    CHECK(near.noise.estimate.high_ns == 30 + 51);
    const auto far = compare::compare_runs({run(10'000, 100)}, {run(11'000, 1'000)}, "A", "B", 1, 100);
    CHECK(far.run_time.estimate.more_than_noise());
    CHECK(far.noise.estimate.more_than_noise());
    CHECK(!far.without_noise.estimate.more_than_noise());
    const std::vector<compare::Run> a(5, run(10'000, 100)), b(5, run(10'200, 130));
    CHECK(compare::compare_runs(a, b, "A", "B", 1, 100).run_time.estimate.more_than_noise());
}

TEST_CASE("few runs: extremes; many: resampled medians, the same with the same seed") {
    const auto few = compare::difference(exact({10, 20, 30}), exact({100, 110}), 1, 100);
    CHECK(few.difference_ns == 85);
    CHECK(few.low_ns == 70);
    CHECK(few.high_ns == 100);
    const auto a = exact({10, 11, 12, 13, 14, 15, 16}), b = exact({20, 21, 22, 23, 24, 25, 90});
    const auto many = compare::difference(a, b, 7, 1000);
    CHECK(many.difference_ns == 10);
    CHECK(many.more_than_noise());
    CHECK(many.high_ns < 90 - 10);  // one outlier does not decide
    const auto again = compare::difference(a, b, 7, 1000);
    CHECK(again.low_ns == many.low_ns);
    CHECK(again.high_ns == many.high_ns);
    CHECK(!compare::difference(a, a, 7, 1000).more_than_noise());
}

TEST_CASE("what differs is split into noise and the rest") {
    const test::TemporaryDirectory directory;
    compare::Options options;
    options.sides = {{written(directory, "a", 1'000'000, 10'000)}, {written(directory, "b", 1'200'000, 310'000)}};
    const auto compared = compare::compare(options);
    REQUIRE(compared.comparisons.size() == 1);
    const auto& one = compared.comparisons.front();
    CHECK(one.run_time.estimate.difference_ns == 500'000);
    CHECK(one.noise.estimate.difference_ns == 300'000);
    CHECK(one.without_noise.estimate.difference_ns == 200'000);
    CHECK(one.noise.estimate.more_than_noise());
    CHECK(one.without_noise.estimate.more_than_noise());
    REQUIRE(one.culprits.size() == 1);
    CHECK(one.culprits.front().name == "preemption by hog");
    CHECK(one.culprits.front().estimate.difference_ns == 300'000);
    CHECK(one.sources.front().estimate.difference_ns == 300'000);
    CHECK(one.ranks.front().estimate.difference_ns == 300'000);
    CHECK(one.answer.find("B took 500 us longer than A: 300 us more (between") == 0);
    CHECK(one.answer.find("mostly preemption by hog; 200 us more") != std::string::npos);
    const auto json = to_json(compared);
    CHECK(json["schema"] == "polter.compare/1");
    CHECK(json["seed"] == 1);
    CHECK(json["comparisons"][0]["noise"]["difference"]["value"] == 300'000);
    CHECK(json["comparisons"][0]["culprits"][0]["more_than_noise"] == true);
}

TEST_CASE("a side compared with itself does not differ; several sides are compared with the first") {
    const test::TemporaryDirectory directory;
    const std::string a = written(directory, "a", 1'000'000, 10'000), other = written(directory, "b", 1'000'000, 10'000, "other");
    compare::Options options;
    options.sides = {{a}, {a}, {other}};
    const auto compared = compare::compare(options);
    REQUIRE(compared.comparisons.size() == 2);
    CHECK(compared.comparisons[0].run_time.estimate.difference_ns == 0);
    CHECK(!compared.comparisons[0].noise.estimate.more_than_noise());
    CHECK(compared.comparisons[0].answer.find("within its uncertainty") != std::string::npos);
    bool said = false;
    for (const auto& warning : compared.comparisons[1].warnings) said = said || warning.find("two programs") != std::string::npos;
    CHECK(said);
}
