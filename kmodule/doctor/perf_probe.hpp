// SPDX-License-Identifier: BSD-3-Clause
// Whether this process may measure its own switches by perf_event, and what stands in the way.
#pragma once

#include <string>

namespace polter::doctor {

struct PerfProbe {
    bool works = false;
    std::string why;   // works: how; else why not
    std::string mend;  // a command; empty: there is none
};

// Opens what the perf tier needs (context_switch records of a software event, with a ring), and closes it.
PerfProbe probe_perf();
// The same of an outcome: the step that failed, with its errno. For the tests.
enum class PerfStep { open, map, none };
PerfProbe explain_perf(PerfStep failed, int error, int paranoid, bool filtered);

}  // namespace polter::doctor
