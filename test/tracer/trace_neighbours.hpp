// SPDX-License-Identifier: BSD-3-Clause
// The neighbours that an archive's definitions give each rank: whoever is sent to must receive.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

struct Neighbourhoods {
    size_t exchanges = 0;                // from one rank to another on a communicator
    std::vector<std::string> one_sided;  // those that only one of the two knows of
};
Neighbourhoods read_neighbourhoods(const std::string& anchor);
