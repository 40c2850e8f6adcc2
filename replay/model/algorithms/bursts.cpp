// SPDX-License-Identifier: BSD-3-Clause
#include "bursts.hpp"

#include <algorithm>

namespace polter::replay::detail {

void add_burst(Bursts* bursts, const Schedule& of, bool sent, std::vector<uint32_t>* messages) {
    std::vector<uint32_t>& in = sent ? bursts->sent_in : bursts->received_in;
    std::vector<uint32_t> burst = std::move(*messages);
    messages->clear();
    std::erase_if(burst, [&](uint32_t message) { return in[message] != Bursts::alone; });  // it was posted long ago
    const auto partner = [&](uint32_t message) { return sent ? of.ends[message].second : of.ends[message].first; };
    std::stable_sort(burst.begin(), burst.end(), [&](uint32_t a, uint32_t b) { return partner(a) < partner(b); });
    burst.erase(std::unique(burst.begin(), burst.end(), [&](uint32_t a, uint32_t b) { return partner(a) == partner(b); }), burst.end());
    if (burst.size() < 2) return;
    for (const uint32_t message : burst) in[message] = static_cast<uint32_t>(bursts->messages.size());
    bursts->messages.push_back(std::move(burst));
}

}  // namespace polter::replay::detail
