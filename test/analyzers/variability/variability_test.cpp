// SPDX-License-Identifier: BSD-3-Clause
// Extreme values against references; intervals against laws whose answer is known; traces computed by hand. And each statistic's mutation,
// which the same expectations must catch.
#include "analyzers/variability/variability.hpp"

#include <doctest/doctest.h>
#include <otf2/otf2.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "analyzers/interference/interference.hpp"
#include "analyzers/samples/samples.hpp"
#include "analyzers/variability/mutations.hpp"
#include "replay/base/error.hpp"
#include "support/trace_spec.hpp"
#include "test/analyzers/expectations.hpp"

namespace {

using namespace polter;
using namespace polter::variability;
using test::Expectations;
using Kind = test::Record::Kind;

// SciPy's and evd's values, of reference.py.
void check_references(Expectations& e) {
    const nlohmann::json reference = nlohmann::json::parse(std::ifstream(POLTER_REFERENCE));
    const auto location = reference["location"].get<double>(), scale = reference["scale"].get<double>();
    const auto levels = reference["levels"].get<std::vector<double>>();
    for (size_t i = 0; i < reference["scipy"].size(); ++i) {
        const nlohmann::json& row = reference["scipy"][i];
        const Gev gev{location, scale, row["shape"].get<double>()};
        const std::string name = "shape " + std::to_string(gev.shape);
        for (size_t j = 0; j < levels.size(); ++j) {
            e.near(gev.quantile(levels[j]), row["quantiles"][j], 1e-9, name + ", SciPy's quantile");
            e.near(gev.quantile(levels[j]), reference["evd"]["quantiles"][i][j], 1e-9, name + ", evd's quantile");
        }
        for (size_t j = 0; j < 3; ++j)
            e.near(gev.cumulative(std::vector<double>{80, 100, 130}[j]), row["cumulative"][j], 1e-9,
                   name + ", SciPy's distribution function");
        const Gev by_moments = from_moments(row["mean"], row["deviation"], row["skewness"]);
        e.near(by_moments.shape, gev.shape, 1e-6, name + ", by moments");
        e.near(by_moments.scale, scale, 1e-6, name + ", scale by moments");
        e.near(by_moments.location, location, 1e-6, name + ", location by moments");
        if (std::abs(gev.shape) > 0.3) continue;  // the polynomial's own error grows
        const Gev by_weighted = from_weighted_moments(row["weighted"][0], row["weighted"][1], row["weighted"][2]);
        e.expect(std::abs(by_weighted.shape - gev.shape) < 9e-4, name + ", by weighted moments: " + std::to_string(by_weighted.shape));
        e.near(by_weighted.scale, scale, 2e-3, name + ", scale by weighted moments");
        e.near(by_weighted.location, location, 1e-3, name + ", location by weighted moments");
    }
    // Of one sample, the fits are as near to evd's of maximum likelihood as two of its standard errors.
    auto sample = reference["sample"].get<std::vector<double>>();
    std::sort(sample.begin(), sample.end());
    const nlohmann::json& fitted = reference["evd"]["fit"];
    for (const Method method : {Method::pwm, Method::mom}) {
        const Fit fit_of_sample = fit(method, sample);
        const auto within = [&](double value, const char* key, size_t i) {
            e.expect(std::abs(value - fitted[key].get<double>()) < 2 * fitted["errors"][i].get<double>(),
                     name_of(method) + " against evd's fit, " + key + ": " + std::to_string(value));
        };
        e.expect(fit_of_sample.accepted, name_of(method) + " rejects the sample: " + fit_of_sample.why);
        within(fit_of_sample.gev.location, "location", 0);
        within(fit_of_sample.gev.scale, "scale", 1);
        within(fit_of_sample.gev.shape, "shape", 2);
    }
}

// The time of one rank in one interval, and its distribution function.
struct Law {
    std::string name;
    std::function<double(std::mt19937_64&, int rank)> draw;
    std::function<double(double)> of_maximum;  // of 64 ranks
};

double normal(std::mt19937_64& random) {
    const double a = uniform(random), b = uniform(random);
    return std::sqrt(-2 * std::log(a)) * std::cos(6.283185307179586 * b);
}

double normal_below(double x) {
    return 0.5 * std::erfc(-x / std::sqrt(2.0));
}

std::vector<Law> laws() {
    const auto below = [](auto f) { return [f](double x) { return std::pow(f(x), 64); }; };
    const auto exponential = [](double x, double mean) { return x < 100 ? 0 : 1 - std::exp(-(x - 100) / mean); };
    return {
        {"normal", [](auto& r, int) { return 100 + 5 * normal(r); }, below([](double x) { return normal_below((x - 100) / 5); })},
        {"exponential", [](auto& r, int) { return 100 - 5 * std::log(uniform(r)); }, below([=](double x) { return exponential(x, 5); })},
        {"Pareto 3", [](auto& r, int) { return 100 * std::pow(uniform(r), -1.0 / 3); },
         below([](double x) { return x < 100 ? 0 : 1 - std::pow(x / 100, -3); })},
        {"one noisy node of eight", [](auto& r, int rank) { return rank < 8 ? 100 - 8 * std::log(uniform(r)) : 100 + 5 * normal(r); },
         [=](double x) { return std::pow(normal_below((x - 100) / 5), 56) * std::pow(exponential(x, 8), 8); }}};
}

double quantile_of(const std::function<double(double)>& cumulative, double p) {
    double low = 0, high = 1e6;
    for (int i = 0; i < 100; ++i) (cumulative((low + high) / 2) < p ? low : high) = (low + high) / 2;
    return (low + high) / 2;
}

bool inside(const std::optional<samples::Interval>& interval, double value) {
    return interval && interval->low <= value && value <= interval->high;
}

struct Coverage {
    double typical = 0, next = 0, basis = 0, mean_error = 0;  // shares, `next` of those with a basis; relative error of the mean of means
};

// 64 ranks measured, 512 wanted.
Coverage coverage_of(const Law& law, size_t intervals, int repetitions, uint64_t seed) {
    constexpr double factor = 8;
    constexpr int ranks = 64;
    const double truth = quantile_of(law.of_maximum, std::pow(0.5703760016984968, 1 / factor));
    double true_mean = 0, mean = 0;
    constexpr int points = 4000;
    for (int i = 0; i < points; ++i) true_mean += quantile_of(law.of_maximum, std::pow((i + 0.5) / points, 1 / factor)) / points;
    std::mt19937_64 random(seed);
    Coverage coverage;
    for (int k = 0; k < repetitions; ++k) {
        std::vector<double> maxima(intervals, 0);
        for (double& most : maxima)
            for (int rank = 0; rank < ranks; ++rank) most = std::max(most, law.draw(random, rank));
        const double independent = independent_of(maxima, level_of(typical, factor));
        std::sort(maxima.begin(), maxima.end());
        coverage.typical += inside(project_typical(maxima, factor, independent).interval, truth) ? 1.0 / repetitions : 0;
        double next = 0;  // of one interval on 512 ranks
        for (int i = 0; i < factor * ranks; ++i) next = std::max(next, law.draw(random, i % ranks));
        const auto range = project_next(maxima, factor, independent).interval;
        coverage.next += inside(range, next) ? 1.0 / repetitions : 0;
        coverage.basis += range ? 1.0 / repetitions : 0;
        mean += mean_of_maxima(maxima, factor).value_or(0) / repetitions;
    }
    coverage.next /= coverage.basis;
    coverage.mean_error = std::abs(mean / true_mean - 1);
    return coverage;
}

void check_coverage(Expectations& e, const std::vector<Law>& wanted, int repetitions, double least, double most, bool print = false) {
    for (const Law& law : wanted) {
        const Coverage coverage = coverage_of(law, 200, repetitions, 1);
        const std::string text = law.name + ", 200 intervals, 64 to 512 ranks, " + std::to_string(repetitions) + " repetitions: typical " +
                                 std::to_string(100 * coverage.typical) + " %, next " + std::to_string(100 * coverage.next) +
                                 " %, mean off by " + std::to_string(100 * coverage.mean_error) + " %";
        if (print) MESSAGE(text);
        e.expect(coverage.typical >= least && coverage.typical <= most, text);
        e.expect(coverage.next >= least && coverage.next <= most, text);
        e.expect(coverage.basis > 0.9, "no basis too often: " + text);
        e.expect(coverage.mean_error < 0.01, text);
    }
}

// A process whose values are alike for about ten intervals: the interval of the plain median must hold too.
void check_correlated(Expectations& e) {
    std::mt19937_64 random(3);
    constexpr int repetitions = 200;
    double covered = 0;
    for (int k = 0; k < repetitions; ++k) {
        std::vector<double> values;
        double state = normal(random);
        for (int i = 0; i < 400; ++i) {
            values.push_back(state);
            state = 0.8 * state + 0.6 * normal(random);
        }
        const double independent = independent_of(values, typical);
        std::sort(values.begin(), values.end());
        covered += inside(project_typical(values, 1, independent).interval,
                          quantile_of([](double x) { return normal_below(x - 50); }, typical) - 50)
                       ? 100.0 / repetitions
                       : 0;
    }
    e.expect(covered > 90, "correlated intervals: " + std::to_string(covered) + " % covered");
}

void check_projection(Expectations& e) {
    std::vector<double> values;
    for (int i = 1; i <= 99; ++i) values.push_back(i);
    // Of 99 values, the 53rd-highest level that 8 times as many ranks need has 6 or 7 above it; 53 independent ones are enough.
    e.near(project_typical(values, 8, 99).needed, 53, 0, "intervals needed for the typical one");
    e.expect(!project_typical(values, 64, 99).interval, "a basis for 64 times as many ranks in 99 intervals");
    e.near(project_next(values, 8, 99).needed, 152, 0, "intervals needed for the next one");
    e.expect(!project_next(values, 8, 99).interval, "a basis for the next of 8 times as many ranks in 99 intervals");
    // A further value lies within the least and the greatest but 2 of 100 with probability 0.95 and more.
    const auto one = project_next(values, 1, 99).interval;
    e.expect(one.has_value(), "no basis for one further interval");
    if (one) {
        e.near(one->low, 2.5, 1e-6, "further interval, low");
        e.near(one->high, 97.5, 1e-6, "further interval, high");
    }
    // EMMA of a fit: of Gumbel's law the quantile of the mean, moved by scale * ln(factor).
    std::vector<double> gumbel;
    const Gev law{100, 10, 0};
    for (int i = 0; i < 5000; ++i) gumbel.push_back(law.quantile((i + 0.5) / 5000));
    for (const Method method : {Method::pwm, Method::mom})
        e.near(project_parametric(method, gumbel, 8, 1, 0).value, 100 + 10 * (0.5772156649 + std::log(8)), 5e-3,
               "EMMA by " + name_of(method));
    // A tail that single values decide is rejected.
    std::vector<double> heavy;
    const Gev tail{100, 10, -0.8};
    for (int i = 0; i < 200; ++i) heavy.push_back(tail.quantile((i + 0.5) / 200));
    e.expect(!fit(Method::pwm, heavy).accepted, "a shape of -0.8 is accepted");
    const samples::Interval resampled = resampled_maxima(values, 8, 1, 400);
    e.expect(resampled.high == 99 && resampled.low > 50, "resampled maxima: " + std::to_string(resampled.low));
}

// Two ranks. Work, stolen from it, stolen within the barrier, and the barrier's own time, of each interval; every second one sends a
// message.
std::string written(const test::TemporaryDirectory& directory) {
    test::TraceSpec spec(2);
    spec.accounts = {"os:preempt"};
    spec.properties["EXPORTER"] = "simulated";
    for (size_t rank = 0; rank < 2; ++rank) {
        spec.add(rank, 0, Kind::enter, "MPI_Init");
        spec.add(rank, 1, Kind::leave, "MPI_Init");
    }
    int64_t now = 100;
    const auto noise = [&](size_t rank, int64_t end, int64_t ns) {
        auto& record = spec.add(rank, end, Kind::noise, "os:preempt");
        record.ns = ns;
        record.culprit = "hog";
    };
    const auto barrier = [&](const std::array<int64_t, 2>& enter, int64_t absorbed) {
        const int64_t leave = std::max(enter[0], enter[1]) + 10;
        for (size_t rank = 0; rank < 2; ++rank) {
            spec.add(rank, enter[rank], Kind::enter, "MPI_Barrier");
            spec.add(rank, enter[rank], Kind::collective_begin);
            if (rank == 0 && absorbed > 0) noise(0, enter[0] + absorbed, absorbed);  // while it waits for rank 1
            auto& end = spec.add(rank, leave, Kind::collective_end);
            end.operation = OTF2_COLLECTIVE_OP_BARRIER;
            end.peer = -1;
            spec.add(rank, leave, Kind::leave, "MPI_Barrier");
        }
        return leave;
    };
    now = barrier({now, now}, 0);
    for (int i = 0; i < 60; ++i) {
        const int64_t stolen = i % 5 == 0 ? 500 : 0;  // from rank 1, which is the last
        std::array<int64_t, 2> enter = {now + 600, now + 1000 + stolen};
        if (i % 2 == 1) {  // the other kind: more work, and a message
            enter = {now + 3000, now + 3010 + stolen};
            for (size_t rank = 0; rank < 2; ++rank) {
                const int64_t at = now + 5;
                spec.add(rank, at, Kind::enter, rank == 0 ? "MPI_Send" : "MPI_Recv");
                auto& message = spec.add(rank, at, rank == 0 ? Kind::send : Kind::recv);
                message.peer = rank == 0 ? 1 : 0;
                message.bytes = 8;
                spec.add(rank, at, Kind::leave, rank == 0 ? "MPI_Send" : "MPI_Recv");
            }
        }
        if (stolen > 0) noise(1, enter[1], stolen);
        now = barrier(enter, i % 2 == 0 ? 200 : 0);
    }
    for (size_t rank = 0; rank < 2; ++rank) {
        spec.add(rank, now + 50, Kind::enter, "MPI_Finalize");
        spec.add(rank, now + 60, Kind::leave, "MPI_Finalize");
    }
    test::write_trace(spec, directory.path("run"));
    return directory.path("run");
}

void check_trace(Expectations& e) {
    const test::TemporaryDirectory directory;
    Options options;
    options.input = written(directory);
    options.resamples = 50;
    const Result result = analyze(options);
    e.expect(result.kinds.size() == 2, "kinds of intervals: " + std::to_string(result.kinds.size()));
    if (result.kinds.size() != 2) return;
    const variability::Kind& calm = result.kinds[1];  // 30 intervals: 1000 ns of work, 6 of them 500 longer; barrier of 10
    e.expect(calm.intervals.work.size() == 30, "intervals of the shorter kind");
    e.near(calm.mean, 1110, 1e-9, "mean length");
    e.expect(calm.parts.size() == 3, "parts");
    if (calm.parts.size() != 3) return;
    e.near(calm.parts[0].mean, 100, 1e-9, "OS noise");
    e.near(calm.parts[0].of_variance, 1, 1e-9, "OS noise's part of the variance");
    e.near(calm.parts[1].mean, 10, 1e-9, "barrier");
    e.near(calm.parts[2].mean, 1000, 1e-9, "work");
    e.near(calm.projections.front().typical_without->value, 1000, 1e-9, "typical interval without OS noise");
    e.expect(!calm.intervals.exchanges && result.kinds[0].intervals.exchanges, "which kind exchanges messages");
}

nlohmann::json bench(size_t phases) {
    std::vector<int64_t> work, rank, wait;
    std::mt19937_64 random(1);
    for (size_t i = 0; i < phases; ++i) {
        work.push_back(static_cast<int64_t>(1e6 + 1e4 * normal(random)));
        rank.push_back(i % 2 ? 7 : static_cast<int64_t>(random() % 64));
        wait.push_back(2000);
    }
    return {{"schema", "polter.bench.bsp/1"},
            {"workload", "work"},
            {"ranks", 64},
            {"grain_ns", 1000000},
            {"units", 10},
            {"phases", phases},
            {"collective", "barrier"},
            {"halo", 0},
            {"slowest_work_ns", work},
            {"slowest_rank", rank},
            {"shortest_wait_ns", wait}};
}

bool warned(const Result& result, const std::string& of) {
    const auto& warnings = result.kinds[0].warnings;
    return std::any_of(warnings.begin(), warnings.end(), [&](const std::string& w) { return w.find(of) != std::string::npos; });
}

// A rank that is always last, and a run that changes, are told; a run without either has no warning.
void check_warnings(Expectations& e) {
    nlohmann::json plain = bench(300), changed = bench(300);
    for (size_t i = 0; i < 300; ++i) plain["slowest_rank"][i] = (i * 37) % 64;
    for (size_t i = 150; i < 300; ++i) changed["slowest_work_ns"][i] = changed["slowest_work_ns"][i].get<int64_t>() + 20000;
    Options options;
    options.resamples = 20;
    const auto of = [&](const nlohmann::json& json) { return analyze(from_bench(json, "bsp.json"), options); };
    e.expect(of(plain).kinds[0].warnings.empty(), "a warning of a plain run");
    e.expect(warned(of(bench(300)), "rank 7 arrives last"), "no warning of a rank that is always last");
    e.expect(warned(of(changed), "differs from the second"), "no warning of a run that changes");
}

std::string all_expectations() {
    Expectations e;
    check_references(e);
    check_projection(e);
    if (e.failed.empty()) check_warnings(e);
    if (e.failed.empty()) check_correlated(e);
    if (e.failed.empty()) check_trace(e);
    if (e.failed.empty()) check_coverage(e, {laws()[2]}, 400, 0.93, 0.97);
    return e.failed;
}

}  // namespace

TEST_CASE("what the statistics say is what was computed by hand, by SciPy and by evd") {
    CHECK(all_expectations() == "");
}

TEST_CASE("each mutation is caught") {
    for (int which = 1; which < mutations; ++which) {
        CAPTURE(which);
        mutation = static_cast<Mutation>(which);
        const std::string caught = all_expectations();
        mutation = Mutation::none;
        CHECK(caught != "");
    }
}

TEST_CASE("95 % intervals cover 93 to 97 %") {
    const char* more = std::getenv("POLTER_REPETITIONS");
    Expectations e;
    check_coverage(e, laws(), more ? std::atoi(more) : 1000, 0.93, 0.97, true);
    CHECK(e.failed == "");
}

// Why the paper's intervals are shown for comparison only. Printed and checked where POLTER_REPETITIONS asks for more.
TEST_CASE("the 95 % intervals of the paper's projections cover less") {
    if (!std::getenv("POLTER_REPETITIONS")) return;
    constexpr int repetitions = 200;
    double least = 1;
    for (const Law& law : laws()) {
        const double truth = quantile_of(law.of_maximum, std::pow(0.5703760016984968, 1.0 / 8));
        std::array<double, 2> covered{}, accepted{};
        std::mt19937_64 random(11);
        for (int k = 0; k < repetitions; ++k) {
            std::vector<double> maxima(200, 0);
            for (double& most : maxima)
                for (int rank = 0; rank < 64; ++rank) most = std::max(most, law.draw(random, rank));
            std::sort(maxima.begin(), maxima.end());
            for (const Method method : {Method::pwm, Method::mom}) {
                const auto i = static_cast<size_t>(method);
                const auto interval = project_parametric(method, maxima, 8, static_cast<uint64_t>(k), 200).interval;
                accepted[i] += interval ? 1 : 0;
                covered[i] += inside(interval, truth) ? 1 : 0;
            }
        }
        for (size_t i = 0; i < 2; ++i) {
            MESSAGE(law.name << ", " << name_of(static_cast<Method>(i)) << ": " << 100 * covered[i] / accepted[i] << " % of " << accepted[i]
                             << " with an interval");
            least = std::min(least, covered[i] / accepted[i]);
        }
    }
    CHECK(least < 0.93);
}

TEST_CASE("a result of the benchmark") {
    Options options;
    options.ranks = {512};
    const Result result = analyze(from_bench(bench(300), "bsp.json"), options);
    REQUIRE(result.kinds.size() == 1);
    CHECK(result.kinds[0].projections.size() == 2);
    CHECK(result.kinds[0].projections[1].typical.value > result.kinds[0].projections[0].typical.value);
    CHECK(to_json(result)["kinds"][0]["projections"][1]["ranks"] == 512);
    CHECK(to_text(result).find("512") != std::string::npos);
    // The same twice; too few intervals; fewer ranks; damaged files.
    CHECK(to_json(result) == to_json(analyze(from_bench(bench(300), "bsp.json"), options)));
    CHECK_THROWS_AS(analyze(from_bench(bench(10), "bsp.json"), options), replay::InputError);
    options.ranks = {8};
    CHECK_THROWS_AS(analyze(from_bench(bench(300), "bsp.json"), options), replay::InputError);
    nlohmann::json damaged = bench(300);
    damaged["slowest_work_ns"].erase(damaged["slowest_work_ns"].begin());
    CHECK_THROWS_AS(from_bench(damaged, "bsp.json"), replay::InputError);
    damaged = bench(300);
    damaged["slowest_work_ns"][3] = -1;
    CHECK_THROWS_AS(from_bench(damaged, "bsp.json"), replay::InputError);
    damaged["slowest_work_ns"][3] = "x";
    CHECK_THROWS_AS(from_bench(damaged, "bsp.json"), replay::InputError);
    CHECK_THROWS_AS(from_bench(nlohmann::json::array(), "bsp.json"), replay::InputError);
    CHECK_THROWS_AS(project_typical({1, 2, NAN}, 8, 3), samples::Error);
    CHECK_THROWS_AS(project_next({}, 8, 0), samples::Error);
}

TEST_CASE("intervals that are all equal") {
    nlohmann::json same = bench(300);
    for (auto& value : same["slowest_work_ns"]) value = 1000;
    const Result equal = analyze(from_bench(same, "bsp.json"), {});
    CHECK(equal.kinds[0].projections.back().typical.value == 1000);
    CHECK_FALSE(equal.kinds[0].agree);
}
