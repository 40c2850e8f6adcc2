// SPDX-License-Identifier: BSD-3-Clause
// The events of a replay: from a file of injected noise, or from the noise of a traced run, also less that of a quiet run.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "schedule.hpp"

namespace polter::inject {

using EventsOf = std::map<int32_t, std::vector<Event>>;  // by rank, in the order of time

// Throws Error or replay::InputError.
EventsOf listed_events(const Spec& spec);

// One recorded interruption; `kind` stands for source and culprit.
struct Recorded {
    std::string kind;
    Event event;
};
// What of `noisy` is beyond `quiet`: each event of the quiet run cancels that of the same kind whose length is nearest.
std::vector<Event> beyond(const std::vector<Recorded>& noisy, const std::vector<Recorded>& quiet);

}  // namespace polter::inject
