// SPDX-License-Identifier: BSD-3-Clause
// Trees whose messages are cut into segments: a place passes on one while the next is under way.
#include <cmath>

#include "builder.hpp"

namespace polter::replay {

namespace {

constexpr double rounding = 1e-3;  // of a segment

// The parts of the data that the segments of `all` of it carry; the last has what is left.
std::vector<double> segments(double all, double segment) {
    std::vector<double> list(static_cast<size_t>(std::max(1.0, std::ceil(all / segment - rounding))), segment);
    list.back() = all - segment * static_cast<double>(list.size() - 1);
    return list;
}

// The receives of a place in order; each is posted before the one in front of it is waited for. `then(i)`: behind the i-th.
struct Incoming {
    uint32_t message, from;
};
template <class Then>
void take(Builder& builder, const std::vector<Incoming>& incoming, uint32_t place, Then then) {
    if (!incoming.empty()) builder.post(incoming.front().message, incoming.front().from, place);
    for (size_t i = 0; i < incoming.size(); ++i) {
        if (i + 1 < incoming.size()) builder.post(incoming[i + 1].message, incoming[i + 1].from, place);
        builder.receive(incoming[i].message, incoming[i].from, place);
        then(i);
    }
}

}  // namespace

void tree_up_in_segments(Builder& builder, Shape shape, double segment) {
    const std::vector<double> shares = segments(1, segment);
    std::vector<std::vector<uint32_t>> sent(builder.members());  // by place, by segment
    std::vector<uint32_t> parent(builder.members(), 0);
    for (uint32_t place = 0; place < builder.members(); ++place)
        for (const uint32_t child : children(place, shape, builder.members())) parent[child] = place;
    const auto pass_on = [&](uint32_t place, double share) {
        if (place == 0) return;
        sent[place].push_back(builder.send(place, parent[place], share));
        builder.complete(sent[place].back(), parent[place], place);
    };
    for (uint32_t place = builder.members(); place-- > 0;) {  // children have higher numbers
        auto below = children(place, shape, builder.members());
        if (shape == Shape::binomial) std::reverse(below.begin(), below.end());  // small subtrees come first
        std::vector<Incoming> incoming;
        for (size_t i = 0; i < shares.size(); ++i)
            for (const uint32_t child : below) incoming.push_back({sent[child][i], child});
        if (below.empty())
            for (const double share : shares) pass_on(place, share);
        take(builder, incoming, place, [&](size_t i) {
            if ((i + 1) % below.size() == 0) pass_on(place, shares[i / below.size()]);
        });
    }
}

// What is sent is waited for at last. Whole segments only; the rest goes as a message of its own.
void tree_down_in_segments(Builder& builder, const Pattern& pattern, uint32_t root) {
    const uint32_t members = builder.members();
    const double segment = pattern.segment * 1e-6, whole = std::floor(1 / segment + rounding), rest = 1 - whole * segment;
    std::vector<std::vector<Incoming>> incoming(members);
    for (uint32_t place = 0; place < members; ++place) {
        const auto below = children(place, pattern.down, members);
        std::vector<Incoming> sent;
        const auto pass_on = [&] {
            for (const uint32_t child : below) {
                sent.push_back({builder.send(place, child, segment), child});
                incoming[child].push_back({sent.back().message, place});
            }
        };
        for (const auto& [message, from] : incoming[place]) builder.post(message, from, place);
        for (int i = 0; place == 0 && i < static_cast<int>(whole); ++i) pass_on();
        for (const auto& [message, from] : incoming[place]) {
            builder.receive(message, from, place);
            pass_on();
        }
        for (const auto& [message, to] : sent) builder.complete(message, to, place);
    }
    if (pattern.rest == Shape::none || rest < rounding * segment) return;
    if (pattern.rest_relay && root != 0) builder.pass(root, 0, rest);
    const uint32_t first = pattern.rest_relay ? 0 : root;
    for (uint32_t place = 0; place < members; ++place)  // parents come before their children
        for (const uint32_t child : children(place, pattern.rest, members))
            builder.pass((place + first) % members, (child + first) % members, rest);
}

}  // namespace polter::replay
