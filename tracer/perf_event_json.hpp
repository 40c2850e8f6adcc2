// SPDX-License-Identifier: BSD-3-Clause
// How events stand in POLTER_COUNTERS: {"perf": [[name, type, config, config1, config2, user_only], …], "papi": [name, …]}.
#pragma once

#include <nlohmann/json.hpp>

#include "perf_event.hpp"

namespace polter::trace {

inline nlohmann::json to_json(const PerfEvent& e) {
    return {e.name, e.type, e.config, e.config1, e.config2, e.user_only};
}
inline PerfEvent perf_event_of(const nlohmann::json& list) {  // throws
    return {list.at(0), list.at(1), list.at(2), list.at(3), list.at(4), list.at(5)};
}

}  // namespace polter::trace
