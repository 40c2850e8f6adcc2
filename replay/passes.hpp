// SPDX-License-Identifier: BSD-3-Clause
// One pass of an engine over an archive.
#pragma once

#include "replay/engine/engine.hpp"

namespace polter::replay {

class Group;
struct DecodingSteps;

// Opens the archive's events, and runs the engine over them. `ahead`: a process decodes them ahead (engine/reading/decoder.hpp), where
// nothing has been kept yet.
void run_pass(Archive&, Engine&, Group* group = nullptr, const DecodingSteps* ahead = nullptr);

}  // namespace polter::replay
