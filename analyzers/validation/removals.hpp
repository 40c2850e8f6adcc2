// SPDX-License-Identifier: BSD-3-Clause
// Which noise is removed from a run so that what is left can be compared, and which is added.
#pragma once

#include <set>
#include <string>

#include "event_cost.hpp"
#include "replay/result/result.hpp"
#include "replay/scenario/account_split.hpp"

namespace polter::validation {

inline const std::set<std::string> injector = {"polter-inject", "polter-watch"};
inline const replay::Scenario the_injector = {{"preempt", injector, {}}, {"runqueue", injector, {}}};
inline const replay::Scenario timer_interrupts = {{"timer", {}, {}}};

inline replay::Scenario operator+(replay::Scenario a, const replay::Scenario& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

// The machine's own noise but for timer interrupts: a timer wakes the injector too, and the trace cannot tell its interrupts from others.
replay::Scenario own_noise(const replay::Result&);

// Each event with what it takes from a program on its CPU.
inject::Log with_cost(inject::Log, const EventCost&);
// Of each event only what no record has of it, where it ended. False: nothing is hidden.
bool only_hidden(inject::Log&, const EventCost&);

}  // namespace polter::validation
