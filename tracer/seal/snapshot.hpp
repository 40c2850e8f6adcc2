// SPDX-License-Identifier: BSD-3-Clause
// What the ranks of a running job have recorded until now.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "seal.hpp"

namespace polter::seal {

struct Snapshot {
    Report report;
    uint64_t taken_ns = 0;  // on the ranks' clock, just before their files were copied; 0: they are not all on this host
};

// For the tests: a pause, and a mutation.
struct SnapshotFaults {
    std::function<void()> between;  // called between tails and event files: whatever the ranks do meanwhile, nothing is lost
    bool events_first = false;      // chunks that leave the tail for the event file meanwhile are in neither copy
};

// Copies the ranks' files into `folder` (made; nothing may be there) and seals the copy, as if the ranks had been killed. The job does not
// notice: its files are read, and nothing of it is written or waited for. Ranks on nodes that do not see the directory are missing. Unset:
// no rank has recorded anything yet. Throws Error, also where another user owns the experiment.
std::optional<Snapshot> take_snapshot(const std::filesystem::path& experiment, const std::filesystem::path& folder,
                                      const SnapshotFaults& faults = {});

}  // namespace polter::seal
