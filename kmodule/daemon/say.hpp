// SPDX-License-Identifier: BSD-3-Clause
// The daemon's messages: one line each on standard error. One that cannot be written is lost; it never ends the daemon.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace polter::daemon {

template <class... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    const std::string line = "polterd: " + fmt::format(format, std::forward<Arguments>(arguments)...) + "\n";
    (void)!write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace polter::daemon
