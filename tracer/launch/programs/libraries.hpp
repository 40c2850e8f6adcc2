// SPDX-License-Identifier: BSD-3-Clause
// The libraries that the dynamic loader would load for a program, found by its rules (ld.so(8)) and by reading alone: its own listing
// mode would run whatever file the program names as its loader.
#pragma once

#include <string>
#include <vector>

#include "elf.hpp"

namespace polter::launch {

// Names as in DT_NEEDED, each once, breadth first; also those whose file was not found. Bounded in number.
std::vector<std::string> needed_libraries(const std::string& program, const Elf&);

}  // namespace polter::launch
