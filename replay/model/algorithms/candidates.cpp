// SPDX-License-Identifier: BSD-3-Clause
#include "candidates.hpp"

#include <otf2/otf2.h>

#include <cmath>
#include <set>

namespace polter::replay {

namespace {

constexpr double usual = 1, unusual = 1.25;
constexpr uint32_t most_of_many = 256;  // where the number of messages grows with the square of the members

using Candidates = std::vector<Candidate>;

Pattern only(Shape shape, Cargo cargo = Cargo::all) {
    return {.up = shape, .cargo_up = cargo};
}

Pattern both(Shape up, Shape down, Cargo cargo_up = Cargo::all, Cargo cargo_down = Cargo::all) {
    return {up, down, false, cargo_up, cargo_down};
}

constexpr Shape down_shapes[] = {Shape::binomial, Shape::binomial_strided, Shape::quaternomial, Shape::binary, Shape::linear, Shape::chain};
constexpr Shape up_shapes[] = {Shape::binomial, Shape::binomial_strided, Shape::quaternomial,   Shape::binary,
                               Shape::linear,   Shape::chain,            Shape::linear_in_order};

void add(Candidates* list, std::initializer_list<Pattern> patterns, double handicap = usual) {
    for (const Pattern& pattern : patterns) list->push_back({pattern, handicap});
}

// Everything to one and from there to all.
void add_up_and_down(Candidates* list, double handicap) {
    for (const Shape up : up_shapes)
        for (const Shape down : down_shapes) add(list, {both(up, down)}, handicap);
}

void add_exchanges(Candidates* list, Cargo cargo, uint32_t members, double handicap) {
    if (members > most_of_many) return;
    for (const Shape shape :
         {Shape::ring, Shape::pairwise, Shape::everyone, Shape::everyone_by_4, Shape::everyone_by_32, Shape::everyone_by_number})
        add(list, {only(shape, cargo)}, handicap);
}

void add_down(Candidates* list, Cargo cargo) {
    for (const bool relay : {false, true})
        for (const Shape shape : down_shapes) list->push_back({{Shape::none, shape, relay, Cargo::all, cargo}, usual});
}

void add_up(Candidates* list, Cargo cargo) {
    for (const bool relay : {false, true})
        for (const Shape shape : up_shapes) list->push_back({{shape, Shape::none, relay, cargo, Cargo::all}, usual});
    add(list, {only(Shape::linear_ascending, cargo)});
}

// Synchronisations without data, or with little.
Candidates synchronising(uint32_t members) {
    Candidates list;
    add(&list, {only(Shape::dissemination), only(Shape::recursive_doubling)});
    if (members & (members - 1)) add(&list, {only(Shape::fold_upper)});
    add_exchanges(&list, Cargo::all, members, usual);
    if (members <= most_of_many) add(&list, {only(Shape::double_ring)}, unusual);
    add_up_and_down(&list, usual);
    return list;
}

Candidates creation(uint32_t members) {
    Candidates list = synchronising(members);
    for (const Shape down : {Shape::binomial, Shape::few_bytes, Shape::few_bytes_smpi})
        add(&list, {both(Shape::split, down), both(Shape::split_from_tree, down), both(Shape::split_set_up, down)});
    return list;
}

// A synchronisation before the transfers are complete, and one behind.
Candidates fence(uint32_t members) {
    Candidates list = synchronising(members);
    for (Candidate& candidate : list) candidate.pattern.twice = true;
    return list;
}

Candidates allreduce(uint32_t members) {
    Candidates list;
    add(&list, {only(Shape::recursive_doubling), only(Shape::halving_doubling), both(Shape::linear, Shape::binomial),
                both(Shape::binomial, Shape::binomial)});
    if (members <= most_of_many) add(&list, {only(Shape::ring_twice, Cargo::parts), only(Shape::ring_twice_rest, Cargo::parts)});
    add(&list, {only(Shape::dissemination), both(Shape::binary_by_levels, Shape::binomial), both(Shape::binary_by_levels, Shape::binary)},
        unusual);
    if (members & (members - 1)) add(&list, {only(Shape::fold_upper)}, unusual);
    add_exchanges(&list, Cargo::all, members, unusual);
    add_up_and_down(&list, unusual);
    return list;
}

Candidates allgather(uint32_t members) {
    Candidates list;
    add(&list, {only(Shape::doubling_all, Cargo::parts), only(Shape::bruck, Cargo::parts)});
    if (members % 2 == 0) add(&list, {only(Shape::neighbour_exchange, Cargo::parts)});
    add_exchanges(&list, Cargo::parts, members, usual);
    add(&list, {both(Shape::binomial, Shape::binomial, Cargo::parts), both(Shape::linear, Shape::binomial, Cargo::parts),
                both(Shape::linear_ascending, Shape::binomial, Cargo::parts), both(Shape::linear, Shape::binary, Cargo::parts),
                both(Shape::linear, Shape::quaternomial, Cargo::parts), both(Shape::linear, Shape::linear, Cargo::parts),
                both(Shape::binomial, Shape::linear, Cargo::parts), both(Shape::binomial, Shape::binary, Cargo::parts),
                both(Shape::binomial, Shape::quaternomial, Cargo::parts), both(Shape::linear, Shape::chain, Cargo::parts)});
    return list;
}

Candidates alltoall(uint32_t members) {
    Candidates list;
    add(&list, {only(Shape::bruck_exchange, Cargo::parts)});
    add_exchanges(&list, Cargo::parts, members, usual);
    if (members <= most_of_many)
        for (const Shape shape : {Shape::everyone_and_self, Shape::xor_pairwise, Shape::xor_from_self, Shape::pairwise_from_self})
            add(&list, {only(shape, Cargo::parts)});
    add(&list, {only(Shape::dissemination), only(Shape::recursive_doubling)}, unusual);
    return list;
}

Candidates reduce_scatter(uint32_t members) {
    Candidates list;
    add(&list, {only(Shape::doubling_all), only(Shape::halving), only(Shape::butterfly),
                both(Shape::linear, Shape::linear_ascending, Cargo::all, Cargo::parts),
                both(Shape::linear, Shape::linear, Cargo::all, Cargo::parts),
                both(Shape::binomial, Shape::linear, Cargo::all, Cargo::parts),
                both(Shape::binomial, Shape::binomial, Cargo::all, Cargo::parts),
                both(Shape::linear, Shape::binomial, Cargo::all, Cargo::parts), only(Shape::recursive_doubling)});
    add_exchanges(&list, Cargo::theirs, members, usual);
    add(&list, {both(Shape::binary_by_levels, Shape::linear, Cargo::all, Cargo::parts), only(Shape::dissemination)}, unusual);
    return list;
}

Candidates broadcast() {
    Candidates list;
    add_down(&list, Cargo::all);
    add(&list, {{.down = Shape::scatter_ring}, {.down = Shape::scatter_doubling}});
    add(&list, {{.down = Shape::linear_ascending}, {.down = Shape::binary_by_levels}}, unusual);
    return list;
}

Candidates scatter() {
    Candidates list;
    add_down(&list, Cargo::parts);
    add(&list, {{.down = Shape::binomial_ascending, .cargo_down = Cargo::parts},
                {.down = Shape::linear_by_turns, .cargo_down = Cargo::parts},
                {.down = Shape::linear_ascending, .cargo_down = Cargo::parts},
                {.down = Shape::linear_in_order, .cargo_down = Cargo::parts}});
    return list;
}

Candidates reduction() {
    Candidates list;
    add_up(&list, Cargo::all);
    add(&list, {only(Shape::halving_gather), only(Shape::binary_by_levels), only(Shape::two_chains_a_pair), only(Shape::linear_descending)});
    return list;
}

Candidates gather() {
    Candidates list;
    add_up(&list, Cargo::parts);
    return list;
}

Candidates prefix(uint32_t members) {
    Candidates list;
    add(&list, {{.down = Shape::chain}, only(Shape::recursive_doubling)});
    if (members <= most_of_many) add(&list, {only(Shape::everyone_above)});
    return list;
}

}  // namespace

bool varies_by_member(uint8_t operation) {
    return operation == OTF2_COLLECTIVE_OP_ALLGATHERV || operation == OTF2_COLLECTIVE_OP_ALLTOALLV ||
           operation == OTF2_COLLECTIVE_OP_ALLTOALLW || operation == OTF2_COLLECTIVE_OP_REDUCE_SCATTER;
}

bool has_sizes_by_member(uint8_t operation) {
    return operation == OTF2_COLLECTIVE_OP_ALLGATHERV || operation == OTF2_COLLECTIVE_OP_REDUCE_SCATTER || has_sizes_by_root(operation) ||
           has_sizes_by_pair(operation);
}

bool has_sizes_by_root(uint8_t operation) {
    return operation == OTF2_COLLECTIVE_OP_GATHERV || operation == OTF2_COLLECTIVE_OP_SCATTERV;
}

bool has_sizes_by_pair(uint8_t operation) {
    return operation == OTF2_COLLECTIVE_OP_ALLTOALLV;
}

Waits structural_waits(uint8_t operation, Waits waits) {
    return operation == operation_finalize || operation == operation_window_free || varies_by_member(operation) ? Waits::n_to_n : waits;
}

uint64_t data_of(uint8_t operation, uint64_t size, uint32_t members) {
    switch (operation) {
        case OTF2_COLLECTIVE_OP_ALLREDUCE:
            return size / members;
        case OTF2_COLLECTIVE_OP_GATHER:
        case OTF2_COLLECTIVE_OP_SCATTER:
            return size * members;
        case OTF2_COLLECTIVE_OP_SCATTERV:
            return size == 0 ? CollectiveKind::unknown : size;
        case OTF2_COLLECTIVE_OP_GATHERV:
            return CollectiveKind::unknown;
        default:
            return varies_by_member(operation) ? CollectiveKind::unknown : size;
    }
}

static Candidates known(const CollectiveKind& kind, uint32_t members) {
    switch (kind.operation) {
        case OTF2_COLLECTIVE_OP_ALLREDUCE:
            return allreduce(members);
        case OTF2_COLLECTIVE_OP_ALLGATHER:
        case OTF2_COLLECTIVE_OP_ALLGATHERV:
            return allgather(members);
        case OTF2_COLLECTIVE_OP_ALLTOALL:
        case OTF2_COLLECTIVE_OP_ALLTOALLV:
        case OTF2_COLLECTIVE_OP_ALLTOALLW:
            return alltoall(members);
        case OTF2_COLLECTIVE_OP_REDUCE_SCATTER:
        case OTF2_COLLECTIVE_OP_REDUCE_SCATTER_BLOCK:
            return reduce_scatter(members);
        case OTF2_COLLECTIVE_OP_BCAST:
            return broadcast();
        case OTF2_COLLECTIVE_OP_SCATTER:
        case OTF2_COLLECTIVE_OP_SCATTERV:
            return scatter();
        case OTF2_COLLECTIVE_OP_REDUCE:
            return reduction();
        case OTF2_COLLECTIVE_OP_GATHER:
        case OTF2_COLLECTIVE_OP_GATHERV:
            return gather();
        case OTF2_COLLECTIVE_OP_CREATE_HANDLE:
            return creation(members);
        case operation_fence:
            return fence(members);
        case operation_window_free: {
            Candidates list = synchronising(members);
            const Candidates twice = fence(members);
            list.insert(list.end(), twice.begin(), twice.end());
            return list;
        }
        default:
            if (kind.waits == Waits::prefix) return prefix(members);
            return kind.waits == Waits::n_to_n ? synchronising(members) : Candidates{};
    }
}

std::vector<Candidate> candidates(const CollectiveKind& kind, uint32_t members, Library library) {
    const double decided_handicap = library == Library::unknown ? 0.8 : 0.6;
    Candidates list = known(kind, members);
    const std::vector<Pattern> rules = decided(library, kind, members);
    for (const Pattern& pattern : rules) {
        auto found = std::find_if(list.begin(), list.end(), [&](const Candidate& candidate) { return candidate.pattern == pattern; });
        if (found == list.end()) found = list.insert(list.end(), Candidate{pattern});
        found->handicap = decided_handicap;
        found->decided = true;
    }
    std::stable_partition(list.begin(), list.end(), [](const Candidate& candidate) { return candidate.decided; });
    return list;
}

constexpr int64_t all_eager = 1'000'000'000;
constexpr double always_eager = 512;  // bytes

static int64_t millionths(double share) {
    return static_cast<int64_t>(std::ceil(share * 1e6));
}

// Where members' parts differ there are many lengths: limits between those of them that lie furthest apart.
static std::vector<int64_t> eager_limits(const Schedule& schedule, const std::vector<const BlockSizes*>& sizes, size_t most_gaps) {
    constexpr size_t most_samples = 8;
    std::set<double> shares;
    for (size_t i = 0; i < std::min(sizes.size(), most_samples); ++i)
        for (uint32_t message = 0; message < schedule.shares.size(); ++message) shares.insert(sizes[i]->share(schedule, message));
    std::vector<int64_t> limits{all_eager};
    if (shares.empty() || *shares.rbegin() * BlockSizes::unit <= always_eager) return limits;
    limits.push_back(0);
    std::vector<std::pair<double, double>> gaps;  // how much longer the next one is, negative; share
    for (auto share = shares.begin(); std::next(share) != shares.end(); ++share)
        if (*std::next(share) * BlockSizes::unit > always_eager) gaps.emplace_back(-*std::next(share) / std::max(*share, 1e-9), *share);
    std::sort(gaps.begin(), gaps.end());
    if (gaps.size() > most_gaps) gaps.resize(most_gaps);
    for (const auto& [times, share] : gaps) limits.push_back(millionths(share));
    return limits;
}

std::vector<int64_t> eager_limits(const Pattern& pattern, const CollectiveKind& kind, uint32_t members,
                                  const std::vector<const BlockSizes*>& sizes) {
    constexpr size_t most = 8;  // thresholds between the shares that occur
    const Schedule& of = schedule(pattern, members, 0, false);
    const size_t most_gaps = !has_sizes_by_pair(kind.operation) ? 6 : members <= 16 ? 1 : 0;
    if (!sizes.empty()) return eager_limits(of, sizes, most_gaps);
    std::vector<int64_t> limits{all_eager};
    const std::vector<double>& shares = of.distinct;
    if (shares.empty() || kind.data == 0) return limits;
    const double data = kind.data == CollectiveKind::unknown ? 1e12 : static_cast<double>(kind.data);
    if (shares.back() * data <= always_eager) return limits;
    limits.push_back(0);
    const auto long_enough = [&](double share) { return share * data > always_eager; };
    const auto next = std::find_if(shares.begin() + 1, shares.end(), long_enough);  // whose predecessor is the first threshold
    const auto thresholds = static_cast<size_t>(shares.end() - next), step = std::max<size_t>(1, (thresholds + most - 1) / most);
    for (size_t i = shares.size() - thresholds; i < shares.size(); i += step) limits.push_back(millionths(shares[i - 1]));
    return limits;
}

static bool several_at_once(const Schedule& schedule) {
    const auto any = [](uint32_t) { return true; };
    std::vector<uint32_t> received;
    for (const auto& steps : schedule.steps)
        for (size_t at = 0; at < steps.size(); ++at) {
            if (steps[at].kind == Schedule::Kind::send && goes_on_sending(steps, at, any)) return true;
            if (steps[at].kind != Schedule::Kind::receive) continue;
            receives_on(steps, at, any, &received);
            if (received.size() > 1) return true;
        }
    return false;
}

bool long_enough_to_share(const Pattern& pattern, const CollectiveKind& kind, uint32_t members,
                          const std::vector<const BlockSizes*>& sizes) {
    constexpr uint64_t least_bytes = 1024;  // shorter messages are under way too short a time to count
    if (members > most_members_in_pairs) return false;
    const Schedule& of = schedule(pattern, members, 0, false);
    const auto long_enough = [&](double share, uint64_t all) { return share * static_cast<double>(all) >= least_bytes; };
    bool any = false;
    if (sizes.empty()) {
        any = kind.data == CollectiveKind::unknown || (!of.distinct.empty() && long_enough(of.distinct.back(), kind.data));
    } else {
        for (const BlockSizes* its : sizes)
            for (uint32_t message = 0; message < of.shares.size() && !any; ++message)
                any = long_enough(its->share(of, message), BlockSizes::unit);
    }
    return any && several_at_once(of);
}

}  // namespace polter::replay
