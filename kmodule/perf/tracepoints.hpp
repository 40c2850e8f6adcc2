// SPDX-License-Identifier: BSD-3-Clause
// Which of the kernel's tracepoints the perf tier may use here, for launchers: resolved once a job, by libpfm4. Library
// polter::perf-tracepoints.
#pragma once

#include <string>

namespace polter::perf {

struct Tracepoints {
    std::string list;     // for polter_noise_options.tracepoints; empty: none
    std::string why_not;  // what stands in the way of those missing, and what to do; empty: nothing
};

// Of this process, and of those that it starts with the same privileges.
Tracepoints allowed_tracepoints();

}  // namespace polter::perf
