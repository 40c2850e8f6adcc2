// SPDX-License-Identifier: BSD-3-Clause
// What a progress bar says.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace polter::cli {

// `part`: 0…1. What is left is told once there is a pace to tell it from: two seconds, and a hundredth done.
inline std::string progress_line(double part, double elapsed_seconds) {
    std::string line = fmt::format("replaying {:3d} %", static_cast<int>(part * 100));
    if (elapsed_seconds >= 2 && part >= 0.01 && part < 1)
        line += fmt::format(", about {:.0f} s left", std::ceil(elapsed_seconds * (1 - part) / part));
    return line;
}

}  // namespace polter::cli
