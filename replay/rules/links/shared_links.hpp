// SPDX-License-Identifier: BSD-3-Clause
// Messages between hosts that share their hosts' links: how much later each is there than if it were alone.
//
// Each host has a link in either direction. What is under way on a link shares it max-min fairly (Bertsekas, Gallager, Data Networks, 2nd
// ed., section 6.5.2), as flows of TCP and of fair switches nearly do, and as SimGrid simulates them (Casanova, Legrand et al., 2014).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace polter::replay {

// Data that one host sends another.
struct Flow {
    uint32_t from = 0, to = 0;  // hosts, from 0 on
    int64_t begin = 0;          // ns
    int64_t alone = 0;          // ns that its data takes if nothing else is under way
};

// By transfer: ns that its end is later than if it were alone. `reverse`: what a transfer takes of the links the other way round
// (acknowledgements), as a part of what it takes of its own. None: it would take too long to find out.
std::optional<std::vector<int64_t>> later_by_sharing(const std::vector<Flow>& transfers, double reverse);

}  // namespace polter::replay
