// SPDX-License-Identifier: BSD-3-Clause
// How a result is laid out on this process's standard output.
#pragma once

#include <unistd.h>

#include <algorithm>

#include "replay/base/layout.hpp"
#include "replay/replay.hpp"
#include "wording.hpp"

namespace polter::cli {

// Of the terminal, where tables can be laid out for it; 80 where there is none.
inline std::size_t output_columns() {
    const auto width = terminal_width(STDOUT_FILENO);
    return width > 0 ? std::clamp(width, replay::least_columns, replay::most_columns) : replay::usual_columns;
}

inline replay::TextOptions text_options() {
    replay::TextOptions options;
    options.columns = output_columns();
    options.unicode = shows_unicode();
    return options;
}

}  // namespace polter::cli
