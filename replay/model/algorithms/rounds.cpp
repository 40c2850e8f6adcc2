// SPDX-License-Identifier: BSD-3-Clause
// Exchanges in rounds. With parts, each round carries what the partner does not have yet.
#include <bit>

#include "builder.hpp"

namespace polter::replay {

namespace {

// What exceeds a power of two is folded in: the first few even members onto their odd neighbours, or the highest ones onto the lowest.
void recursive_doubling(Builder& builder, bool fold_upper) {
    const uint32_t members = builder.members(), power = std::bit_floor(members), rest = members - power;
    for (uint32_t k = 0; k < rest; ++k) fold_upper ? builder.pass(power + k, k, 1) : builder.pass(2 * k, 2 * k + 1, 1);
    const auto place = [&](uint32_t member) {
        if (fold_upper) return member < power ? member : Builder::no_partner;
        return member < 2 * rest ? (member % 2 ? member / 2 : Builder::no_partner) : member - rest;
    };
    const auto member_at = [&](uint32_t at) { return fold_upper ? at : at < rest ? 2 * at + 1 : at + rest; };
    for (uint32_t mask = 1; mask < power; mask <<= 1)
        builder.round_of(1, [&](uint32_t member) {
            return place(member) == Builder::no_partner ? Builder::no_partner : member_at(place(member) ^ mask);
        });
    for (uint32_t k = 0; k < rest; ++k) fold_upper ? builder.pass(k, power + k, 1) : builder.pass(2 * k + 1, 2 * k, 1);
}

// Without folding: in an allgather a subtree's parts double; in a reduce-scatter (`all`) a member sends what the partner's subtree, and all
// but its own, still needs. Those without a partner are served within their half of the tree.
void doubling_all(Builder& builder, Cargo cargo) {
    const uint32_t members = builder.members();
    std::vector<uint32_t> has(members, 1);  // parts
    for (uint32_t mask = 1; mask < members; mask <<= 1) {
        const auto root_of = [&](uint32_t member) { return member / mask * mask; };
        const std::vector<uint32_t> before = has;
        const auto load = [&](uint32_t member) {
            const uint32_t end = std::min(members, root_of(member) + mask);
            if (cargo == Cargo::parts) return builder.parts(root_of(member), before[member]);
            return builder.parts(end, members - (end - root_of(member)));
        };
        builder.round([&](uint32_t member) { return (member ^ mask) < members ? member ^ mask : Builder::no_partner; }, load);
        std::vector<uint32_t> last(members, 0);
        for (uint32_t member = 0; member < members; ++member)
            if ((member ^ mask) < members) has[member] += last[member] = before[member ^ mask];
        for (uint32_t tree = 0; tree < members; tree += 2 * mask) {  // pairs of subtrees, of which the second is not whole
            if (tree + mask >= members || tree + 2 * mask <= members) continue;
            for (uint32_t step = mask >> 1; step > 0; step >>= 1)
                for (uint32_t from = tree; from < tree + mask; ++from) {
                    const uint32_t to = from ^ step;
                    if (to < from || last[from] == 0 || last[to] != 0) continue;
                    builder.pass(from, to, cargo == Cargo::parts ? builder.parts(tree + mask, last[from]) : load(tree + mask));
                    has[to] += last[to] = last[from];
                }
        }
    }
}

void bruck(Builder& builder) {
    const uint32_t members = builder.members();
    for (uint32_t mask = 1; mask < members; mask <<= 1)
        builder.round([&](uint32_t member) { return (member + members - mask) % members; },
                      [&](uint32_t member) { return builder.parts(member, std::min(mask, members - mask)); });
}

void bruck_exchange(Builder& builder) {
    const uint32_t members = builder.members();
    for (uint32_t mask = 1; mask < members; mask <<= 1) {
        uint32_t parts = 0;
        for (uint32_t part = 0; part < members; ++part) parts += (part & mask) != 0;
        builder.round_of(parts * builder.part(), [&](uint32_t member) { return (member + mask) % members; });
    }
}

// The first exchange is of one part, the others of the two that came in the one before. For even numbers of members only.
void neighbour_exchange(Builder& builder) {
    const uint32_t members = builder.members();
    if (members % 2) return;
    for (uint32_t step = 0; step < members / 2; ++step)
        builder.round(
            [&](uint32_t member) {
                const bool right = (member % 2 == 0) == (step % 2 == 0);
                return (member + (right ? 1 : members - 1)) % members;
            },
            [&](uint32_t member) {
                if (step == 0) return builder.parts(member);
                const bool right = (member % 2 == 0) == (step % 2 == 1);  // where they come from; further off each second step
                return builder.parts(member - member % 2 + (right ? step / 2 * 2 : members - step / 2 * 2), 2);
            });
}

void double_ring(Builder& builder) {
    const uint32_t members = builder.members();
    for (int turn = 0; turn < 2; ++turn)
        for (uint32_t member = 0; member < members; ++member) builder.pass(member, (member + 1) % members, 1);
}

}  // namespace

void in_rounds(Builder& builder, Shape shape, Cargo cargo) {
    const uint32_t members = builder.members();
    const double share = cargo == Cargo::all ? 1 : builder.part();
    // In the k-th exchange the part of the member that it is for, or one's own; round a ring, what came in the one before.
    const auto exchanged = [&](uint32_t k, bool ring) {
        return [=, &builder](uint32_t place) {
            if (cargo == Cargo::all) return Load(1);
            if (ring) return builder.parts(place + members - k + (cargo == Cargo::theirs ? 0 : 1));
            return builder.parts(cargo == Cargo::theirs ? place + k : place);
        };
    };
    switch (shape) {
        case Shape::recursive_doubling:
            return recursive_doubling(builder, false);
        case Shape::fold_upper:
            return recursive_doubling(builder, true);
        case Shape::doubling_all:
            return doubling_all(builder, cargo);
        case Shape::dissemination:
            for (uint32_t distance = 1; distance < members; distance <<= 1)
                builder.round_of(share, [&](uint32_t place) { return (place + distance) % members; });
            return;
        case Shape::ring:
            for (uint32_t k = 1; k < members; ++k) builder.round([&](uint32_t place) { return (place + 1) % members; }, exchanged(k, true));
            return;
        case Shape::ring_twice:
        case Shape::ring_twice_rest:
            for (uint32_t k = 1; k < 2 * members - 1; ++k)
                builder.round_of(share, [&](uint32_t place) { return (place + 1) % members; });
            if (shape != Shape::ring_twice_rest) return;
            tree_up(builder, members < 32 ? Shape::binary_by_levels : Shape::binomial, Cargo::all, share);
            return tree_down(builder, members < 16 ? Shape::binary_by_levels : members < 32 ? Shape::quaternomial : Shape::binomial,
                             Cargo::all, share);
        case Shape::pairwise:
        case Shape::pairwise_from_self:
            for (uint32_t k = shape == Shape::pairwise ? 1 : 0; k < members; ++k)
                builder.round([&](uint32_t place) { return (place + k) % members; }, exchanged(k, false));
            return;
        case Shape::xor_pairwise:
        case Shape::xor_from_self:
            for (uint32_t k = shape == Shape::xor_pairwise ? 1 : 0; k < std::bit_ceil(members); ++k)
                builder.round_of(share, [&](uint32_t place) { return (place ^ k) < members ? place ^ k : Builder::no_partner; });
            return;
        case Shape::bruck:
            return bruck(builder);
        case Shape::bruck_exchange:
            return bruck_exchange(builder);
        case Shape::neighbour_exchange:
            return neighbour_exchange(builder);
        case Shape::double_ring:
            return double_ring(builder);
        default:
            return;
    }
}

}  // namespace polter::replay
