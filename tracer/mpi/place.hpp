// SPDX-License-Identifier: BSD-3-Clause
// Which directory this rank's files go to.
#pragma once

#include <string>

namespace polter::mpi {

struct Place {
    std::string folder;  // empty: none, for `error`
    bool shared = true;  // it is the launcher's experiment directory
    std::string error;
};

// The experiment directory where it is the launcher's own; on a node that does not see that one, a folder of the node (../node_folder.hpp).
Place place_of_files(const std::string& experiment, const std::string& job);

}  // namespace polter::mpi
