// SPDX-License-Identifier: BSD-3-Clause
#include "online.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "mutations.hpp"
#include "progress.hpp"
#include "reasons.hpp"

namespace polter::quality {

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

namespace {

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

int64_t usual_interval(const std::vector<Job>& history) {
    std::vector<double> lengths;
    for (const Job& other : history) lengths.push_back(static_cast<double>(other.runtime_ns));
    int64_t interval = 1'000'000;
    while (static_cast<double>(interval) * 15 < samples::median(lengths)) interval *= 2;
    return interval;
}

}  // namespace

Point point_at(int64_t elapsed_ns, const Progress& progress, const Job& job, const std::vector<Job>& history, double own_share) {
    Point point;
    point.elapsed_ns = elapsed_ns;
    const Progress::State state = progress.at(job, elapsed_ns, own_share);
    point.done = state.done;
    point.level = state.level;
    point.reached_s = state.reached_s;
    estimate_from_rates(point, job, history);
    if (point.done > 1 + 2 * greatest_work_error) {
        point.why = "the job does more than such jobs do";
        return point;
    }
    if (progress.run_time().far()) {
        point.why = "size, processes or nodes are far from those of the jobs before";
        return point;
    }
    point.usual_s = state.usual.expected;
    if (state.reached_s || state.score > 0)
        point.late = state.reached_s.value_or(static_cast<double>(elapsed_ns) * 1e-9) / state.usual.expected - 1;
    const auto slower = progress.slower_beyond(), faster = progress.faster_beyond();
    if (!slower || !faster) {
        point.why = fmt::format("too few jobs to know how late ordinary ones may seem while they run: {}, and {} are needed",
                                history.size(), least_calibrated);
        return point;
    }
    point.interval = {state.usual.within(*faster).low, state.usual.within(*slower).high};
    point.verdict = state.score > *slower                       ? Verdict::slower
                    : state.reached_s && state.score < -*faster ? Verdict::faster
                                                                : Verdict::as_expected;
    return point;
}

std::vector<Job> in_steps(const std::vector<Job>& all) {
    std::vector<Job> history;
    std::copy_if(all.begin(), all.end(), std::back_inserter(history), [](const Job& one) { return !one.series.steps.empty(); });
    return history;
}

Online follow(const Job& job, const std::vector<Job>& all, int64_t interval_ns) {
    Online online;
    const std::vector<Job> history = in_steps(all);
    if (history.empty() || job.series.steps.empty()) {
        online.why =
            all.empty() ? "there are no jobs before it" : "it, or the jobs before it, were recorded without their work in steps of time";
        return online;
    }
    online.interval_ns = interval_ns > 0 ? interval_ns : usual_interval(history);
    while (job.runtime_ns / online.interval_ns > static_cast<int64_t>(most_points)) online.interval_ns *= 2;
    try {
        const Progress progress(job, history);
        online.work = progress.work().name;
        online.work_error = progress.work().error;
        online.slower_beyond = progress.slower_beyond();
        online.faster_beyond = progress.faster_beyond();
        const double own = own_share(job, history);
        for (int64_t elapsed = online.interval_ns; elapsed < job.runtime_ns; elapsed += online.interval_ns)
            online.points.push_back(point_at(elapsed, progress, job, history, own));
    } catch (const samples::Error& error) {
        online.why = error.what();
        return online;
    }
    if (online.points.empty()) online.why = "the job ended before the first interval did";
    return online;
}

}  // namespace polter::quality
