// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <otf2/otf2.h>

namespace polter::replay {

// Callbacks for Archive::open_events, whose user data is the Thread of each location. The caller deletes the result.
OTF2_EvtReaderCallbacks* event_callbacks();

}  // namespace polter::replay
