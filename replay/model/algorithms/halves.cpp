// SPDX-License-Identifier: BSD-3-Clause
// Reductions of long vectors by recursive halving, and broadcasts by a scatter and an allgather.
#include <bit>

#include "builder.hpp"

namespace polter::replay {

namespace {

// The members that take part, as a power of two of them: the first few are folded in pairs, onto the odd or the even one.
class Folded {
  public:
    Folded(uint32_t members, bool onto_odd) : power(std::bit_floor(members)), rest(members - power), odd(onto_odd) {}
    uint32_t number(uint32_t member) const {  // no_partner: does not take part
        if (member >= 2 * rest) return member - rest;
        return (member % 2 == 1) == odd ? member / 2 : Builder::no_partner;
    }
    uint32_t member(uint32_t number) const { return number < rest ? 2 * number + (odd ? 1 : 0) : number + rest; }
    uint32_t power, rest;
    bool odd;
};

void fold_in(Builder& builder, const Folded& folded) {
    for (uint32_t k = 0; k < folded.rest; ++k) builder.pass(2 * k + (folded.odd ? 0 : 1), 2 * k + (folded.odd ? 1 : 0), 1);
}

template <class Carries>
void exchange(Builder& builder, const Folded& folded, uint32_t mask, Carries load) {
    builder.round(
        [&](uint32_t member) {
            const uint32_t number = folded.number(member);
            return number == Builder::no_partner ? number : folded.member(number ^ mask);
        },
        load);
}

// From neighbours on, as Rabenseifner's do, or from half of all on.
void reduce_scatter(Builder& builder, const Folded& folded, bool near_first) {
    const auto begin = [&](uint32_t number) { return number < folded.rest ? 2 * number : number + folded.rest; };  // of its part
    for (uint32_t step = 1; step < folded.power; step <<= 1) {
        const uint32_t mask = near_first ? step : folded.power / 2 / step;
        exchange(builder, folded, mask, [&](uint32_t member) -> Load {
            if (near_first) return 0.5 / step;
            const uint32_t first = (folded.number(member) ^ mask) / mask * mask;  // of the partner's half
            return {0.5 / step, {begin(first), begin(first + mask) - begin(first)}};
        });
    }
}

// Reduce_scatter from neighbours on (Träff, 2005): which halves a number keeps depends on its lowest bits first, so at the end it has the
// result of the number that has its bits in reverse.
void butterfly(Builder& builder, const Folded& folded) {
    const auto begin = [&](uint32_t number) { return number < folded.rest ? 2 * number : number + folded.rest; };  // of its part
    std::vector<uint32_t> kept(folded.power, 0);  // the first number whose part each still has
    for (uint32_t mask = 1; mask < folded.power; mask <<= 1) {
        const uint32_t half = folded.power / 2 / mask;
        exchange(builder, folded, mask, [&](uint32_t member) -> Load {
            const uint32_t number = folded.number(member), first = kept[number] + (number & mask ? 0 : half);
            return {0.5 / mask, {begin(first), begin(first + half) - begin(first)}};
        });
        for (uint32_t number = 0; number < folded.power; ++number)
            if (number & mask) kept[number] += half;
    }
    for (uint32_t number = 0; number < folded.power; ++number)  // who stood aside waits for nothing else
        if (kept[number] < folded.rest) {
            const uint32_t aside = folded.member(kept[number]) - 1;
            builder.pass(folded.member(number), aside, builder.parts(aside));
        }
    builder.round(
        [&](uint32_t member) {
            const uint32_t number = folded.number(member);
            return number == Builder::no_partner || kept[number] == number ? Builder::no_partner : folded.member(kept[number]);
        },
        [&](uint32_t member) { return builder.parts(folded.member(kept[folded.number(member)])); });
}

// Along the same exchanges backward, only towards the root. An excluded root takes the place of member 0, which hands it its part.
void gather(Builder& builder, const Folded& folded) {
    const uint32_t root = builder.root();
    const bool excluded = folded.number(root) == Builder::no_partner;
    const uint32_t goal = excluded ? 0 : folded.number(root);
    if (excluded) builder.pass(folded.member(0), root, 1.0 / folded.power);
    const auto member = [&](uint32_t number) { return number == 0 && excluded ? root : folded.member(number); };
    std::vector<bool> gone(folded.power, false);
    double share = 1.0 / folded.power;
    for (uint32_t mask = folded.power / 2; mask > 0; mask >>= 1, share *= 2)
        for (uint32_t number = 0; number < folded.power; ++number) {
            const uint32_t partner = number ^ mask;
            if (gone[number] || gone[partner] || (partner & mask) != (goal & mask)) continue;  // who is on the root's side stays
            builder.pass(member(number), member(partner), share);
            gone[number] = true;
        }
}

void scatter_allgather(Builder& builder, bool ring) {
    tree_down(builder, Shape::binomial, Cargo::parts);
    in_rounds(builder, ring ? Shape::ring : Shape::doubling_all, Cargo::parts);
}

}  // namespace

void by_halves(Builder& builder, Shape shape) {
    const Folded folded(builder.members(), shape != Shape::halving_gather);
    switch (shape) {
        case Shape::halving:
            fold_in(builder, folded);
            reduce_scatter(builder, folded, false);
            for (uint32_t k = 0; k < folded.rest; ++k) builder.pass(2 * k + 1, 2 * k, builder.parts(2 * k));
            return;
        case Shape::halving_doubling:
            fold_in(builder, folded);
            reduce_scatter(builder, folded, true);
            for (uint32_t mask = folded.power / 2; mask > 0; mask >>= 1)
                exchange(builder, folded, mask, [&](uint32_t) { return Load(0.5 / mask); });
            for (uint32_t k = 0; k < folded.rest; ++k) builder.pass(2 * k + 1, 2 * k, 1);
            return;
        case Shape::halving_gather:
            fold_in(builder, folded);
            reduce_scatter(builder, folded, true);
            return gather(builder, folded);
        case Shape::butterfly:
            fold_in(builder, folded);
            return butterfly(builder, folded);
        case Shape::scatter_ring:
        case Shape::scatter_doubling:
            return scatter_allgather(builder, shape == Shape::scatter_ring);
        default:
            return;
    }
}

}  // namespace polter::replay
