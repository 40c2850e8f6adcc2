// SPDX-License-Identifier: BSD-3-Clause
#include "schedule.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "builder.hpp"
#include "replay/base/bytes.hpp"

namespace polter::replay {

namespace {

enum class Family : uint8_t { tree, rounds, halves, everyone };

Family family(Shape shape) {
    switch (shape) {
        case Shape::recursive_doubling:
        case Shape::dissemination:
        case Shape::ring:
        case Shape::pairwise:
        case Shape::pairwise_from_self:
        case Shape::fold_upper:
        case Shape::doubling_all:
        case Shape::bruck:
        case Shape::bruck_exchange:
        case Shape::neighbour_exchange:
        case Shape::double_ring:
        case Shape::xor_pairwise:
        case Shape::xor_from_self:
        case Shape::ring_twice:
        case Shape::ring_twice_rest:
            return Family::rounds;
        case Shape::halving:
        case Shape::halving_doubling:
        case Shape::halving_gather:
        case Shape::butterfly:
        case Shape::scatter_ring:
        case Shape::scatter_doubling:
            return Family::halves;
        case Shape::everyone:
        case Shape::everyone_by_4:
        case Shape::everyone_and_self:
        case Shape::everyone_by_32:
        case Shape::everyone_by_number:
        case Shape::everyone_above:
            return Family::everyone;
        default:
            return Family::tree;
    }
}

void append(Builder& builder, Shape shape, Cargo cargo, bool up, uint32_t segment) {
    if (shape == Shape::none) return;
    if (segment != 0) return tree_up_in_segments(builder, shape, segment * 1e-6);
    switch (family(shape)) {
        case Family::tree:
            return up ? tree_up(builder, shape, cargo) : tree_down(builder, shape, cargo);
        case Family::rounds:
            return in_rounds(builder, shape, cargo);
        case Family::halves:
            return by_halves(builder, shape);
        case Family::everyone:
            return to_everyone(builder, shape, cargo);
    }
}

bool own_numbers(Shape shape) {
    return shape == Shape::linear_descending || shape == Shape::linear_ascending || shape == Shape::linear_by_turns ||
           shape == Shape::halving_gather || is_split(shape);
}

}  // namespace

bool by_number(const Pattern& pattern) {
    return pattern.relay || own_numbers(pattern.up) || own_numbers(pattern.down);
}

Schedule Builder::take() {
    constexpr size_t most = 16;
    for (const double share : schedule_.shares)
        if (schedule_.distinct.size() < most &&
            std::find(schedule_.distinct.begin(), schedule_.distinct.end(), share) == schedule_.distinct.end())
            schedule_.distinct.push_back(share);
    std::sort(schedule_.distinct.begin(), schedule_.distinct.end());
    schedule_.uniform = schedule_.distinct.size() < 2;
    return std::move(schedule_);
}

static double at_most(uint64_t bytes) {
    return static_cast<double>(std::min(uint64_t{1} << 40, bytes));
}

BlockSizes::BlockSizes(const std::vector<uint64_t>& bytes, uint64_t total, uint32_t root) : root_(root) {
    double sum = 0;
    for (const uint64_t part : bytes) sum += at_most(part);
    const double scale = (sum > 0 && total > 0 ? at_most(total) / sum : 1) / static_cast<double>(unit);
    upto_.assign(1, 0);
    for (size_t i = 0; i < 2 * bytes.size(); ++i) upto_.push_back(upto_.back() + at_most(bytes[i % bytes.size()]) * scale);
}

BlockSizes BlockSizes::of_pairs(const std::vector<uint64_t>& sent, const std::vector<uint64_t>& received) {
    BlockSizes sizes;
    double all = 0;
    for (const uint64_t bytes : received) all += at_most(bytes);
    for (const uint64_t bytes : sent) sizes.sent_.push_back(at_most(bytes) / static_cast<double>(unit));
    for (const uint64_t bytes : received) sizes.received_.push_back(all > 0 ? at_most(bytes) / all : 0);
    return sizes;
}

void BlockSizes::write(Bytes& to) const {
    to.put(upto_);
    to.put(root_);
    to.put(sent_);
    to.put(received_);
}

void BlockSizes::read(Input& from) {
    from.get(upto_);
    root_ = from.get<uint32_t>();
    from.get(sent_);
    from.get(received_);
}

uint64_t BlockSizes::total() const {
    if (!known()) return 0;
    const double all = sent_.empty() ? upto_[upto_.size() / 2] : std::accumulate(sent_.begin(), sent_.end(), 0.0);
    return static_cast<uint64_t>(all * static_cast<double>(unit));
}

const Partition* interned(const Partition& partition) {
    static std::mutex mutex;
    static std::set<Partition> all;
    const std::lock_guard lock(mutex);
    return &*all.insert(partition).first;
}

const Schedule& schedule(const Pattern& pattern, uint32_t members, uint32_t root, bool rendezvous, const Partition* partition) {
    static std::mutex mutex;
    static std::map<std::tuple<Pattern, uint32_t, uint32_t, bool, const Partition*>, std::unique_ptr<Schedule>> cache;
    const std::lock_guard lock(mutex);
    if (!by_number(pattern) && pattern.set_up == SetUp::none) root = 0;
    if (!is_split(pattern.up)) partition = nullptr;
    auto& slot = cache[{pattern, members, root, rendezvous, partition}];
    if (!slot) {
        Builder builder(members, pattern.relay || !by_number(pattern) ? 0 : root, rendezvous);
        const uint32_t at_place_0 = by_number(pattern) ? 0 : root;
        if (pattern.set_up == SetUp::first) set_up_all(builder, at_place_0);
        if (pattern.relay && root != 0 && pattern.up == Shape::none) builder.pass(root, 0, 1);
        for (int time = 0; time < (pattern.twice ? 2 : 1); ++time) {
            if (time == 1) builder.await_transfers();
            if (is_split(pattern.up)) {
                split(builder, pattern.up, pattern.down, partition);
                continue;
            }
            append(builder, pattern.up, pattern.cargo_up, true, pattern.segment);
            if (pattern.set_up == SetUp::between && time == 0) set_up_all(builder, at_place_0);
            if (pattern.segment != 0 && pattern.down != Shape::none)
                tree_down_in_segments(builder, pattern, root);
            else
                append(builder, pattern.down, pattern.cargo_down, false, 0);
        }
        if (pattern.relay && root != 0 && pattern.down == Shape::none) builder.pass(0, root, 1);
        slot = std::make_unique<Schedule>(builder.take());
        if (pattern.twice) {  // the data is in the transfers
            slot->shares.assign(slot->shares.size(), 0);
            slot->distinct = {0};
        }
        slot->by_number = by_number(pattern);
    }
    return *slot;
}

std::vector<uint8_t> waited_for(const Schedule& schedule, uint32_t place) {
    using Kind = Schedule::Kind;
    struct Steps {
        uint32_t sent = 0, posted = UINT32_MAX;  // by place of the sender, of the receiver
    };
    std::vector<Steps> messages(schedule.shares.size());
    for (uint32_t at = 0; at < schedule.steps.size(); ++at)
        for (uint32_t number = 0; number < schedule.steps[at].size(); ++number) {
            const Schedule::Step& step = schedule.steps[at][number];
            Steps& of_message = messages[step.message];
            if (step.kind == Kind::send) of_message.sent = number;
            if (step.kind == Kind::post || step.kind == Kind::receive) of_message.posted = std::min(of_message.posted, number);
        }
    std::vector<uint32_t> done(schedule.steps.size(), 0);  // by place: so many steps come before
    std::vector<uint8_t> of(schedule.steps.size(), 0);
    std::vector<std::pair<uint32_t, uint32_t>> open{{place, static_cast<uint32_t>(schedule.steps[place].size())}};
    const auto waits = [&](uint32_t at, uint32_t other, uint32_t steps) {
        of[at] = 2;
        of[other] = std::max<uint8_t>(of[other], 1);
        open.emplace_back(other, steps);
    };
    while (!open.empty()) {
        const auto [at, upto] = open.back();
        open.pop_back();
        for (; done[at] < upto; ++done[at]) {
            const Schedule::Step& step = schedule.steps[at][done[at]];
            const auto [from, to] = schedule.ends[step.message];
            if (step.kind == Kind::receive) waits(at, from, messages[step.message].sent);
            if (step.kind == Kind::complete) waits(at, to, messages[step.message].posted);
        }
    }
    return of;
}

std::string to_string(const Pattern& pattern) {
    constexpr const char* names[] = {"",
                                     "binomial tree",
                                     "strided binomial tree",
                                     "quaternomial tree",
                                     "binary tree",
                                     "all at once",
                                     "one by one",
                                     "chain",
                                     "recursive doubling",
                                     "dissemination",
                                     "ring",
                                     "pairwise",
                                     "pairwise, first with oneself",
                                     "everyone to everyone",
                                     "everyone to everyone, by 4",
                                     "everyone to everyone and oneself, by 4",
                                     "everyone to everyone, by 32",
                                     "everyone to everyone, by number",
                                     "everyone to those above",
                                     "binary tree by levels",
                                     "chains of two",
                                     "one by one, descending",
                                     "one by one, ascending",
                                     "one by one, ascending, each awaited",
                                     "recursive doubling, upper folded",
                                     "recursive doubling without folding",
                                     "Bruck",
                                     "Bruck's exchange",
                                     "neighbour exchange",
                                     "double ring",
                                     "pairwise by bits",
                                     "pairwise by bits, first with oneself",
                                     "recursive halving",
                                     "recursive halving and doubling",
                                     "recursive halving and gather",
                                     "butterfly",
                                     "ring, twice",
                                     "ring, twice, then the rest",
                                     "scatter and ring",
                                     "scatter and recursive doubling",
                                     "binomial tree, small first",
                                     "tree for few bytes",
                                     "tree for few bytes (SMPI)",
                                     "gather and scatter",
                                     "gather by a tree and scatter",
                                     "gather, scatter and set-up"};
    const auto phase = [&](Shape shape, Cargo cargo) {
        const std::string name = names[static_cast<size_t>(shape)];
        return cargo != Cargo::all && !name.empty() ? name + " of parts" : name;
    };
    const std::string up = phase(pattern.up, pattern.cargo_up), down = phase(pattern.down, pattern.cargo_down);
    const char* segments = pattern.segment == 0 ? "" : pattern.segment == one_segment ? " posting ahead" : " in segments";
    const std::string rest = pattern.rest == Shape::none ? "" : std::string(", the rest by ") + names[static_cast<size_t>(pattern.rest)];
    const char* between = pattern.set_up == SetUp::between ? ", then set-up, then " : ", then ";
    return std::string(pattern.set_up == SetUp::first ? "set-up, then " : "") + up + (up.empty() || down.empty() ? "" : between) + down +
           (is_split(pattern.up) ? " in each group" : "") + segments + rest + (pattern.relay ? " by way of rank 0" : "") +
           (pattern.twice ? ", all of it twice" : "");
}

}  // namespace polter::replay
