// SPDX-License-Identifier: BSD-3-Clause
// Reading in a child process: the OTF2 library crashes on some damaged files, and loops for ever in others. The parent reports what
// happened, where, and what to do, and removes unfinished output.
//
// The child is the rest of the program: it prints, writes and exits as if alone. The parent only waits and passes on signals. It touches
// neither the archive nor MPI, so each process of a launcher can be such a pair.
#pragma once

#include <limits>
#include <optional>
#include <string>

namespace polter::replay {

struct ChildEnd {
    int exit_code = 0;
    int signal = 0;     // nonzero: this signal ended the child, and should end its parent
    std::string error;  // not empty: the child crashed or hung; the message to print
    bool late = false;  // ended by `limit_s`
};

// Mutations, for the tests.
struct ApartFaults {
    bool outlives = false;          // the child survives its parent
    bool deaf = false;              // signals are not passed on
    bool keeps_unfinished = false;  // unfinished output of a crashed child is kept
    bool patient = false;           // a call to OTF2 may take for ever
};

// Forks. Returns nothing in the child, which continues; in the parent, the child's end. `stall_s`: CPU seconds within one OTF2 call after
// which the child is ended. `limit_s`: seconds of wall-clock time after which it is ended in any case. Call it while the process has one
// thread. If fork fails, continues in this process.
std::optional<ChildEnd> go_apart(double stall_s = 60, ApartFaults faults = {}, double limit_s = std::numeric_limits<double>::infinity());

}  // namespace polter::replay
