// SPDX-License-Identifier: BSD-3-Clause
#include "bursts.hpp"

#include <algorithm>

namespace polter::replay {

void Bursts::start() {
    to_begin_.clear();
    for (const auto& burst : messages_) to_begin_.push_back(static_cast<uint32_t>(burst.size()));
}

void Bursts::add(const Schedule& schedule, bool sent, std::vector<uint32_t>* messages) {
    std::vector<uint32_t>& in = sent ? sent_in_ : received_in_;
    std::vector<uint32_t> burst = std::move(*messages);
    messages->clear();
    std::erase_if(burst, [&](uint32_t message) { return in[message] != none; });  // it was posted long ago
    const auto partner = [&](uint32_t message) { return sent ? schedule.ends[message].second : schedule.ends[message].first; };
    std::stable_sort(burst.begin(), burst.end(), [&](uint32_t a, uint32_t b) { return partner(a) < partner(b); });
    burst.erase(std::unique(burst.begin(), burst.end(), [&](uint32_t a, uint32_t b) { return partner(a) == partner(b); }), burst.end());
    if (burst.size() < 2) return;
    for (const uint32_t message : burst) in[message] = static_cast<uint32_t>(messages_.size());
    messages_.push_back(std::move(burst));
}

}  // namespace polter::replay
