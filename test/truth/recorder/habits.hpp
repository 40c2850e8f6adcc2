// SPDX-License-Identifier: BSD-3-Clause
// Recorders place the same records differently. A habit rewrites a rank's events as another recorder would have written them; what they
// tell of the run stays the same.
#pragma once

#include <string>
#include <vector>

#include "event.hpp"

namespace polter::truth {

enum class Habit {
    none,
    inside,               // what begins is recorded shortly after Enter, and Leave shortly after what has completed
    ticks,                // a clock of whole microseconds
    plain,                // non-blocking messages as MpiSend and MpiRecv, without requests
    requests_at_leave,    // what begins a request is recorded when its call returns
    collective_at_enter,  // begin and end of a collective both stand at Enter
    collective_at_leave   // … both at Leave
};

// Throws std::invalid_argument.
Habit habit_of(const std::string& name);

std::vector<Event> with_habit(const Recording::Rank&, Habit);

// Nanoseconds of one tick of the clock.
int64_t tick_ns(Habit);

}  // namespace polter::truth
