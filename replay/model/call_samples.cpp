// SPDX-License-Identifier: BSD-3-Clause
#include "call_samples.hpp"

#include <algorithm>

namespace polter::replay {

CostLimits::Agreed CostLimits::agreed() const {
    struct Limits {
        int64_t value = 0, least = 0, most = 0;  // how many intervals begin, and end, here
    };
    std::map<uint16_t, Limits> at;
    for (const auto& [bin, content] : least().bins()) at[bin] = {content.sum / content.count, content.count, 0};
    for (const auto& [bin, content] : most().bins()) {
        Limits& limits = at[bin];
        limits.most = content.count;
        limits.value = content.sum / content.count;  // of a bin with both, the greatest values: they come from exact instances
    }
    Agreed agreed;
    int64_t above = count(), below = 0;  // intervals wholly above, and wholly below
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

int64_t CostLimits::shortest() const {
    if (exact_.count() == 0 || most_.count() == 0) return exact_.count() > 0 ? exact_.quantile(0) : most_.quantile(0);
    return std::min(exact_.quantile(0), most_.quantile(0));
}

namespace {

// The sum of what lies above, each by `limit` at most.
double above(const Histogram& values, int64_t usual, double limit) {
    double sum = 0;
    for (const auto& [bin, content] : values.bins()) {
        const auto count = static_cast<double>(content.count);
        sum += count * std::clamp(static_cast<double>(content.sum) / count - static_cast<double>(usual), 0.0, limit);
    }
    return sum;
}

}  // namespace

CostLimits::Excess CostLimits::excess(int64_t usual) const {
    constexpr double unlimited = 1e18;
    Excess excess{.calls = most_.count(), .exact = exact_.count()};
    if (excess.calls == 0) return excess;
    excess.counted = above(most_, usual, unlimited) - above(least_, usual, unlimited);
    const double noise = (above(most_, 0, unlimited) - above(least_, 0, unlimited)) / static_cast<double>(excess.calls);  // of one call
    if (excess.exact > 0)
        excess.other = above(exact_, usual, noise) / static_cast<double>(excess.exact) * static_cast<double>(excess.calls);
    return excess;
}

}  // namespace polter::replay
