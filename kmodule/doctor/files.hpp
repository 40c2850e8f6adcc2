// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fstream>
#include <string>

namespace polter::doctor {

// A file's first line; empty where it cannot be read.
inline std::string first_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

}  // namespace polter::doctor
