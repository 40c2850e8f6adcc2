// SPDX-License-Identifier: BSD-3-Clause
// What an injected event takes from a program beyond its logged length, and how much of that the exporter cannot see: the hypervisor's
// work before the first instruction of an interrupt, for example. Measured by a loop that reads the clock (`polter noise --loop selfish`),
// with the exporter of the runs. The loop uses registers and one cache line, so this is no cost of a program's caches.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "analyzers/inject/log.hpp"
#include "replay/base/options.hpp"

namespace polter::validation {

// Of one CPU; nanoseconds each, means without the shortest and the longest twentieth. 0 where it could not be measured.
struct CpuCost {
    int64_t beyond = 0;          // what an event takes beyond its logged length, seen by the exporter or not
    int64_t hidden_timer = 0;    // of a timer interrupt, not seen
    int64_t hidden_preempt = 0;  // of an injected preemption, not seen, without that of the timer interrupts in it
    size_t events = 0, ticks = 0;
    bool operator==(const CpuCost&) const = default;
};

struct EventCost {
    std::map<int32_t, CpuCost> cpus;
    std::string measured_by;  // the exporter

    CpuCost mean() const;             // of all CPUs; zeros: nothing was measured
    CpuCost of(int32_t cpu) const;    // where that CPU was not measured: the mean
};

// `loops`: what `polter noise --loop selfish --json` printed, one a CPU, while `log` was injected.
EventCost event_cost(const inject::Log& log, const std::vector<nlohmann::json>& loops);
// Runs those loops on the allowed CPUs (8 at most) for a second, and injects there what `spec` says: the noise of the case, if it is drawn
// and has enough events, else 200 us every 5 ms. All at once, as CPUs that share a core or a host slow each other. Throws launch::Error,
// inject::Error.
EventCost measure_event_cost(const std::string& program, const std::string& exporter, const std::string& spec, const std::string& folder);

// What is hidden from the exporter on each rank; `cpu_of`: where each ran.
std::vector<replay::HiddenTime> hidden_time(const EventCost&, const std::map<int32_t, int32_t>& cpu_of);

nlohmann::json to_json(const EventCost&);
EventCost event_cost_from(const nlohmann::json&);  // of to_json()

}  // namespace polter::validation
