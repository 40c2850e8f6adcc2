// SPDX-License-Identifier: BSD-3-Clause
#include "running.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "progress.hpp"

namespace polter::quality {

Look look_at(const Job& job, const std::vector<Job>& all) {
    Look look;
    look.job = job;
    look.point.elapsed_ns = job.runtime_ns;
    const std::vector<Job> history = in_steps(all);
    look.history = history.size();
    if (history.empty() || job.series.steps.empty()) {
        look.point.why = history.empty() ? "there are no jobs before it that were recorded in steps of time" : "it has done nothing yet";
        return look;
    }
    try {
        const Progress progress(job, history);
        look.work = progress.work().name;
        look.run_time = progress.run_time();
        look.own_share = own_share(job, history);
        look.point = point_at(job.runtime_ns, progress, job, history, look.own_share);
    } catch (const samples::Error& error) {
        look.point.why = error.what();
        return look;
    }
    std::vector<Job> as_long;
    for (const Job& other : history)
        if (other.runtime_ns >= job.runtime_ns) as_long.push_back(until(other, job.runtime_ns));
    look.differences = differences_of(until(job, job.runtime_ns), as_long);
    if (look.point.verdict != Verdict::slower) return look;
    const double took_s = look.point.reached_s.value_or(1e-9 * static_cast<double>(job.runtime_ns));
    look.because = causes_of(job, history, 1e9 * (took_s - look.point.usual_s));
    return look;
}

}  // namespace polter::quality
