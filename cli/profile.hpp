// SPDX-License-Identifier: BSD-3-Clause
// polter run --profile: segments instead of a trace.
#pragma once

#include "job.hpp"

namespace polter::cli {

// Runs the job with the profiler, prints what the profile says, and leaves with the job's exit code.
void run_profiled(const JobArguments&);

}  // namespace polter::cli
