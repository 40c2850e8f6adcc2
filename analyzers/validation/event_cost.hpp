// SPDX-License-Identifier: BSD-3-Clause
// What an injected event takes from a program beyond its logged length: the timer interrupt, the switches, and on a virtual machine what
// the hypervisor does meanwhile. Measured without any exporter.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "analyzers/inject/log.hpp"

namespace polter::validation {

struct EventCost {
    int64_t ns = 0;     // median
    size_t events = 0;  // of which it is the median
};

// Loops that read the clock (the selfish detour benchmark of netgauge) run on all allowed CPUs while `inject` injects there: a
// specification for those CPUs, logged to a file. All at once, as CPUs that share a core or a host slow each other. Throws what `inject`
// throws.
EventCost measure_event_cost(const std::function<inject::Log(const std::string& spec)>& inject);

// For the tests: of each event the length of its gap less its own. `gaps`: begin and length, by begin; an event without one is left out.
std::vector<int64_t> beyond_length(const std::vector<std::pair<int64_t, int64_t>>& gaps, const std::vector<inject::Injected>& events);

}  // namespace polter::validation
