// SPDX-License-Identifier: BSD-3-Clause
// A job from its trace.
#pragma once

#include <string>

#include "job.hpp"

namespace polter::quality {

// What the ranks did in each of `intervals` equal parts of the run: shares of the time in MPI ("mpi"), lost to noise ("noise:SOURCE") and
// in services of the system ("service:NAME"), MPI calls and bytes sent a second, counters a second by their names, and their ratios where
// the trace has them (instructions a cycle). Totals and series of calls, bytes and counters. Throws replay::InputError for a trace that
// cannot be used.
Job job_of(const std::string& trace);

}  // namespace polter::quality
