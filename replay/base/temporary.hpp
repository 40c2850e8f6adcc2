// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace polter::replay {

// TMPDIR or its default. Throws InputError if it is not a directory: the user chose the place, and the file may be large.
std::string temporary_directory();

}  // namespace polter::replay
