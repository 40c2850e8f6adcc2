// SPDX-License-Identifier: BSD-3-Clause
// Work with OTF2's reader, which may loop for ever or crash on damaged files.
#pragma once

#include <chrono>
#include <functional>

namespace polter::seal {

// True if a child process did the work to its end in time; an exception of the work is none.
bool in_child(std::chrono::seconds limit, const std::function<void()>& work);

}  // namespace polter::seal
