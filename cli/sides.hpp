// SPDX-License-Identifier: BSD-3-Clause
// The sides of a comparison, as they are named on the command line: runs joined by commas.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

namespace polter::cli {

inline std::vector<std::string> runs_of(const std::string& side) {
    std::vector<std::string> runs;
    for (size_t begin = 0; begin <= side.size();) {
        const size_t end = std::min(side.find(',', begin), side.size());
        if (end > begin) runs.push_back(side.substr(begin, end - begin));
        begin = end + 1;
    }
    return runs;
}

inline const CLI::Validator some_run([](std::string& value) { return runs_of(value).empty() ? "needs a name" : ""; }, "", "some_run");

}  // namespace polter::cli
