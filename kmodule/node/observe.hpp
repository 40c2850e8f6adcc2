// SPDX-License-Identifier: BSD-3-Clause
// The life of one observation: begin, wait, end. Library polter-observe.
#pragma once

#include <functional>

#include "../observation/observation.hpp"

namespace polter::node {

// By the best means that there are. The reason, where there is none: what, where, what to do.
std::variant<std::unique_ptr<Observer>, std::string> make_observer();

// Observes for so long (0: until Ctrl-C), or until Ctrl-C. `each_second`, where given, gets what the last second brought.
Observation observe(Observer&, std::uint64_t duration_ns, const std::function<void(const Observation&)>& each_second = {});

}  // namespace polter::node
