// SPDX-License-Identifier: BSD-3-Clause
// Which transfers are looked at, where each process knows only some of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "network.hpp"

namespace polter::replay {

struct TransferKey {
    int64_t at;  // when it began
    uint32_t thread, number;
    uint64_t bytes;
};

// Places in `mine` of what some_of_each_size() takes of the transfers of all processes in the order of (at, thread, number). They are not
// put in order: a histogram of their beginnings tells where the runs are, and only what is near these is sorted. Collective.
std::vector<size_t> chosen_transfers(const std::vector<TransferKey>& mine, size_t most, const LinkSearch& search);

}  // namespace polter::replay
