// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <otf2/otf2.h>

#include "replay/trace/archive.hpp"

namespace polter::replay {

struct Thread;

// Callbacks for Archive::open_events, whose user data is the Thread of each location. The caller deletes the result.
OTF2_EvtReaderCallbacks* event_callbacks();
// Of a process that only keeps the events, for another one.
OTF2_EvtReaderCallbacks* decoding_callbacks();

// Reads on, from what an earlier pass kept of the location or from the archive, as Archive::read() does.
Archive::Progress read_events(Archive&, Thread&);

}  // namespace polter::replay
