// SPDX-License-Identifier: BSD-3-Clause
// Which calls form one collective: the k-th collective of each member on a communicator (MPI-4.0, section 6.1). Blocking and non-blocking
// collectives never match and are counted separately.
#include <otf2/otf2.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "engine.hpp"

namespace polter::replay {

// Also passed where the trace does not record when in a call noise hit: what the algorithm does not explain may then be noise.
static const std::vector<NoisePiece> no_noise;

// Whether its algorithm depends on what each member contributes or gets: then it is followed once all have come.
static bool has_sizes_by_member(const Collective& collective, const Faults& faults) {
    const bool left_out = collective.members.size() > most_members_in_pairs || faults.exchange_of_equals;
    if (has_sizes_by_pair(collective.operation) && left_out) return false;
    if (has_sizes_by_root(collective.operation) && faults.roots_exchange_equals) return false;
    return !collective.nonblocking && replay::has_sizes_by_member(collective.operation);
}

static bool is_rooted(Waits waits) {
    return waits == Waits::one_to_n || waits == Waits::n_to_one;
}

static Waits structural_waits(const Collective& collective) {
    return structural_waits(collective.operation, collective.waits);
}

static uint32_t structural_root(const Collective& collective) {
    return !is_rooted(structural_waits(collective)) || collective.root >= collective.members.size() ? 0 : collective.root;
}

static BlockSizes sizes_by_member(const Collective& collective, const Faults& faults) {
    if (!has_sizes_by_member(collective, faults)) return {};
    std::vector<uint64_t> bytes, others;
    for (const Collective::Member& member : collective.members) {
        bytes.push_back(member.part);
        others.push_back(member.whole);
    }
    if (has_sizes_by_pair(collective.operation)) return BlockSizes::of_pairs(bytes, others);
    if (has_sizes_by_root(collective.operation)) return {bytes, 0, structural_root(collective)};
    return {bytes, *std::max_element(others.begin(), others.end())};
}

// What the members of a fence have begun, as it concerns two members each.
template <class Each>
static void each_transfer(const Collective& collective, uint32_t member, Each each) {
    for (const BegunTransfer& one : collective.members[member].transfers) {
        if (one.target == member || one.target >= collective.members.size()) continue;
        const double share = static_cast<double>(one.bytes) / static_cast<double>(BlockSizes::unit);
        each(one, MemberTransfer{one.comes ? one.target : member, one.comes ? member : one.target, one.begin, share});
    }
}

LaneVector Engine::approximated_time(int64_t time, const int64_t* delay) {
    LaneVector vector = lane_pool_.take();
    int64_t* const to = vector;
    for (size_t i = 0, lanes = lanes_.count; i < lanes; ++i) to[i] = time - delay[i];
    return vector;
}

Collective* Engine::arrive(Thread& thread, const Arrival& arrival, uint32_t* member) {
    const Communicator* comm = communicator(arrival.comm);
    if (!comm) count(Flaw::unknown_communicator);
    if (!comm || comm->self || comm->ranks.size() + comm->remote.size() <= 1) return nullptr;
    auto& places = members_[arrival.comm];
    if (places.empty()) {
        places.assign(processes_.size(), no_rank);
        int32_t place = 0;
        for (const auto* group : {&comm->ranks, &comm->remote})
            for (const int32_t rank : *group) {
                if (rank >= 0) places[static_cast<size_t>(rank)] = place;
                ++place;
            }
    }
    const int32_t place = places[static_cast<size_t>(thread.rank)];
    if (place == no_rank) {
        count(Flaw::unknown_communicator);
        return nullptr;
    }
    if (peers_ && !thread.remote) peers_->ship_arrival(thread, arrival);
    Process& own = process(thread);
    auto& counters = arrival.nonblocking ? own.nonblocking_collectives : own.collectives;
    // MPI_Init and MPI_Finalize are no operations on the communicator, so they must not shift its count.
    const bool outside = arrival.operation == operation_init || arrival.operation == operation_finalize;
    constexpr uint64_t windows = uint64_t{1} << 41, files = uint64_t{1} << 42;
    uint64_t key = arrival.comm;
    if (outside) key = uint64_t{arrival.operation} << 32;
    if (arrival.window != UINT32_MAX) key = windows | arrival.window;
    if (arrival.operation == operation_file) key |= files;
    const uint64_t ordinal = outside ? 0 : ++counters[key];
    const Partition* partition = nullptr;
    if (arrival.operation == OTF2_COLLECTIVE_OP_CREATE_HANDLE && !arrival.nonblocking) {
        const auto creations = archive_.definitions().creations.find(arrival.comm);
        const size_t number = own.creations[arrival.comm]++;
        if (creations != archive_.definitions().creations.end() && number < creations->second.size())
            partition = interned(creations->second[number]);
    }
    Collective*& slot = collectives_[{key, ordinal, arrival.nonblocking}];
    if (!slot) {
        slot = collective_pool_.take();
        auto members = std::move(slot->members);
        auto noise = std::move(slot->noise);
        auto waiting = std::move(slot->waiting);
        auto instance = std::move(slot->instance);
        auto watched = std::move(slot->watched);
        *slot = Collective{};
        slot->watched = std::move(watched);
        slot->members = std::move(members);
        slot->noise = std::move(noise);
        slot->waiting = std::move(waiting);
        slot->instance = std::move(instance);
        slot->members.resize(comm->ranks.size() + comm->remote.size());
        slot->noise.clear();
        slot->waiting.clear();
        slot->key_comm = key;
        slot->key_sequence = ordinal;
        slot->comm = arrival.comm;
        slot->own_members = peers_ ? peers_->own_members(arrival.comm) : static_cast<uint32_t>(slot->members.size());
        slot->nonblocking = arrival.nonblocking;
        slot->operation = arrival.operation;
        slot->waits = arrival.nonblocking ? Waits::n_to_n_likely : collective_waits(arrival.operation);
        if (!learning_ && model_.never_waits(arrival.operation) && !faults_.freeing_waits) slot->waits = Waits::for_nobody;
        slot->root = arrival.root;
        slot->awaits_all = !learning_ && is_rooted(slot->waits) && has_sizes_by_member(*slot, faults_);
        slot->partition = partition;
        slot->last_enter = INT64_MIN / 4;
        slot->last_arrival = lane_pool_.filled(INT64_MIN / 4);
    }
    Collective* collective = slot;
    *member = static_cast<uint32_t>(place);
    Collective::Member& mine = collective->members[*member];
    if (mine.thread) {  // two threads of one process in one collective: cannot be told apart
        if (!thread.remote) count(Flaw::uncertain_order);
        return nullptr;
    }
    mine.thread = &thread;
    mine.enter = mine.latest = arrival.enter;
    mine.leave = arrival.leave;
    mine.size = arrival.size;
    mine.part = arrival.part;
    mine.whole = arrival.whole;
    if (arrival.transfers) mine.transfers = std::move(*arrival.transfers);
    for (size_t i = 0; collective->partition && i < collective->partition->size(); ++i) {  // what a creation costs depends on that
        const auto& group = (*collective->partition)[i];
        if (std::find(group.begin(), group.end(), *member) != group.end()) mine.size = group.size();
    }
    if (recorder_) watch_arrival(*collective, *member, arrival);
    if (injection_ && !(thread.remote && faults_.mirrors_without_noise))
        mine.injected = injection_->copies(thread.rank, arrival.enter, arrival.delay, thread.remote);
    ++collective->arrived;
    const bool root = *member == collective->root;
    const bool each = collective->nonblocking || has_sizes_by_member(*collective, faults_) ||
                      (collective->waits != Waits::n_to_n && collective->waits != Waits::for_nobody);
    if (each) mine.arrival = approximated_time(arrival.enter, arrival.delay);
    if (root) collective->root_came = true;
    if (collective->waits != Waits::one_to_n || root) {
        collective->last_enter = std::max(collective->last_enter, arrival.enter);
        raise_to_time(collective->last_arrival, arrival.enter, arrival.delay, lanes_.count);
    }
    if (arrival.pieces)
        for (const NoisePiece& piece : *arrival.pieces) collective->noise.push_back({piece, *member});
    const bool each_matters = collective->waits == Waits::prefix || collective->nonblocking;
    if (collective->arrived == collective->members.size() || root || each_matters) wake_waiting(collective);
    if (!learning_)
        follow_structure(*collective, *member, arrival);
    else if (!arrival.nonblocking && collective->arrived == collective->members.size())
        learn_structure(*collective);
    return collective;
}

void Engine::watch_arrival(Collective& collective, uint32_t member, const Arrival& arrival) {
    Collective::Member& mine = collective.members[member];
    mine.node = mine.fold_node = arrival.node;
    mine.place = mine.thread->place();
    const size_t count = recorder_->watched();
    collective.watched.resize(collective.members.size() * count);
    for (size_t w = 0; w < count; ++w) collective.watched[member * count + w] = arrival.enter - arrival.delay[recorder_->lane(w)];
}

void Engine::resume(Collective& collective, uint32_t member, const Thread& thread, uint8_t operation, uint32_t root, uint64_t size,
                    bool alone) {
    Collective::Member& mine = collective.members[member];
    const auto members = static_cast<uint32_t>(collective.members.size());
    if (mine.resumed) return;
    mine.resumed = true;
    mine.resume = thread.enter;
    mine.leave = thread.leave;
    mine.size = size;
    mine.alone = alone;
    ++collective.resumed;
    if (peers_ && !thread.remote) peers_->ship_resume(collective, member, thread, operation, root, size, alone);
    collective.operation = operation;
    collective.root = root;
    collective.waits = collective_waits(operation);
    collective.root_came = root < members && collective.members[root].thread;
    if (learning_) {
        for (const NoisePiece& piece : thread.pieces) collective.noise.push_back({piece, member, true});
        if (collective.resumed == members) learn_structure(collective);
        return;
    }
    if (!collective.structured) {
        begin_structure(collective, member, size);
        follow_those_who_came(collective);
    }
    if (!collective.instance.active()) return;
    const LaneVector time = approximated_time(thread.enter, thread.delay);
    wake_members(collective, collective.instance.resume({member, thread.index, thread.place(), thread.enter_node}, thread.enter, time,
                                                        facts_.counter_only ? no_noise : thread.pieces));
    for (const NoisePiece& piece : thread.pieces) collective.noise.push_back({piece, member, true});
}

// The root's size may sum what it exchanges with all members, so its view is a class of its own. Where sizes may differ between members
// (v-forms) all sizes are one class.
static CostClass structure_class(const Collective& collective, uint64_t size, bool root) {
    constexpr uint16_t apart = 0x100;
    if (collective.operation == OTF2_COLLECTIVE_OP_GATHERV || collective.operation == OTF2_COLLECTIVE_OP_SCATTERV ||
        collective.operation == OTF2_COLLECTIVE_OP_CREATE_HANDLE || varies_by_member(collective.operation))
        size = 0;
    return {CostKind::collective_tail, true, root, static_cast<uint16_t>(collective.operation | (collective.nonblocking ? apart : 0)),
            size};
}

// Where the sizes of all members are known, or the root of a scatter tells what it sends in all, they may tell more than one algorithm
// apart, or calls for other data: a class for each octave of what all have together.
static std::optional<CostClass> class_by_total(const Collective& collective, const Faults& faults) {
    if (faults.sizes_together || has_sizes_by_pair(collective.operation)) return {};  // the latter's algorithms take long to look at
    uint64_t total = 0;
    if (collective.operation == OTF2_COLLECTIVE_OP_SCATTERV && !collective.nonblocking && collective.root < collective.members.size() &&
        collective.members[collective.root].thread)
        total = collective.members[collective.root].size;
    else if (collective.arrived == collective.members.size() && has_sizes_by_member(collective, faults))
        total = sizes_by_member(collective, faults).total();
    else
        return {};
    CostClass of = structure_class(collective, 0, false);
    of.size = std::bit_floor(std::max<uint64_t>(1, total));
    return of;
}

// In scans a member's recorded size sums its exchange with all others, differently for each rank: this is the size of the data alone. So it
// is for the root of a non-blocking collective, where any member may be the first to complete.
static uint64_t class_size(const Collective& collective, uint32_t member, uint64_t size) {
    const uint64_t above = collective.members.size() - member, most = std::max<uint64_t>(above, member + 1);
    if (collective.nonblocking && is_rooted(collective.waits) && member == collective.root) return size / collective.members.size();
    return collective.waits == Waits::prefix ? size / most : size;
}

// Whether members see a non-blocking collective as different classes: then its sizes cannot tell classes apart, as the first member to
// complete would decide, and the order of reading must not matter.
static bool sizes_differ(const Collective& collective) {
    if (!collective.nonblocking || structural_waits(collective) == Waits::n_to_n) return false;
    const auto key = [&](uint32_t member) {
        return structure_class(collective, class_size(collective, member, collective.members[member].size), false).key();
    };
    for (uint32_t member = 1; member < collective.members.size(); ++member)
        if (key(member) != key(0)) return true;
    return false;
}

void Engine::learn_structure(Collective& collective) {
    const auto members = static_cast<uint32_t>(collective.members.size());
    const Waits waits = structural_waits(collective);
    const auto early = [&](const Collective::Member& member) { return member.leave < collective.last_enter; };
    const auto anyone_early = [&] { return std::any_of(collective.members.begin(), collective.members.end(), early); };
    if (collective.operation == OTF2_COLLECTIVE_OP_DESTROY_HANDLE && anyone_early())
        return model_.learn_apart(structure_class(collective, 0, false), members);
    if (!has_structure(waits)) return;
    if (peers_ && !peers_->first_is_own(collective.comm)) return;  // one process learns from it: that of the first member
    const bool rooted = is_rooted(waits);
    const uint32_t root = !rooted || collective.root >= members ? 0 : collective.root, other = (root + 1) % members;
    const bool any_size = sizes_differ(collective);
    const auto seen_by = [&](uint32_t member, bool as_root) {
        const uint64_t size = any_size ? 0 : class_size(collective, member, collective.members[member].size);
        return structure_class(collective, size, as_root);
    };
    const CostClass of = seen_by(other, false), by_root = seen_by(root, rooted);
    const CallNumber number{collective.key_comm, collective.key_sequence};
    if ((varies_by_member(collective.operation) || collective.operation == operation_window_free) && anyone_early())
        return model_.learn_apart(of, members);
    const std::optional<CostClass> by_total = class_by_total(collective, faults_);
    const bool wanted = model_.wants_instance(of, members, number);
    const bool wanted_by_total = by_total && model_.wants_instance(*by_total, members, number);
    if (!wanted && !wanted_by_total) return;
    InstanceSample sample;
    sample.root = root;
    sample.partition = collective.partition;
    sample.sizes = sizes_by_member(collective, faults_);
    sample.noise.resize(members);
    for (const Collective::Member& member : collective.members) {
        if (waits == Waits::n_to_n && member.leave < collective.last_enter) return;
        if (collective.nonblocking && !(member.resumed && member.alone)) return;
        sample.enter.push_back(member.enter);
        sample.leave.push_back(member.leave);
        if (collective.nonblocking) sample.resume.push_back(member.resume);
    }
    for (const Collective::Noise& noise : collective.noise) sample.noise[noise.member].push_back(noise.piece);
    for (auto& list : sample.noise)
        std::sort(list.begin(), list.end(), [](const NoisePiece& a, const NoisePiece& b) { return a.begin < b.begin; });
    std::vector<MemberTransfer> transfers;
    for (uint32_t member = 0; member < members; ++member)
        each_transfer(collective, member, [&](const BegunTransfer&, const MemberTransfer& its) { transfers.push_back(its); });
    sample.transfers = awaited_transfers(transfers, members);
    if (wanted_by_total) model_.learn_instance(*by_total, *by_total, members, waits, number, sample);
    if (wanted) model_.learn_instance(of, by_root, members, waits, number, std::move(sample), any_size);
}

const LearnedStructure* Engine::learned_structure(const Collective& collective, uint32_t member, uint64_t size) const {
    const auto members = static_cast<uint32_t>(collective.members.size());
    const Waits waits = structural_waits(collective);
    if (!has_structure(waits)) return nullptr;
    const bool by_root = is_rooted(waits) && member == structural_root(collective);
    const LearnedStructure* learned = model_.structure(structure_class(collective, class_size(collective, member, size), by_root), members);
    if (!learned && collective.nonblocking) learned = model_.structure(structure_class(collective, 0, by_root), members);
    const auto by_total = class_by_total(collective, faults_);
    const LearnedStructure* other = by_total ? model_.structure(*by_total, members) : nullptr;
    const auto nearer = [&] { return !learned || !learned->structure || 2 * other->structure->error <= learned->structure->error; };
    return other && other->structure && nearer() ? other : learned;
}

void Engine::begin_structure(Collective& collective, uint32_t member, uint64_t size) {
    const auto members = static_cast<uint32_t>(collective.members.size());
    collective.structured = true;
    const LearnedStructure* learned = learned_structure(collective, member, size);
    if (!learned) return;
    const uint32_t root = structural_root(collective);
    // Without a known algorithm, injected noise would delay only its own rank, which is the least likely of all.
    const bool likely = injection_ && !learned->structure;
    const bool sets_up =
        !faults_.set_ups_stay && learned->set_ups.contains(CallNumber{collective.key_comm, collective.key_sequence}.ordinal());
    const std::optional<Structure>& structure = sets_up ? learned->set_up : likely ? learned->likeliest : learned->structure;
    if (sets_up && facts_.counter_only) return;  // long calls hold much noise, and where in its hundreds of steps that hit nobody knows
    if (!structure && learned->likeliest && !faults_.unexplained_is_certain)
        collective.unexplained = std::max(static_cast<int64_t>(learned->constant_error), learned->constant_root_error);
    if (!structure) return;
    if (likely) likely_algorithms_.insert(collective.operation);
    collective.instance.begin(*structure, members, root, lanes_, lane_pool_, recorder_, collective.partition,
                              sizes_by_member(collective, faults_));
}

void Engine::wake_members(Collective& collective, const std::vector<uint32_t>& ended) {
    for (const uint32_t member : ended) wake(collective.members[member].thread);
}

static std::vector<InjectedClock>* injected(Collective::Member& member) {
    return member.injected.empty() ? nullptr : &member.injected;
}

// The members that arrived before the algorithm was known. In a non-blocking collective they do the steps that wait for nothing.
void Engine::follow_those_who_came(Collective& collective) {
    if (!collective.instance.active()) return;
    std::vector<NoisePiece> noise;
    for (uint32_t member = 0; member < collective.members.size(); ++member) {
        Collective::Member& its = collective.members[member];
        if (!its.thread || !its.arrival) continue;
        noise.clear();
        for (const Collective::Noise& one : collective.noise)
            if (one.member == member && !facts_.counter_only) noise.push_back(one.piece);
        wake_members(collective, collective.instance.arrive({member, its.thread->index, its.place, its.node, injected(its)}, its.enter,
                                                            its.arrival, noise, collective.nonblocking));
    }
}

// Members may see a collective as different classes (root and others; ranks of a scan). The algorithm is always chosen by the same member,
// and without that member no other one that waits can end.
static bool decides_structure(const Collective& collective, uint32_t member) {
    const Waits waits = structural_waits(collective);
    if (waits == Waits::one_to_n) return member == collective.root;
    if (waits == Waits::prefix) return member == 0;
    return waits != Waits::n_to_one || member != collective.root;
}

void Engine::follow_structure(Collective& collective, uint32_t member, const Arrival& arrival) {
    const bool by_sizes = has_sizes_by_member(collective, faults_);
    if (by_sizes && collective.arrived < collective.members.size()) return;
    if (!collective.structured && !arrival.nonblocking && (by_sizes || decides_structure(collective, member))) {
        begin_structure(collective, member, arrival.size);
        if (by_sizes || structural_waits(collective) != Waits::n_to_n) return follow_those_who_came(collective);
    }
    if (!collective.instance.active()) return;
    Collective::Member& mine = collective.members[member];
    each_transfer(collective, member, [&](const BegunTransfer& one, const MemberTransfer& its) {
        collective.instance.add({its.from, its.to, its.begin, its.share, approximated_time(one.begin, one.delay), one.node});
    });
    const LaneVector time = approximated_time(arrival.enter, arrival.delay);
    wake_members(collective,
                 collective.instance.arrive({member, mine.thread->index, mine.place, mine.node, injected(mine)}, arrival.enter, time,
                                            arrival.pieces && !facts_.counter_only ? *arrival.pieces : no_noise, arrival.nonblocking));
}

void Engine::wake_waiting(Collective* collective) {
    for (Thread* waiting : collective->waiting) wake(waiting);
    collective->waiting.clear();
}

void Engine::member_done(Collective* collective) {
    ++collective->finished;
    end_collective(collective);
}

void Engine::end_collective(Collective* collective) {
    const size_t members = collective->members.size();
    if (collective->finished < collective->own_members || collective->arrived < members) return;
    if (collective->nonblocking && collective->resumed < members) return;
    collectives_.erase({collective->key_comm, collective->key_sequence, collective->nonblocking});
    collective->members.clear();
    collective->instance.clear();
    collective->last_arrival.reset();
    collective->held.reset();
    collective_pool_.give(collective);
}

}  // namespace polter::replay
