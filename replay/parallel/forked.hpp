// SPDX-License-Identifier: BSD-3-Clause
// Analysis processes on this host without a launcher: forked from one that has not opened the archive yet, and talking through memory that
// they share.
#pragma once

#include <memory>
#include <stdexcept>

#include "transport.hpp"

namespace polter::replay {

// A forked process ended before its work did: it crashed, hung in the OTF2 library, or was killed.
struct ProcessLost : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Forks until there are `processes`; returns in each of them. The caller is process 0; the others must leave by _exit(), and are killed if
// process 0 ends or destroys its transport before them. Null: no process could be started, so the caller is alone. Call it while the
// process has one thread. Its receive() throws ProcessLost.
std::unique_ptr<Transport> forked_together(int processes);

// What of this host's free cores makes one replay of a trace faster.
struct Division {
    int processes = 1;          // that share the trace
    bool decode_ahead = false;  // Options::decode_ahead; with one process
};

// From a sample of the trace, and what runs now. `several`: whether more than one process may share it. Throws InputError.
Division fastest_division(const std::string& trace, bool several = true);

}  // namespace polter::replay
