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

// In so many parts of a ns, and from the first beginning on: so rounding does not matter.
static constexpr int64_t parts_of_ns = 1024;

// `more_of`: the cost of which there is 1 ns more; `costs`: none.
const std::vector<int64_t>& LinkSlopes::over(size_t more_of) {
    int64_t first = messages_.front().begin;
    for (const Message& message : messages_) first = std::min(first, message.begin);
    over_.clear();
    link_.start();
    for (const Message& message : messages_) {
        const auto in_parts = [](double ns) { return std::llround(ns * static_cast<double>(parts_of_ns)); };
        const int64_t begin = (message.begin - first) * parts_of_ns + (more_of < costs ? in_parts(message.begin_by[more_of]) : 0);
        const int64_t length = message.length * parts_of_ns + (more_of == by_length ? in_parts(message.share) : 0);
        over_.push_back(begin + length);
        link_.add(begin, length);
    }
    const std::vector<int64_t>& later = link_.later();
    for (size_t i = 0; i < over_.size(); ++i) over_[i] += later[i];
    return over_;
}

const std::vector<LinkSlopes::Slopes>& LinkSlopes::find() {
    slopes_.resize(messages_.size());
    if (messages_.empty()) return slopes_;
    plain_ = over(costs);
    for (size_t cost = 0; cost < costs; ++cost) {
        const std::vector<int64_t>& with_more = over(cost);
        for (size_t i = 0; i < with_more.size(); ++i)
            slopes_[i][cost] = static_cast<double>(with_more[i] - plain_[i]) / static_cast<double>(parts_of_ns) -
                               (cost == by_length ? messages_[i].share : 0);  // alone it takes no more than its way
    }
    return slopes_;
}

}  // namespace polter::replay
