// SPDX-License-Identifier: BSD-3-Clause
// Where the parts lie that the launcher needs: beside the command, in the build tree as after installation.
#pragma once

#include <filesystem>
#include <string>

#include "programs/flavour.hpp"

namespace polter::launch {

// The folder of the running executable.
std::filesystem::path executable_folder();

// <exe>/lib/polter (build tree), <exe>/../lib/polter, <exe>/../lib64/polter, <exe>/../lib/<multiarch>/polter (installed), that order.
// Empty if none has the file.
std::filesystem::path find_part(const std::string& file);

std::string preload_library(Mpi);                                    // file name
inline constexpr const char* dispatch_library = "libpolter-mpi.so";  // finds the right one of those when a program starts
inline constexpr const char* daemon_program = "polterd";

}  // namespace polter::launch
