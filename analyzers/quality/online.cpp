// SPDX-License-Identifier: BSD-3-Clause
#include "online.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "mutations.hpp"

namespace polter::quality {

namespace {

double total_of(const std::vector<double>& steps) {
    return std::accumulate(steps.begin(), steps.end(), 0.0);
}

const std::vector<double>* steps_of(const Job& job, const std::string& name) {
    const auto found = job.series.steps.find(name);
    return found == job.series.steps.end() ? nullptr : &found->second;
}

// The length of a step; the last one ends with the job.
double length_of(const Job& job, size_t step) {
    const int64_t begin = static_cast<int64_t>(step) * job.series.step_ns;
    return static_cast<double>(std::max<int64_t>(1, std::min(job.series.step_ns, job.runtime_ns - begin)));
}

// What all ranks had done by this time; evenly within a step.
double done_by(const Job& job, const std::string& name, double at_ns) {
    const std::vector<double>* steps = steps_of(job, name);
    if (!steps) return 0;
    double sum = 0, begin = 0;
    for (size_t i = 0; i < steps->size() && begin < at_ns; ++i) {
        const double length = length_of(job, i);
        sum += (*steps)[i] * std::min(1.0, (at_ns - begin) / length);
        begin += length;
    }
    return sum;
}

// When so much was done.
double reached(const Job& job, const std::string& name, double amount) {
    const std::vector<double>& steps = *steps_of(job, name);
    double begin = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
        const double length = length_of(job, i);
        if (amount <= steps[i]) return begin + (steps[i] > 0 ? length * amount / steps[i] : 0);
        amount -= steps[i];
        begin += length;
    }
    return static_cast<double>(job.runtime_ns);
}

bool is_amount(const std::string& name) {
    return name != "mpi" && !name.starts_with("noise:") && !name.starts_with("service:");
}

// What says best how far a job is: of the amounts that all jobs have, the one that size, processes and nodes tell best.
struct Work {
    std::string name;
    double error = 0;
    Prediction total;
};

std::optional<Work> work_of(const Job& job, const std::vector<Job>& history, std::string& why) {
    std::optional<Work> best;
    for (const auto& [name, steps] : job.series.steps) {
        if (!is_amount(name) || !(total_of(steps) > 0)) continue;
        const auto amount = [&name = name](const Job& one) {
            const std::vector<double>* of = steps_of(one, name);
            return of ? total_of(*of) : 0;
        };
        try {
            const Model model(history, Inputs::attributes, {}, amount);
            if (!best || model.left_out_error() < best->error) best = Work{name, model.left_out_error(), model.predict(job)};
        } catch (const samples::Error& error) {
            why = error.what();
        }
    }
    if (best && best->error > greatest_work_error) {
        why = "jobs of the same size, processes and nodes do different amounts of work, so it does not say how far they are";
        return {};
    }
    return best;
}

// The job as far as it was known then: rates in equal parts of that time.
Job until(const Job& job, int64_t elapsed_ns) {
    Job known = job;
    known.features.clear();
    known.totals.clear();
    const double each = static_cast<double>(mutated(Mutation::rates_of_the_future) ? job.runtime_ns : elapsed_ns) / intervals;
    for (const auto& [name, steps] : job.series.steps) {
        Feature& feature = known.features[name];
        double before = 0;
        for (size_t i = 0; i < intervals; ++i) {
            const double now = done_by(job, name, each * static_cast<double>(i + 1));
            feature.mean[i] = (now - before) / each / static_cast<double>(job.processes);
            before = now;
        }
    }
    return known;
}

void estimate_from_rates(Point& point, const Job& job, const std::vector<Job>& history) {
    std::vector<Job> known;
    for (const Job& other : history)
        if (other.runtime_ns > point.elapsed_ns) known.push_back(until(other, point.elapsed_ns));
    try {
        const Model model(known, Inputs::rates);
        point.from_rates_s = model.predict(until(job, point.elapsed_ns)).expected;
        point.left_out_error = model.left_out_error();
    } catch (const samples::Error&) {  // too few of them ran as long
    }
}

Point point_at(int64_t elapsed_ns, double level, const Work& work, const Job& job, const std::vector<Job>& history) {
    Point point;
    point.elapsed_ns = elapsed_ns;
    point.done = done_by(job, work.name, static_cast<double>(elapsed_ns)) / work.total.expected;
    if (mutated(Mutation::time_is_progress)) point.done = static_cast<double>(elapsed_ns) / static_cast<double>(history.front().runtime_ns);
    estimate_from_rates(point, job, history);
    if (point.done <= 0) {
        point.why = "nothing was done yet that could be compared";
        return point;
    }
    if (point.done > 1 + 2 * greatest_work_error) {
        point.why = "the job does more than such jobs do";
        return point;
    }
    try {
        const Model model(history, Inputs::attributes, {}, [&](const Job& other) {
            return 1e-9 * reached(other, work.name, std::min(1.0, point.done) * total_of(*steps_of(other, work.name)));
        });
        const Prediction usual = model.predict(job, level);
        point.usual_s = usual.expected;
        point.interval = usual.verdict_interval;
        const double elapsed = static_cast<double>(elapsed_ns) * 1e-9;
        point.late = elapsed / usual.expected - 1;
        if (usual.far())
            point.why = "size, processes or nodes are far from those of the jobs before";
        else
            point.verdict = elapsed > point.interval.high  ? Verdict::slower
                            : elapsed < point.interval.low ? Verdict::faster
                                                           : Verdict::as_expected;
    } catch (const samples::Error& error) {
        point.why = error.what();
    }
    return point;
}

int64_t usual_interval(const std::vector<Job>& history) {
    std::vector<double> lengths;
    for (const Job& other : history) lengths.push_back(static_cast<double>(other.runtime_ns));
    int64_t interval = 1'000'000;
    while (static_cast<double>(interval) * 15 < samples::median(lengths)) interval *= 2;
    return interval;
}

}  // namespace

Online follow(const Job& job, const std::vector<Job>& all, int64_t interval_ns) {
    Online online;
    std::vector<Job> history;  // of those that were recorded in steps of time
    std::copy_if(all.begin(), all.end(), std::back_inserter(history), [](const Job& one) { return !one.series.steps.empty(); });
    if (history.empty() || job.series.steps.empty()) {
        online.why =
            all.empty() ? "there are no jobs before it" : "it, or the jobs before it, were recorded without their work in steps of time";
        return online;
    }
    online.interval_ns = interval_ns > 0 ? interval_ns : usual_interval(history);
    while (job.runtime_ns / online.interval_ns > static_cast<int64_t>(most_points)) online.interval_ns *= 2;
    const auto work = work_of(job, history, online.why);
    if (!work) return online;
    online.why.clear();
    online.work = work->name;
    online.work_error = work->error;
    std::vector<double> others;
    for (const Job& other : history) others.push_back(static_cast<double>(other.runtime_ns));
    // As many points as such jobs have: how long this one will take is not known while it runs.
    const double points = std::max(1.0, samples::median(others) / static_cast<double>(online.interval_ns));
    online.level = mutated(Mutation::each_point_alone) ? verdict_level : 1 - (1 - verdict_level) / points;
    for (int64_t elapsed = online.interval_ns; elapsed < job.runtime_ns; elapsed += online.interval_ns)
        online.points.push_back(point_at(elapsed, online.level, *work, job, history));
    if (online.points.empty()) online.why = "the job ended before the first interval did";
    return online;
}

}  // namespace polter::quality
