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
    // Attribution by culprit and rank of origin, costliest events, critical path. Writes about 30 bytes for each MPI call (for each
    // message, in collectives with a known algorithm) to a temporary file in TMPDIR.
    bool attribution = false;
    bool timeline = false;                // what a page draws (timeline/timeline.hpp); needs `attribution` and a single process
    size_t costliest = 10;                // number of noise events listed
    uint32_t windows = 10;                // number of windows of time in the attribution; at least 1
    std::string inject;                   // a file of injected noise; Result::injected has its effect; empty: none
    std::string use_model;                // a file with the costs of communication; empty: learn them from the trace
    std::string mpi_algorithms = "auto";  // whose rules say which algorithms collectives use: see library_named()
    // Memory for decoded events, so that only the first pass reads them from the archive; they need about half of the archive's size.
    // Unset: a quarter of the free memory, at most 1 GiB. The result does not depend on it.
    std::optional<uint64_t> keep_bytes;
    bool decode_ahead = false;  // a process of its own decodes the events for the first pass, without a group: for two free cores
    std::function<void(double)> progress;  // 0…1, may be empty
    Group* group = nullptr;                // the analysis processes that share the work; all make this call; null: only this one
};

}  // namespace polter::replay
