// SPDX-License-Identifier: BSD-3-Clause
// The progress bar of a replay, on standard error; the caller makes sure that this is a terminal.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <string>

#include "../tracer/launch/standard_streams.hpp"
#include "progress.hpp"

namespace polter::cli {

inline std::function<void(double)> progress_bar() {
    using Clock = std::chrono::steady_clock;
    return [last = std::string(), begin = Clock::now()](double part) mutable {
        const std::string line = progress_line(part, std::chrono::duration<double>(Clock::now() - begin).count());
        if (line == last) return;
        last = line;
        launch::write_message(fmt::format("\r{}\033[K{}", line, part >= 1 ? "\r\033[K" : ""));
    };
}

}  // namespace polter::cli
