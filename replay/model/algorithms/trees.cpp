// SPDX-License-Identifier: BSD-3-Clause
// Trees and chains: to place 0, or from it. With parts, a message carries those of a whole subtree.
#include <bit>
#include <deque>

#include "builder.hpp"

namespace polter::replay {

std::vector<uint32_t> children(uint32_t place, Shape shape, uint32_t members) {
    std::vector<uint32_t> list;
    const auto add = [&](uint64_t child) {
        if (child < members) list.push_back(static_cast<uint32_t>(child));
    };
    switch (shape) {
        case Shape::binary:
            add(uint64_t{place} * 2 + 1);
            add(uint64_t{place} * 2 + 2);
            break;
        case Shape::binary_by_levels: {
            const uint64_t width = std::bit_floor(uint64_t{place} + 1);  // of the place's level
            add(place + width);
            add(place + 2 * width);
            break;
        }
        case Shape::binomial_strided:
            for (uint64_t stride = place == 0 ? 1 : uint64_t{std::bit_floor(place)} * 2; place + stride < members; stride *= 2)
                add(place + stride);
            break;
        case Shape::chain:
            add(uint64_t{place} + 1);
            break;
        case Shape::two_chains_a_pair: {
            const uint32_t chains = std::max(1u, members / 2), others = members - 1;
            const uint32_t length = (others + chains - 1) / chains, longer = others % chains == 0 ? chains : others % chains;
            uint32_t head = 1;
            for (uint32_t chain = 0; chain < chains && head < members; ++chain) {
                const uint32_t end = head + (chain < longer ? length : length - 1);
                if (place == 0) add(head);
                if (place >= head && place + 1 < end) add(place + 1);
                head = end;
            }
            break;
        }
        default: {
            const uint64_t radix = shape == Shape::quaternomial ? 4 : 2;
            uint64_t span = 1;  // of the subtree below the place
            while (place == 0 ? span < members : place % (span * radix) == 0) span *= radix;
            for (span /= radix; span > 0; span /= radix)
                for (uint64_t digit = 1; digit < radix; ++digit) add(place + digit * span);
        }
    }
    return list;
}

namespace {

// By place: how many places its subtree has.
std::vector<uint32_t> subtrees(Shape shape, uint32_t members) {
    std::vector<uint32_t> of(members, 1);
    for (uint32_t place = members; place-- > 0;)
        for (const uint32_t child : children(place, shape, members)) of[place] += of[child];
    return of;
}

// What Open MPI 4.1 and SMPI 3.32 broadcast less than 8 bytes by.
Shape for_few_bytes(Shape shape, uint32_t members) {
    if (shape != Shape::few_bytes && shape != Shape::few_bytes_smpi) return shape;
    const Shape binary = shape == Shape::few_bytes ? Shape::binary_by_levels : Shape::binary;
    if (members < 4) return Shape::chain;
    if (members < 8) return binary;
    if (members < 32) return Shape::quaternomial;
    if (members < 64) return Shape::binomial;
    return members >= 128 && members < 256 ? binary : Shape::quaternomial;
}

bool is_linear(Shape shape) {
    return shape == Shape::linear || shape == Shape::linear_in_order || shape == Shape::linear_ascending ||
           shape == Shape::linear_descending || shape == Shape::linear_by_turns;
}

// The others, in the order in which the root takes or serves them.
std::vector<uint32_t> others(const Builder& builder, Shape shape) {
    std::vector<uint32_t> list;
    for (uint32_t place = 0; place < builder.members(); ++place)
        if (place != builder.root()) list.push_back(place);
    if (shape == Shape::linear_descending) std::reverse(list.begin(), list.end());
    return list;
}

void linear_up(Builder& builder, Shape shape, Cargo cargo, double all) {
    const uint32_t root = builder.root();
    std::vector<std::pair<uint32_t, uint32_t>> messages;  // with their senders
    for (const uint32_t from : others(builder, shape)) {
        messages.emplace_back(builder.send(from, root, cargo == Cargo::all ? Load(all) : builder.parts(from)), from);
        builder.complete(messages.back().first, root, from);
    }
    if (shape == Shape::linear)
        for (const auto& [message, from] : messages) builder.post(message, from, root);
    const size_t first = builder.position(root);
    for (const auto& [message, from] : messages) builder.receive(message, from, root);
    if (shape == Shape::linear) builder.as_they_come(root, first);
}

void linear_down(Builder& builder, Shape shape, Cargo cargo, double all) {
    const uint32_t root = builder.root();
    const bool by_turns = shape == Shape::linear_in_order || shape == Shape::linear_by_turns;
    std::vector<std::pair<uint32_t, uint32_t>> messages;
    for (const uint32_t to : others(builder, shape)) {
        messages.emplace_back(builder.send(root, to, cargo == Cargo::all ? Load(all) : builder.parts(to)), to);
        builder.receive(messages.back().first, root, to);
        if (by_turns) builder.complete(messages.back().first, to, root);
    }
    if (!by_turns)
        for (const auto& [message, to] : messages) builder.complete(message, to, root);
}

}  // namespace

namespace {

// Who shares a host with whom, found out by each group: all members' hosts, each by a message of its own, then the hosts' sizes likewise;
// at last whether all agree. (SimGrid, Comm::init_smp.)
void set_up(Builder& builder, const Partition& groups, double share) {
    struct Seat {
        const std::vector<uint32_t>* group = nullptr;
        size_t place = 0;
    };
    std::vector<Seat> seats(builder.members());
    size_t most = 0;
    for (const auto& group : groups) {
        for (size_t i = 0; i < group.size(); ++i) seats[group[i]] = {&group, i};
        most = std::max(most, group.size());
    }
    for (int what = 0; what < 2; ++what)
        for (size_t distance = 1; distance < most; ++distance)
            builder.round_of(share, [&](uint32_t member) {
                const auto [group, place] = seats[member];
                return group && distance < group->size() ? (*group)[(place + distance) % group->size()] : Builder::no_partner;
            });
    for (const auto& group : groups) {
        const auto size = static_cast<uint32_t>(group.size());
        const size_t first = builder.position(group.front());
        for (uint32_t place = 1; place < size; ++place) builder.pass(group[place], group.front(), share);
        builder.as_they_come(group.front(), first);
        for (uint32_t place = 0; place < size; ++place)
            for (const uint32_t child : children(place, Shape::binomial, size)) builder.pass(group[place], group[child], share);
    }
}

}  // namespace

void set_up_all(Builder& builder, uint32_t root) {
    const uint32_t members = builder.members();
    Partition everybody(1);
    for (uint32_t member = 0; member < members; ++member) everybody.front().push_back((member + members - root) % members);
    set_up(builder, everybody, 0);
}

void split(Builder& builder, Shape shape, Shape broadcast, const Partition* partition) {
    const uint32_t members = builder.members();
    Partition everybody(1);
    for (uint32_t member = 0; member < members; ++member) everybody.front().push_back(member);
    tree_up(builder, shape == Shape::split_from_tree ? Shape::binomial : Shape::linear, Cargo::all);
    std::vector<std::pair<uint32_t, uint32_t>> messages;  // with their receivers
    for (const auto& group : partition ? *partition : everybody)
        for (const uint32_t member : group)
            if (member != 0) messages.emplace_back(builder.send(0, member, 1), member);
    for (const auto& [message, to] : messages) {
        builder.receive(message, 0, to);
        builder.complete(message, to, 0);
    }
    const Partition& groups = partition ? *partition : everybody;
    Partition set_up_first;  // SMPI's quaternomial tree asks who shares a host
    for (const auto& group : groups) {
        const bool asks =
            broadcast == Shape::few_bytes_smpi && for_few_bytes(broadcast, static_cast<uint32_t>(group.size())) == Shape::quaternomial;
        if (shape == Shape::split_set_up || asks) set_up_first.push_back(group);
    }
    if (!set_up_first.empty()) set_up(builder, set_up_first, 1);
    for (const auto& group : groups) {
        const auto size = static_cast<uint32_t>(group.size());
        for (uint32_t place = 0; place < size; ++place)  // parents come before their children
            for (const uint32_t child : children(place, for_few_bytes(broadcast, size), size)) builder.pass(group[place], group[child], 1);
    }
}

void tree_up(Builder& builder, Shape shape, Cargo cargo, double all) {
    const uint32_t members = builder.members();
    if (is_linear(shape)) return linear_up(builder, shape, cargo, all);
    const std::vector<uint32_t> below = subtrees(shape, members);
    const auto load = [&](uint32_t place) { return cargo == Cargo::all ? Load(all) : builder.parts(place, below[place]); };
    // A place's own receives come before its send, so the highest places first.
    const auto go_up = [&](const auto& self, uint32_t place) -> void {
        auto list = children(place, shape, members);
        if (shape == Shape::binomial || shape == Shape::quaternomial) std::reverse(list.begin(), list.end());  // small subtrees come first
        for (const uint32_t child : list) {
            self(self, child);
            builder.pass(child, place, load(child));
        }
    };
    if (shape == Shape::chain)  // not by recursion: as deep as there are members
        for (uint32_t place = members - 1; place > 0; --place) builder.pass(place, place - 1, load(place));
    else
        go_up(go_up, 0);
}

// Down a quaternomial tree: what a place sends to subtrees of one size it starts at once, and waits for before it goes on.
template <class Carries>
static void pass_by_levels(Builder& builder, uint32_t place, const std::vector<uint32_t>& list, Carries load) {
    const auto span = [&](uint32_t child) { return (std::bit_width(child - place) - 1) / 2; };  // its logarithm to base 4
    for (size_t first = 0, next = 0; first < list.size(); first = next) {
        std::vector<uint32_t> messages;
        for (; next < list.size() && span(list[next]) == span(list[first]); ++next)
            messages.push_back(builder.send(place, list[next], load(list[next])));
        for (size_t i = first; i < next; ++i) builder.complete(messages[i - first], list[i], place);
        for (size_t i = first; i < next; ++i) builder.receive(messages[i - first], place, list[i]);
    }
}

void tree_down(Builder& builder, Shape shape, Cargo cargo, double all) {
    if (is_linear(shape)) return linear_down(builder, shape, cargo, all);
    const std::vector<uint32_t> below = subtrees(shape, builder.members());
    std::deque<uint32_t> open{0};
    while (!open.empty()) {
        const uint32_t place = open.front();
        open.pop_front();
        auto list = children(place, shape, builder.members());
        if (shape == Shape::binomial_ascending) std::reverse(list.begin(), list.end());
        const auto load = [&](uint32_t child) { return cargo == Cargo::all ? Load(all) : builder.parts(child, below[child]); };
        if (shape == Shape::quaternomial) {
            pass_by_levels(builder, place, list, load);
        } else {
            for (const uint32_t child : list) builder.pass(place, child, load(child));
        }
        open.insert(open.end(), list.begin(), list.end());
    }
}

}  // namespace polter::replay
