// SPDX-License-Identifier: BSD-3-Clause
// What was injected: every event with its true begin and length, in the form that `polter replay --inject` reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace polter::inject {

struct Injected {
    int32_t rank = 0;  // where CPUs were given: the position in their list
    int32_t cpu = 0;
    int64_t begin_ns = 0;     // CLOCK_MONOTONIC
    int64_t duration_ns = 0;  // by the clock; with normal priority: CPU time
    int64_t cpu_ns = 0;       // what the injector's thread got of the CPU
};

struct LoggedSource {
    std::string name, spec;
    std::vector<Injected> events;  // by time
};

// Interrupts leave no event in the log: only the kernel knows when each began.
struct LoggedInterrupts {
    std::string name, spec;
    std::vector<int32_t> cpus;
    int64_t period_ns = 0, begin_ns = 0, end_ns = 0;
    uint64_t caused = 0;
};

struct Log {
    int64_t origin_ns = 0;  // CLOCK_MONOTONIC at "time_ns" 0
    int64_t begin_ns = 0, end_ns = 0;
    bool real_time = true;
    std::string incomplete;  // why events may be missing; empty: none is
    std::vector<std::string> warnings;
    std::vector<LoggedSource> sources;
    std::vector<LoggedInterrupts> interrupts;

    size_t events() const;
    // Events whose thread lacked the CPU for more than 5 % of their length: a hypervisor, or another real-time thread.
    size_t stretched() const;
};

nlohmann::json to_json(const Log&);                                 // schema polter.inject/1; events before the origin are left out
Log log_from_json(const nlohmann::json&, const std::string& file);  // throws Error
Log read_log(const std::string& file);                              // throws Error
void write_log(const Log&, const std::filesystem::path& file);      // whole or not at all; throws Error

}  // namespace polter::inject
