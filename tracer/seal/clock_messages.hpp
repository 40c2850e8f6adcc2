// SPDX-License-Identifier: BSD-3-Clause
// What the trace itself says about the clocks of its hosts: each message is received after it was sent, and nobody leaves a barrier before
// all have come. One pass over all events, in memory bounded by what is under way.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "definitions.hpp"
#include "folder.hpp"
#include "host_clocks.hpp"

namespace polter::seal {

struct ClockSources {
    std::function<File(const Process&, uint64_t location)> event_file;
    std::filesystem::path work;  // nobody else can write to it
};

// Adds what it finds to `hosts`, which has been corrected by the exchanges: events are taken roughly in that order. Returns why the
// messages were not used, if so.
std::string read_clock_messages(const ClockSources&, const Definitions&, HostClocks& hosts);

}  // namespace polter::seal
