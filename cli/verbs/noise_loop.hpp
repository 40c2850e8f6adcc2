// SPDX-License-Identifier: BSD-3-Clause
// polter noise --loop: what a program on one CPU loses, seen from its own side.
#pragma once

#include <cstdint>
#include <string>

#include "../verb.hpp"

namespace polter::cli {

struct LoopArguments {
    std::string kind;  // empty: no loop
    std::string exporter = "auto";
    int cpu = -1;  // the last one that this process may use
    std::uint64_t quantum_ns = 1'000'000;
    std::uint64_t threshold_ns = 0;
};

void add_loop_options(CLI::App& verb, LoopArguments&);
void run_loop(const LoopArguments&, const Common&, double seconds, std::size_t top, bool histogram);

}  // namespace polter::cli
