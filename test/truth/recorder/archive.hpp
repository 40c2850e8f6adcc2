// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "event.hpp"
#include "habits.hpp"

namespace polter::truth {

// Writes an OTF2 archive `traces.otf2` into `directory`, which must not exist yet. Throws std::runtime_error.
void write_archive(const Recording&, const std::string& directory, Detail, Habit);

}  // namespace polter::truth
