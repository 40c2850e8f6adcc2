// SPDX-License-Identifier: BSD-3-Clause
// Jobs whose run time is known by a formula.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "analyzers/quality/job.hpp"
#include "test/analyzers/expectations.hpp"

namespace polter::test {

using quality::intervals;
using quality::Job;

inline double uniform(std::mt19937_64& random) {
    return (static_cast<double>(random() >> 11) + 0.5) * 0x1.0p-53;
}

inline double normal(std::mt19937_64& random) {
    const double a = uniform(random), b = uniform(random);
    return std::sqrt(-2 * std::log(a)) * std::cos(6.283185307179586 * b);
}

inline constexpr double of_size = 1.2, of_processes = -0.8, frequency = 2.5e9;

// t = instructions / (frequency * IPC * processes^0.8), with an error of 3 %; instructions = 10^5 * size^1.2.
inline Job generated(std::mt19937_64& random, double slower = 1, bool ipc_varies = false, bool steps = false) {
    Job job;
    job.application = "generated";
    job.size = 1000 * std::pow(2.0, static_cast<double>(random() % 6));
    job.processes = int64_t{2} << (random() % 4);
    job.noise_known = true;
    const double ipc = ipc_varies ? std::exp(0.3 * normal(random)) : 1, instructions = 1e5 * std::pow(job.size, of_size);
    const double seconds = slower * instructions / (frequency * ipc) * std::pow(static_cast<double>(job.processes), of_processes) *
                           std::exp(0.03 * normal(random));
    job.runtime_ns = std::llround(1e9 * seconds);
    job.totals = {{"PAPI_TOT_INS", instructions}, {"calls", 1000}, {"bytes", job.size * 8}};
    for (size_t i = 0; i < intervals; ++i) {
        job.features["instructions per cycle"].mean[i] = ipc * (1 + 0.01 * normal(random));
        job.features["calls"].mean[i] = 1e6 * uniform(random);  // says nothing, in large numbers
        job.features["noise:preempt"].mean[i] = 0.001 * uniform(random);
    }
    job.stolen = {{"timer", "", job.runtime_ns / 100, 0}};
    if (!steps) return job;
    // In steps of time: as many calls as the size says, at a rate that varies by 10 % from step to step.
    job.series.step_ns = 1'000'000;
    while (job.series.step_ns * 128 < job.runtime_ns) job.series.step_ns *= 2;
    std::vector<double> calls;
    double sum = 0;
    for (int64_t begin = 0; begin < job.runtime_ns; begin += job.series.step_ns) {
        calls.push_back(static_cast<double>(std::min(job.series.step_ns, job.runtime_ns - begin)) * (1 + 0.1 * (uniform(random) - 0.5)));
        sum += calls.back();
    }
    for (double& of : calls) of *= 3 * job.size / sum;
    job.series.steps["calls"] = std::move(calls);
    return job;
}

inline std::vector<Job> history(std::mt19937_64& random, int count, bool ipc_varies = false, bool steps = false) {
    std::vector<Job> jobs;
    for (int i = 0; i < count; ++i) jobs.push_back(generated(random, 1, ipc_varies, steps));
    return jobs;
}

}  // namespace polter::test
