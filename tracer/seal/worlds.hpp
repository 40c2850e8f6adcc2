// SPDX-License-Identifier: BSD-3-Clause
// Which processes of an experiment belong together: one command may start several MPI jobs, at once or one after the other.
#pragma once

#include <string>
#include <vector>

#include "folder.hpp"
#include "sidecar.hpp"

namespace polter::seal {

// One element an MPI_COMM_WORLD, in the order in which they started; within each the ranks in order, none twice. The launcher's name of the
// job decides, and the size; where two processes have one rank under one name, when they started.
std::vector<std::vector<Sidecar>> worlds_of(std::vector<Sidecar> ranks);

// Gives every world but the first a folder of its own in the experiment, job-2 and up, to which its ranks are moved. What cannot be moved
// stays. Returns the ranks that stay.
std::vector<Sidecar> set_apart(const Folder& experiment, const Folder& ranks, std::vector<std::vector<Sidecar>> worlds);

// The folders that set_apart has made, of an interrupted sealing too, in order.
std::vector<std::string> further_jobs(const Folder& experiment);

}  // namespace polter::seal
