// SPDX-License-Identifier: BSD-3-Clause
// One pass of an engine over an archive.
#pragma once

#include "replay/engine/engine.hpp"

namespace polter::replay {

class Group;

// Opens the archive's events, and runs the engine over them.
void run_pass(Archive&, Engine&, Group* group = nullptr);

}  // namespace polter::replay
