// SPDX-License-Identifier: BSD-3-Clause
#include "fair_link.hpp"

#include <algorithm>
#include <cmath>

namespace polter::replay {

bool FairLink::apart() const {
    for (size_t i = 1; i < order_.size(); ++i) {
        const Message& before = messages_[order_[i - 1]];
        if (before.begin + before.length > messages_[order_[i]].begin) return false;
    }
    return true;
}

const std::vector<int64_t>& FairLink::later() {
    later_.assign(messages_.size(), 0);
    order_.clear();
    for (size_t i = 0; i < messages_.size(); ++i)
        if (messages_[i].length > 0) order_.push_back(i);
    const auto sooner = [&](size_t a, size_t b) { return messages_[a].begin < messages_[b].begin; };
    if (!std::is_sorted(order_.begin(), order_.end(), sooner)) std::stable_sort(order_.begin(), order_.end(), sooner);
    if (apart()) return later_;
    // Times count from the first beginning, so that what is only earlier as a whole is the same.
    const int64_t first = messages_[order_.front()].begin;
    double now = 0, had = 0;  // `had`: of the link, by each message that was always under way
    under_way_.clear();
    for (auto next = order_.begin(); next != order_.end() || !under_way_.empty();) {
        const auto sharing = static_cast<double>(under_way_.size());
        const double over = under_way_.empty() ? 0 : now + (under_way_.front().end - had) * sharing;
        const double begin = next == order_.end() ? 0 : static_cast<double>(messages_[*next].begin - first);
        if (next != order_.end() && (under_way_.empty() || begin <= over)) {
            if (!under_way_.empty()) had += (begin - now) / sharing;
            now = begin;
            under_way_.push_back({had + static_cast<double>(messages_[*next].length), *next});
            std::push_heap(under_way_.begin(), under_way_.end());
            ++next;
        } else {
            now = over;
            had = under_way_.front().end;
            const size_t message = under_way_.front().message;
            const Message& of = messages_[message];
            later_[message] = std::max<int64_t>(0, std::llround(now - static_cast<double>(of.begin - first + of.length)));
            std::pop_heap(under_way_.begin(), under_way_.end());
            under_way_.pop_back();
        }
    }
    return later_;
}

}  // namespace polter::replay
