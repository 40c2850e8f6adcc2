// SPDX-License-Identifier: BSD-3-Clause
// Ctrl-C ends a measurement, not the program.
#pragma once

#include <cstdint>

namespace polter::node {

// While it lives SIGINT and SIGTERM are requests to end; a second one kills as usual. One at a time.
class Interrupt {
  public:
    Interrupt();
    ~Interrupt();
    Interrupt(const Interrupt&) = delete;
    // One load: for loops.
    static bool requested();
    // Sleeps that long, or until one is requested.
    static void sleep_ns(std::uint64_t ns);
};

}  // namespace polter::node
