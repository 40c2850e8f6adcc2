// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <otf2/otf2.h>

#include <string>

#include "definitions.hpp"

namespace polter::replay {

// Reads the global definitions and the archive's properties. Throws InputError, naming `anchor`.
Definitions read_definitions(OTF2_Reader* reader, const std::string& anchor);

}  // namespace polter::replay
