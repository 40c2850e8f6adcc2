// SPDX-License-Identifier: BSD-3-Clause
// Why a job may have been slow: noise beyond what such jobs have, and what differs most.
#pragma once

#include <string>
#include <vector>

#include "job.hpp"

namespace polter::quality {

// A feature in which the job is unlike the others, in standard deviations of theirs; of the interval that differs most.
struct Difference {
    std::string feature;
    double value = 0, usual = 0, deviations = 0;
};

// Noise beyond what such jobs usually have, on the rank that lost most to it.
struct Cause {
    std::string source, culprit;
    int32_t rank = 0;
    int64_t ns = 0, usual_ns = 0;
};

// Of polter's own processes (who follows the job, who launched it) the share of the run time that they took from the job, beyond what they
// take of such jobs: at least from the rank that lost most; from all ranks together at most `most_followed`.
inline constexpr double most_followed = 0.02;  // of one CPU: what who follows a job allows itself
double own_share(const Job&, const std::vector<Job>& history);
// Without those. That took at least a tenth of the delay from one rank; most first.
std::vector<Cause> causes_of(const Job&, const std::vector<Job>& history, double delay_ns);
// Beyond 3 deviations; largest first. Where there are enough jobs of the same size, processes and nodes, from those alone.
std::vector<Difference> differences_of(const Job&, const std::vector<Job>& history);

}  // namespace polter::quality
