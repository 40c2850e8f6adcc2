// SPDX-License-Identifier: BSD-3-Clause
// Which calls are one collective: the k-th on a communicator of each member (MPI-4.0, section 6.1), counted apart for blocking and
// non-blocking ones, which never match each other.
#include <algorithm>

#include "engine.hpp"

namespace polter::replay {

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
    Process& own = process(thread);
    auto& counters = arrival.nonblocking ? own.nonblocking_collectives : own.collectives;
    // Starting and ending are not on the communicator: they must not shift what is.
    const bool outside = arrival.operation == operation_init || arrival.operation == operation_finalize;
    const uint64_t ordinal = outside ? 0 : ++counters[arrival.comm];
    const uint64_t key = outside ? uint64_t{arrival.operation} << 32 : arrival.comm;
    Collective*& slot = collectives_[{key, ordinal, arrival.nonblocking}];
    if (!slot) {
        slot = collective_pool_.take();
        auto members = std::move(slot->members);
        auto noise = std::move(slot->noise);
        auto waiting = std::move(slot->waiting);
        *slot = Collective{};
        slot->members = std::move(members);
        slot->noise = std::move(noise);
        slot->waiting = std::move(waiting);
        slot->members.assign(comm->ranks.size() + comm->remote.size(), {});
        slot->noise.clear();
        slot->waiting.clear();
        slot->key_comm = key;
        slot->key_sequence = ordinal;
        slot->nonblocking = arrival.nonblocking;
        slot->operation = arrival.operation;
        slot->waits = arrival.nonblocking ? Waits::for_all_likely : collective_waits(arrival.operation);
        slot->root = arrival.root;
        slot->last_enter = INT64_MIN / 4;
        slot->last_arrival = lane_pool_.take();
        std::fill_n(slot->last_arrival, lanes_.count, INT64_MIN / 4);
    }
    Collective* collective = slot;
    *member = static_cast<uint32_t>(place);
    Collective::Member& mine = collective->members[*member];
    if (mine.thread) {  // two threads of one process in one collective: not to be told apart
        count(Flaw::uncertain_order);
        return nullptr;
    }
    mine.thread = &thread;
    mine.enter = mine.latest = arrival.enter;
    mine.leave = arrival.leave;
    collective->size = std::max(collective->size, arrival.size);
    ++collective->arrived;
    const bool root = *member == collective->root;
    if (root) collective->root_came = true;
    const bool each = collective->waits == Waits::for_all_likely || collective->waits == Waits::for_lower;
    if (each) mine.arrival = lane_pool_.take();
    if (each)
        for (size_t i = 0; i < lanes_.count; ++i) mine.arrival[i] = arrival.enter - arrival.delay[i];
    if (collective->waits != Waits::for_root || root) {
        collective->last_enter = std::max(collective->last_enter, arrival.enter);
        for (size_t i = 0; i < lanes_.count; ++i)
            collective->last_arrival[i] = std::max(collective->last_arrival[i], arrival.enter - arrival.delay[i]);
    }
    if (arrival.pieces)
        for (const NoisePiece& piece : *arrival.pieces) collective->noise.push_back({piece, *member});
    const bool each_matters = collective->waits == Waits::for_lower || collective->nonblocking;
    if (collective->arrived == collective->members.size() || root || each_matters) wake_waiting(collective);
    return collective;
}

void Engine::wake_waiting(Collective* collective) {
    for (Thread* waiting : collective->waiting) wake(waiting);
    collective->waiting.clear();
}

void Engine::member_done(Collective* collective) {
    if (++collective->finished < collective->members.size()) return;
    collectives_.erase({collective->key_comm, collective->key_sequence, collective->nonblocking});
    for (Collective::Member& member : collective->members) {
        lane_pool_.give(member.arrival);
        member.arrival = nullptr;
    }
    lane_pool_.give(collective->last_arrival);
    lane_pool_.give(collective->held);
    collective_pool_.give(collective);
}

}  // namespace polter::replay
