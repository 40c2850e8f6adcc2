// SPDX-License-Identifier: BSD-3-Clause
// Reading in a process of its own: the OTF2 library dies of some damaged files, and goes round in others for ever. What it does
// there ends the child; the parent says what happened, where, and what to do, and removes what was left unfinished.
//
// The child is the rest of the program: it prints, writes and exits as it would alone. The parent only waits, passes on the signals
// that are meant for the command, and touches neither archive nor MPI; so under a launcher each process may be a pair.
#pragma once

#include <limits>
#include <optional>
#include <string>

namespace polter::replay {

struct ChildEnd {
    int exit_code = 0;
    int signal = 0;     // not 0: it was told to end by it (interrupt, broken pipe, …), and so should its parent
    std::string error;  // not empty: it died; the line to print
    bool late = false;  // it was ended because it was not done in time
};

// Mutations, for the tests.
struct ApartFaults {
    bool outlives = false;          // the child goes on when its parent is gone
    bool deaf = false;              // signals stay with the parent
    bool keeps_unfinished = false;  // what a child that died left unfinished stays
    bool patient = false;           // a call to OTF2 may take for ever
};

// Forks. Unset in the child, which goes on; in the parent the child's end, once it has come. `stall_s`: CPU seconds within one call to
// OTF2 after which it is ended; `limit_s`: seconds, by the clock on the wall, after which it is ended wherever it is. Call it while the
// process has one thread. If no process can be made, goes on in this one.
std::optional<ChildEnd> go_apart(double stall_s = 60, ApartFaults faults = {}, double limit_s = std::numeric_limits<double>::infinity());

}  // namespace polter::replay
