// SPDX-License-Identifier: BSD-3-Clause
// What `polter doctor` finds: one part of the system, how it is, and the command that mends it.
#pragma once

#include <string>
#include <vector>

namespace polter::doctor {

enum class State {
    works,
    note,  // works, or is not needed; but worth knowing
    fails
};

struct Finding {
    std::string group;  // "exporter", "mpi", "library", "limit", "kernel"
    std::string name;
    State state = State::works;
    std::string text;  // what works and how, or why not
    std::string mend;  // the command to type; empty: there is none, or none is needed
};
using Findings = std::vector<Finding>;

const char* name_of(State);

// The exporters, the best first. `polterd_path` is where the daemon is installed; empty: it is not.
Findings exporters(const std::string& polterd_path);
// Limits of this process; the node's settings that make noise or make measuring it dear.
Findings limits();
Findings kernel();

}  // namespace polter::doctor
