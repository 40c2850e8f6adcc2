// SPDX-License-Identifier: BSD-3-Clause
#include "call_samples.hpp"

#include <algorithm>

namespace polter::replay {

CostLimits::Agreed CostLimits::agreed() const {
    struct Limits {
        int64_t value = 0, least = 0, most = 0;  // how many intervals begin, and end, here
    };
    std::map<uint16_t, Limits> at;
    for (const auto& [bin, content] : least_.bins()) at[bin] = {content.sum / content.count, content.count, 0};
    for (const auto& [bin, content] : most_.bins()) {
        Limits& limits = at[bin];
        limits.most = content.count;
        limits.value = content.sum / content.count;  // of a bin with both, the greatest values: they come from exact instances
    }
    Agreed agreed;
    int64_t above = least_.count(), below = 0;  // intervals wholly above, and wholly below
    bool found = false;
    for (const auto& [bin, limits] : at) {
        // Just below this value `above` intervals lie above and `below` below.
        if (above >= below) agreed.to = limits.value;
        above -= limits.least;
        below += limits.most;
        if (!found && above <= below) {
            agreed.from = limits.value;
            found = true;
        }
    }
    agreed.to = std::max(agreed.from, agreed.to);
    return agreed;
}

}  // namespace polter::replay
