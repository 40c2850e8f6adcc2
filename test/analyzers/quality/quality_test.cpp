// SPDX-License-Identifier: BSD-3-Clause
// Verdicts, estimates and what is said while a job runs, of jobs whose run time is known by a formula; and each statistic's mutation.
#include "analyzers/quality/quality.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "analyzers/quality/mutations.hpp"
#include "generated_jobs.hpp"

namespace {

using namespace polter;
using namespace polter::quality;
using namespace polter::test;

// a + b * size^3 is no power of the size.
void check_curve(Expectations& e) {
    std::mt19937_64 random(7);
    std::vector<Job> jobs;
    for (int i = 0; i < 30; ++i) {
        Job job = generated(random);
        job.processes = 2;
        job.size = 500 + 100 * (i % 6);
        job.runtime_ns = std::llround(1e9 * (0.2 + std::pow(job.size / 700, 3)) * std::exp(0.01 * normal(random)));
        jobs.push_back(job);
    }
    const double error = Model(jobs, Inputs::attributes).left_out_error();
    e.expect(error < 0.02, "times that are no power of the size: error " + std::to_string(error));
}

// While a job runs: one that is 30 % slower is found long before its end, ordinary ones are not flagged, and nothing of the future is used.
void check_online(Expectations& e) {
    std::mt19937_64 random(8);
    int found = 0, alarms = 0, judged = 0;
    for (int repetition = 0; repetition < 20; ++repetition) {
        std::vector<Job> jobs;
        const auto alike = [&](double slower) {
            Job job = generated(random, slower, false, true);
            while (job.size < 8000 || job.processes != 2) job = generated(random, slower, false, true);
            return job;
        };
        for (int i = 0; i < 20; ++i) jobs.push_back(alike(1));
        const Job slow = alike(1.3), ordinary = alike(1);
        const auto flags = [&](const Job& job, Verdict verdict) {
            const Online online = follow(job, jobs, job.runtime_ns / 8);
            const int64_t half = job.runtime_ns / 2;
            return std::any_of(online.points.begin(), online.points.end(), [&](const Point& point) {
                return (verdict == Verdict::slower ? point.elapsed_ns <= half : point.verdict != Verdict::no_basis) &&
                       (verdict == Verdict::slower ? point.verdict == verdict : point.verdict != Verdict::as_expected);
            });
        };
        ++judged;
        found += flags(slow, Verdict::slower);
        alarms += flags(ordinary, Verdict::as_expected);
        if (repetition > 0) continue;
        const Online online = follow(slow, jobs, slow.runtime_ns / 8);
        e.expect(online.work == "calls" && online.work_error < 1e-6, "work is measured by " + online.work);
        e.expect(online.points.size() >= 7, std::to_string(online.points.size()) + " points");
        const double points = samples::median([&] {
                                  std::vector<double> lengths;
                                  for (const Job& job : jobs) lengths.push_back(static_cast<double>(job.runtime_ns));
                                  return lengths;
                              }()) /
                              static_cast<double>(online.interval_ns);
        e.expect(std::abs((1 - online.level) * std::max(1.0, points) - 0.01) < 1e-9,
                 "all points together flag 1 %: level " + std::to_string(online.level));
        if (!e.failed.empty()) return;
        const Point& middle = online.points[3];
        e.expect(std::abs(middle.late - 0.3) < 0.15, "late by " + std::to_string(middle.late));
        Job other = slow;  // another future
        auto& steps = other.series.steps["calls"];
        for (size_t i = steps.size() * 5 / 8; i < steps.size(); ++i) steps[i] *= 3;
        const Online changed = follow(other, jobs, slow.runtime_ns / 8);
        e.expect(changed.points[3].from_rates_s == middle.from_rates_s && changed.points[3].done == middle.done,
                 "what was said in the middle depends on what came later");
    }
    e.expect(found >= 0.95 * judged, std::to_string(found) + " of " + std::to_string(judged) + " slow jobs found by half of their time");
    e.expect(alarms <= 1, std::to_string(alarms) + " of " + std::to_string(judged) + " ordinary jobs flagged while they ran");
    e.expect(!follow(generated(random), history(random, 10)).why.empty(), "jobs without steps of time are followed");
    // Work that varies by itself does not say how far a job is.
    std::vector<Job> any = history(random, 20, false, true);
    for (Job& job : any)
        for (double& step : job.series.steps["calls"]) step *= job.runtime_ns % 7 + 1;
    e.expect(!follow(any.back(), any).why.empty(), "work that varies by itself is taken for progress");
}

std::string all_expectations() {
    Expectations e;
    std::mt19937_64 random(1);
    // Coefficients, outliers, false alarms: 100 histories of 40 jobs, 20 further jobs each.
    int flagged = 0, alarms = 0, within = 0, judged = 0;
    double worst = 0;
    for (int repetition = 0; repetition < 100; ++repetition) {
        const std::vector<Job> jobs = history(random, 40);
        const Model model(jobs, Inputs::attributes);
        for (const auto& [name, value] : model.coefficients()) {
            if (name == "log size") worst = std::max(worst, std::abs(value / of_size - 1));
            if (name == "log processes") worst = std::max(worst, std::abs(value / of_processes - 1));
        }
        for (int i = 0; i < 20; ++i) {
            const Assessment ordinary = assess(generated(random), jobs), slow = assess(generated(random, 1.3), jobs);
            if (ordinary.verdict == Verdict::no_basis) continue;
            ++judged;
            alarms += ordinary.verdict != Verdict::as_expected;
            flagged += slow.verdict == Verdict::slower;
            const double took = static_cast<double>(ordinary.job.runtime_ns) * 1e-9;
            within += took >= ordinary.prediction->interval.low && took <= ordinary.prediction->interval.high;
            if (repetition > 4) break;
        }
    }
    e.expect(worst < 0.05, "a coefficient is off by " + std::to_string(100 * worst) + " %");
    e.expect(judged > 150, "only " + std::to_string(judged) + " jobs were judged");
    e.expect(flagged >= 0.95 * judged,
             std::to_string(flagged) + " of " + std::to_string(judged) + " jobs that took 30 % more were flagged");
    e.expect(alarms <= 0.03 * judged, std::to_string(alarms) + " of " + std::to_string(judged) + " ordinary jobs were flagged");
    const double covered = static_cast<double>(within) / judged;
    e.expect(covered > 0.90, "95 % intervals hold " + std::to_string(100 * covered) + " % of the jobs");
    if (e.failed.empty()) check_curve(e);
    if (e.failed.empty()) check_online(e);
    if (!e.failed.empty()) return e.failed;
    // Rates tell what size and processes cannot: with them, the error falls to that of the formula.
    const std::vector<Job> varied = history(random, 40, true);
    const double plain = Model(varied, Inputs::attributes).left_out_error();
    const Model with_rates(varied, Inputs::rates);
    e.expect(plain > 0.12, "without rates the error is only " + std::to_string(plain));
    e.expect(with_rates.left_out_error() < 0.06, "with rates the error is " + std::to_string(with_rates.left_out_error()));
    e.expect(with_rates.components() >= 1 && with_rates.components() <= 8, "components: " + std::to_string(with_rates.components()));
    // An error that is small because the job itself was learned from is none.
    std::vector<Job> few(varied.begin(), varied.begin() + 8);
    for (size_t i = 0; i < few.size(); ++i) few[i].size = 1000 * static_cast<double>(1 + i % 3);  // too few sizes for a curve
    const Model small(few, Inputs::attributes);
    double by_hand = 0;
    std::vector<double> errors;
    for (size_t i = 0; i < few.size(); ++i) {
        std::vector<Job> others = few;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
        errors.push_back(
            std::abs(Model(others, Inputs::attributes).predict(few[i]).expected / (static_cast<double>(few[i].runtime_ns) * 1e-9) - 1));
    }
    by_hand = samples::median(errors);
    e.expect(std::abs(small.left_out_error() - by_hand) < 1e-6,
             "each job left out: " + std::to_string(small.left_out_error()) + ", by hand " + std::to_string(by_hand));
    // Far from all before it.
    const std::vector<Job> jobs = history(random, 40);
    Job far = generated(random);
    far.size = 1e9;
    e.expect(assess(far, jobs).verdict == Verdict::no_basis, "a job 30,000 times as large is judged");
    // Why: what took more than it usually does, and not what all jobs have.
    Job slow = generated(random, 1.5);
    slow.stolen.insert(slow.stolen.begin(), {"preempt", "hog", slow.runtime_ns / 4, 1});
    slow.stolen.push_back({"timer", "", slow.runtime_ns / 20, 0});
    slow.stolen.push_back({"irq", "disk", slow.runtime_ns / 200, 0});  // others have none of it, but it explains nothing
    for (double& ratio : slow.features["instructions per cycle"].mean) ratio *= 1.2;
    std::vector<Job> ticking = jobs;
    for (Job& job : ticking) job.stolen = {{"timer", "", job.runtime_ns / 20, 0}};
    slow.stolen.erase(slow.stolen.begin() + 1);
    const Assessment why = assess(slow, ticking);
    e.expect(why.verdict == Verdict::slower, "a job that took 50 % more is " + name_of(why.verdict));
    e.expect(why.because.size() == 1 && why.because[0].culprit == "hog" && why.because[0].rank == 1,
             std::to_string(why.because.size()) + " causes");
    e.expect(!why.differences.empty() && why.differences.front().feature == "instructions per cycle",
             "what differs most is " + (why.differences.empty() ? "nothing" : why.differences.front().feature));
    return e.failed;
}

}  // namespace

TEST_CASE("generated jobs: coefficients, outliers, false alarms, causes") {
    CHECK(all_expectations() == "");
}

TEST_CASE("each mutation is caught") {
    for (int which = 1; which < static_cast<int>(Mutation::written_in_place); ++which) {  // those behind are the store's
        CAPTURE(which);
        mutation = static_cast<Mutation>(which);
        const std::string caught = all_expectations();
        mutation = Mutation::none;
        CHECK(caught != "");
    }
}

TEST_CASE("too few jobs, and jobs that are all alike") {
    std::mt19937_64 random(2);
    Job job = generated(random);
    CHECK(assess(job, {}).verdict == Verdict::no_basis);
    CHECK(assess(job, {job, job}).verdict == Verdict::no_basis);
    std::vector<Job> alike;
    for (int i = 0; i < 6; ++i) {
        alike.push_back(job);
        alike.back().runtime_ns = 1'000'000'000 + i * 10'000'000;
    }
    job.runtime_ns = 1'020'000'000;
    CHECK(assess(job, alike).verdict == Verdict::as_expected);
    job.runtime_ns = 2'000'000'000;
    const Assessment slow = assess(job, alike);
    CHECK(slow.verdict == Verdict::slower);
    CHECK(to_json(slow)["verdict"] == "slower");
    CHECK(to_text(slow, 80).find("slower") != std::string::npos);
}
