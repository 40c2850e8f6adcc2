// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace polter::replay {

// TMPDIR, or what stands for it. Throws InputError where that is no directory: what is to lie there may be large, and the place was chosen.
std::string temporary_directory();

}  // namespace polter::replay
