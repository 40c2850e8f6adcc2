// SPDX-License-Identifier: BSD-3-Clause
// Verdicts, estimates and what is said while a job runs, of jobs whose run time is known by a formula; and each statistic's mutation.
#include "analyzers/quality/quality.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "analyzers/quality/mutations.hpp"
#include "analyzers/quality/progress.hpp"
#include "analyzers/quality/running.hpp"
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
        job.size = 500 + 20 * i;
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
        e.expect(online.slower_beyond > 1 && online.faster_beyond > 1, "limits: " + std::to_string(online.slower_beyond.value_or(0)));
        if (!e.failed.empty()) return;
        const Point& middle = online.points[3];
        e.expect(middle.late && std::abs(*middle.late - 0.3) < 0.15, "late by " + std::to_string(middle.late.value_or(0)));
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

// Jobs that set up for a while, and of which one in ten takes 20 % more: times are not normal.
Job with_setup(std::mt19937_64& random, double slower = 1) {
    Job job = generated(random, 1, false, true);
    while (job.size < 8000 || job.processes != 2) job = generated(random, 1, false, true);
    auto& calls = job.series.steps["calls"];
    const double all = 3 * job.size, setup = 0.3 * (1 + 0.1 * normal(random)), factor = slower * (uniform(random) < 0.1 ? 1.2 : 1);
    const auto idle = static_cast<size_t>(setup * static_cast<double>(calls.size()));
    calls.insert(calls.begin(), idle, 0);
    calls.front() = 1e-3 * all;
    job.series.step_ns = std::llround(factor * static_cast<double>(job.series.step_ns));
    job.runtime_ns = std::llround(factor * static_cast<double>(job.runtime_ns)) + static_cast<int64_t>(idle) * job.series.step_ns;
    return job;
}

// However often a job is looked at, at most one ordinary one in twenty is ever called slower, and as many faster; at the end as many
// either.
void check_rate(Expectations& e) {
    std::mt19937_64 random(11);
    constexpr int repetitions = 300, looks = 64;
    int slower = 0, faster = 0, at_end = 0, found = 0;
    for (int repetition = 0; repetition < repetitions; ++repetition) {
        std::vector<Job> jobs;
        for (int i = 0; i < 20; ++i) jobs.push_back(with_setup(random));
        const auto judge = [&](const Job& job, double part, int& late, int& early) {
            const Progress progress(job, jobs);
            bool is_late = false, is_early = false;
            for (int look = 1; look < part * looks; ++look) {
                const Progress::State state = progress.at(job, job.runtime_ns * look / looks);
                is_late = is_late || state.score > *progress.slower_beyond();
                is_early = is_early || (state.reached_s && state.score < -*progress.faster_beyond());
            }
            late += is_late, early += is_early;
        };
        int unused = 0;
        const Job ordinary = with_setup(random);
        judge(ordinary, 1, slower, faster);
        judge(with_setup(random, 1.6), 0.5, found, unused);
        Job ended = ordinary;
        ended.series = {};  // judged as a whole alone
        const Verdict verdict = assess(ended, jobs).verdict;
        at_end += verdict == Verdict::slower || verdict == Verdict::faster;
    }
    const double most = alarm_rate * repetitions + 2 * std::sqrt(alarm_rate * repetitions);
    const auto expect_few = [&](int count, const std::string& what) {
        e.expect(count <= most, std::to_string(count) + " of " + std::to_string(repetitions) + " ordinary jobs were called " + what);
    };
    expect_few(slower, "slower while they ran");
    expect_few(faster, "faster while they ran");
    expect_few(at_end, "slower or faster at their end");
    e.expect(found >= 0.9 * repetitions, std::to_string(found) + " of 300 jobs that take 60 % more were found by half of their time");
}

// One job in twenty that took 40 % more shows that ordinary ones may.
void check_long_tails(Expectations& e) {
    std::mt19937_64 random(14);
    Job job = generated(random);
    std::vector<Job> jobs;
    for (int i = 0; i < 20; ++i) {
        jobs.push_back(job);
        jobs.back().runtime_ns = std::llround(1e9 * (i == 7 ? 1.4 : 1) * std::exp(0.01 * normal(random)));
    }
    job.runtime_ns = 1'350'000'000;
    const Assessment judged = assess(job, jobs);
    e.expect(judged.verdict == Verdict::as_expected, "a job like one of the twenty before it is " + name_of(judged.verdict));
}

// Programs that are faster at some sizes than at their neighbours.
void check_groups(Expectations& e) {
    std::mt19937_64 random(12);
    std::vector<Job> jobs;
    for (int i = 0; i < 30; ++i) {
        Job job = generated(random);
        job.processes = 2;
        job.size = 400 + 200 * (i % 6);
        job.runtime_ns = std::llround(1e9 * job.size / 400 * (i % 2 ? 1.2 : 0.8) * std::exp(0.02 * normal(random)));
        jobs.push_back(job);
    }
    const Model model(jobs, Inputs::attributes);
    e.expect(model.between() > 0 && model.left_out_error() < 0.04, "sizes that differ: error " + std::to_string(model.left_out_error()));
    Job further = jobs.front();
    const double known = model.predict(further).deviation;
    further.size = 900;  // between two others
    e.expect(model.predict(further).deviation > 3 * known, "a size that never ran is as certain as one that did");
}

// What is said of a job while it runs is what is said of it afterwards for that time.
void check_running(Expectations& e) {
    std::mt19937_64 random(13);
    std::vector<Job> jobs;
    for (int i = 0; i < 20; ++i) jobs.push_back(with_setup(random));
    const Job slow = with_setup(random, 2);
    Job until_now = slow;
    until_now.series.steps["calls"].resize(slow.series.steps.at("calls").size() / 2);
    until_now.runtime_ns = static_cast<int64_t>(until_now.series.steps["calls"].size()) * slow.series.step_ns;
    until_now.stolen = {{"preempt", "hog", slow.runtime_ns / 4, 1}};
    const Look now = look_at(until_now, jobs);
    const Progress progress(slow, jobs);
    const Point then = point_at(until_now.runtime_ns, progress, slow, jobs);
    e.expect(now.point.verdict == Verdict::slower && then.verdict == now.point.verdict && then.done == now.point.done &&
                 then.late == now.point.late,
             "while it runs a job is " + name_of(now.point.verdict) + ", afterwards " + name_of(then.verdict));
    e.expect(now.because.size() == 1 && now.because[0].culprit == "hog", std::to_string(now.because.size()) + " causes while it runs");
    // What who follows it takes from it is no reason, and makes no job slower: said, not counted.
    Job followed = until_now;
    followed.stolen = {{"preempt", "polter", until_now.runtime_ns * 6 / 10, 1}};
    const Look own = look_at(followed, jobs);
    e.expect(own.point.verdict != Verdict::slower && own.because.empty(), "a job that its follower slows down is slower");
    e.expect(std::abs(own.own_share - 0.6) < 1e-6, "the follower's share is " + std::to_string(own.own_share));
    e.expect(to_text(own).find("polter itself took up to 60.0 %") != std::string::npos, to_text(own));
    followed.stolen = {until_now.stolen[0], {"preempt", "polter", until_now.runtime_ns * 3 / 1000, 0}};
    const Look both = look_at(followed, jobs);
    e.expect(both.point.verdict == Verdict::slower && both.because.size() == 1 && both.because[0].culprit == "hog", "a reason beside the follower");
    e.expect(both.own_share > 0.003 && both.own_share <= most_followed, "of all ranks the follower took " + std::to_string(both.own_share));
    jobs.resize(18);
    e.expect(look_at(until_now, jobs).point.verdict == Verdict::no_basis, "18 jobs are enough to follow one");
    e.expect(to_text(look_at(until_now, jobs)).find("19 are needed") != std::string::npos, to_text(look_at(until_now, jobs)));
    until_now.series = {};
    e.expect(look_at(until_now, jobs).point.verdict == Verdict::no_basis, "a job that has done nothing is judged");
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
    if (e.failed.empty()) check_groups(e);
    if (e.failed.empty()) check_online(e);
    if (e.failed.empty()) check_running(e);
    if (e.failed.empty()) check_long_tails(e);
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
    Job followed = generated(random, 1.5);
    followed.stolen = {{"preempt", "polter", followed.runtime_ns / 3, 0}};
    e.expect(assess(followed, ticking).verdict != Verdict::slower && assess(followed, ticking).because.empty(),
             "a job that its follower slowed down is slower");
    if (e.failed.empty()) check_rate(e);
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
