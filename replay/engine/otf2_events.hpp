// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <otf2/otf2.h>

namespace polter::replay {

// For Archive::open_events; the user data of each location is its Thread. The caller deletes it.
OTF2_EvtReaderCallbacks* event_callbacks();

}  // namespace polter::replay
