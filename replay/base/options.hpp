// SPDX-License-Identifier: BSD-3-Clause
// What the caller asks of one replay.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace polter::replay {

class Group;

struct Options {
    std::string trace;                               // an experiment directory or an .otf2 anchor file
    std::optional<std::vector<std::string>> remove;  // sources (or os-service:…) of the scenario "all"; unset: every noise source
    // Not empty: the approximated timeline of the scenario "all" is written there, an OTF2 archive; the directory must not exist.
    std::string write_approximated;
    // Attribution by culprit and rank of origin, costliest events, critical path: written to a temporary file in TMPDIR, some 30 bytes an
    // MPI call (in collectives whose structure is known, a message), and read backward.
    bool attribution = false;
    size_t costliest = 10;                 // noise events listed then
    uint32_t windows = 10;                 // of time, in the attribution; at least 1
    std::string inject;                    // not empty: a file of injected noise; Result::injected says what it would add
    std::string use_model;                 // a file with what communication costs, instead of learning it from the trace; empty: learn
    std::function<void(double)> progress;  // 0…1, may be empty
    Group* group = nullptr;                // the processes that share the work, each of which makes this call; none: this one alone
};

}  // namespace polter::replay
