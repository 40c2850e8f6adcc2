// SPDX-License-Identifier: BSD-3-Clause
#include "exchange.hpp"

#include <algorithm>

#include "replay/rules/rma/locks.hpp"

namespace polter::replay {

std::vector<int> spread(const Archive& archive, int processes) {
    const Definitions& definitions = archive.definitions();
    std::vector<uint64_t> weight(static_cast<size_t>(std::max(definitions.ranks, 1)), 0);
    uint64_t all = 0;
    for (size_t i = 0; i < definitions.locations.size(); ++i) {
        const Location& location = definitions.locations[i];
        if (location.rank < 0) continue;
        const uint64_t bytes = archive.event_file_bytes(i) + 1;
        weight[static_cast<size_t>(location.rank)] += bytes;
        all += bytes;
    }
    std::vector<int> of_rank(weight.size(), 0);
    uint64_t before = 0;
    for (size_t rank = 0; rank < weight.size(); ++rank) {  // the owner is the process in whose share the middle of the rank's bytes lies
        const auto middle = static_cast<unsigned __int128>(before + weight[rank] / 2) * static_cast<unsigned>(processes);
        of_rank[rank] = std::min(processes - 1, static_cast<int>(middle / std::max<uint64_t>(all, 1)));
        before += weight[rank];
    }
    std::vector<int> owner;
    for (const Location& location : definitions.locations)
        owner.push_back(location.rank < 0 ? 0 : of_rank[static_cast<size_t>(location.rank)]);
    return owner;
}

Exchange::Exchange(Engine& engine, Group& group) : engine_(engine), group_(group), owner_(spread(engine.archive_, group.size())) {
    owner_of_rank_.assign(engine.processes_.size(), 0);
    const auto& locations = engine.archive_.definitions().locations;
    for (size_t i = 0; i < locations.size(); ++i)
        if (locations[i].rank >= 0) owner_of_rank_[static_cast<size_t>(locations[i].rank)] = owner_[i];
}

const Exchange::Audience& Exchange::audience(uint32_t comm) {
    const auto [place, fresh] = audiences_.try_emplace(comm);
    Audience& audience = place->second;
    if (!fresh) return audience;
    audience.first = -1;
    std::vector<bool> has(static_cast<size_t>(group_.size()), false);
    const Communicator* of = engine_.communicator(comm);
    for (const auto* ranks : {&of->ranks, &of->remote})
        for (const int32_t rank : *ranks) {
            if (rank < 0) continue;
            const int owner = owner_of(rank);
            if (audience.first < 0) audience.first = owner;
            audience.own_members += owner == group_.rank();
            has[static_cast<size_t>(owner)] = true;
        }
    for (int process = 0; process < group_.size(); ++process)
        if (has[static_cast<size_t>(process)] && process != group_.rank()) audience.others.push_back(process);
    return audience;
}

Bytes& Exchange::begin(int process, Kind kind) {
    Bytes& bytes = group_.to(process);
    bytes.put(kind);
    return bytes;
}

// ---- to the others -------------------------------------------------------------------------------------------------------------

namespace {

struct SendRecord {
    uint64_t proxy;  // the sender's match, to which the posting is returned; 0: no posting is needed
    uint64_t size;
    uint64_t node, departure_node;
    int64_t time, noise;
    uint32_t thread, comm, tag, partitioned, transfer;
    int32_t destination;
    bool same_host, synchronous, synchronous_mode, moved, queue;
    uint8_t place;
};

struct ArrivalRecord {
    uint64_t size, part, whole, node;
    int64_t enter, leave;
    Place place;
    uint32_t thread, comm, root, window, transfers;
    uint8_t operation;
    bool nonblocking, pieces;
};

struct TransferRecord {
    uint64_t bytes, node;
    int64_t begin;
    uint32_t target;
    bool comes;
};

struct ResumeRecord {
    uint64_t comm, sequence, size, node;
    int64_t enter, leave;
    Place place;
    uint32_t thread, member, root;
    uint8_t operation;
    bool alone;
};

}  // namespace

void Exchange::ship_send(Match& match) {
    const int process = owner_of(match.destination);
    const bool answer = match.users > 1;
    Bytes& bytes = begin(process, Kind::send);
    bytes.put(SendRecord{answer ? reinterpret_cast<uint64_t>(&match) : 0, match.size, match.send_node, match.departure_node,
                         match.send_time, match.send_noise, match.sender->index, match.comm, match.tag, match.partitioned, match.transfer,
                         match.destination, match.same_host, match.synchronous, match.synchronous_mode, match.moved != nullptr,
                         match.queue != nullptr, match.place});
    put_lanes(bytes, match.send_delay);
    if (match.send_noise > 0) put_lanes(bytes, match.send_noise_removed);
    if (match.moved) put_lanes(bytes, match.moved);
    if (match.queue) {
        bytes.put(match.queue->free);
        for (const auto& epochs : match.queue->epochs) bytes.put(epochs);
    }
    group_.written(process, true);
    if (!answer) engine_.release(&match);
}

void Exchange::ship_posting(const Match& match) {
    if (engine_.faults().keep_posting) return;
    const int process = owner_[match.sender->index];
    Bytes& bytes = begin(process, match.refused ? Kind::refused : Kind::posting);
    bytes.put(match.proxy);
    if (!match.refused) {
        bytes.put(match.post_time);
        bytes.put(match.post_node);
        bytes.put(match.posted_node);
        bytes.put(match.post_noise);
        put_lanes(bytes, match.post_delay);
        if (match.post_noise > 0) put_lanes(bytes, match.post_noise_removed);
    }
    group_.written(process, true);
}

void Exchange::ship_arrival(const Thread& thread, const Arrival& arrival) {
    for (const int process : audience(arrival.comm).others) {
        Bytes& bytes = begin(process, Kind::arrival);
        bytes.put(ArrivalRecord{arrival.size, arrival.part, arrival.whole, arrival.node, arrival.enter, arrival.leave, thread.place(),
                                thread.index, arrival.comm, arrival.root, arrival.window,
                                arrival.transfers ? static_cast<uint32_t>(arrival.transfers->size()) : 0, arrival.operation,
                                arrival.nonblocking, arrival.pieces != nullptr});
        put_lanes(bytes, arrival.delay);
        if (arrival.pieces) bytes.put(*arrival.pieces);
        for (size_t i = 0; arrival.transfers && i < arrival.transfers->size(); ++i) {
            const BegunTransfer& one = (*arrival.transfers)[i];
            bytes.put(TransferRecord{one.bytes, one.node, one.begin, one.target, one.comes});
            put_lanes(bytes, one.delay);
        }
        group_.written(process, false);
    }
}

void Exchange::ship_resume(const Collective& collective, uint32_t member, const Thread& thread, uint8_t operation, uint32_t root,
                           uint64_t size, bool alone) {
    for (const int process : audience(collective.comm).others) {
        Bytes& bytes = begin(process, Kind::resume);
        bytes.put(ResumeRecord{collective.key_comm, collective.key_sequence, size, thread.enter_node, thread.enter, thread.leave,
                               thread.place(), thread.index, member, root, operation, alone});
        put_lanes(bytes, thread.delay);
        bytes.put(thread.pieces);
        group_.written(process, false);
    }
}

void Exchange::ship_finished(const Thread& thread) {
    for (int process = 0; process < group_.size(); ++process) {
        if (process == group_.rank()) continue;
        begin(process, Kind::finished).put(thread.index);
        group_.written(process, false);
    }
}

// ---- from the others -----------------------------------------------------------------------------------------------------------

bool Exchange::exchange() {
    group_.flush();
    return group_.deliver([&](int process, const Bytes& records) { take(process, records); });
}

void Exchange::send_awaited() {
    group_.flush(false);
}

void Exchange::take(int process, const Bytes& records) {
    for (Input input(records); !input.empty();) {
        switch (input.get<Kind>()) {
            case Kind::send:
                take_send(process, input);
                break;
            case Kind::posting:
                take_posting(input, false);
                break;
            case Kind::refused:
                take_posting(input, true);
                break;
            case Kind::arrival:
                take_arrival(input);
                break;
            case Kind::resume:
                take_resume(input);
                break;
            case Kind::finished:
                engine_.threads_[input.get<uint32_t>()]->state = Thread::State::finished;
                break;
        }
    }
}

void Exchange::take_send(int, Input& input) {
    const auto record = input.get<SendRecord>();
    Thread& sender = *engine_.threads_[record.thread];
    sender.enter = record.time;
    get_lanes(input, sender.delay);
    Operation operation{
        .kind = Operation::Kind::send, .comm = record.comm, .tag = record.tag, .partitioned = record.partitioned, .size = record.size};
    Match* match = engine_.add_send(sender, *engine_.processes_[static_cast<size_t>(record.destination)].thread, operation);
    match->same_host = record.same_host;
    match->synchronous = record.synchronous;
    match->synchronous_mode = record.synchronous_mode;
    match->send_noise = record.noise;
    match->send_node = record.node;
    match->departure_node = record.departure_node;
    match->proxy = record.proxy;
    match->transfer = record.transfer;
    match->place = record.place;
    if (record.noise > 0) {
        match->send_noise_removed = engine_.lane_pool_.take();
        get_lanes(input, match->send_noise_removed);
    }
    if (record.moved) {
        match->moved = engine_.lane_pool_.take();
        get_lanes(input, match->moved);
    }
    if (record.queue) {
        match->queue = new LockQueue;
        input.get(match->queue->free);
        match->queue->epochs.resize(match->queue->free.size());
        for (auto& epochs : match->queue->epochs) input.get(epochs);
    }
    if (match->proxy && (match->posted || match->refused)) ship_posting(*match);
    engine_.send_is_complete(match);
}

void Exchange::take_posting(Input& input, bool refused) {
    Match* match = reinterpret_cast<Match*>(input.get<uint64_t>());
    match->refused = refused;
    match->posted = !refused;
    if (!refused) {
        match->post_time = input.get<int64_t>();
        match->post_node = input.get<uint64_t>();
        match->posted_node = input.get<uint64_t>();
        match->post_noise = input.get<int64_t>();
        match->post_delay = engine_.lane_pool_.take();
        get_lanes(input, match->post_delay);
        if (match->post_noise > 0) {
            match->post_noise_removed = engine_.lane_pool_.take();
            get_lanes(input, match->post_noise_removed);
        }
    }
    engine_.settle(*match);
    if (Thread* waiting = match->sender_waits) {
        match->sender_waits = nullptr;
        engine_.wake(waiting);
    }
    engine_.release(match);
}

void Exchange::take_arrival(Input& input) {
    const auto record = input.get<ArrivalRecord>();
    Thread& thread = *engine_.threads_[record.thread];
    get_lanes(input, thread.delay);
    if (record.pieces) input.get(thread.pieces);
    if (!engine_.faults().mirrors_nowhere) thread.stand_at(record.place);
    std::vector<BegunTransfer> transfers(record.transfers);
    for (BegunTransfer& one : transfers) {
        const auto its = input.get<TransferRecord>();
        one = {its.target, its.comes, its.bytes, its.begin, engine_.lane_pool_.take(), engine_.faults().mirrors_nowhere ? 0 : its.node};
        get_lanes(input, one.delay);
    }
    uint32_t member = 0;
    Collective* collective =
        engine_.arrive(thread,
                       {record.comm, record.root, record.operation, record.nonblocking, record.size, record.part, record.whole,
                        record.enter, record.leave, thread.delay, record.pieces ? &thread.pieces : nullptr, record.window, &transfers,
                        engine_.faults().mirrors_nowhere ? 0 : record.node},
                       &member);
    if (collective) engine_.end_collective(collective);
}

void Exchange::take_resume(Input& input) {
    const auto record = input.get<ResumeRecord>();
    Thread& thread = *engine_.threads_[record.thread];
    thread.enter = record.enter;
    thread.leave = record.leave;
    thread.enter_node = record.node;
    thread.stand_at(record.place);
    get_lanes(input, thread.delay);
    input.get(thread.pieces);
    const auto found = engine_.collectives_.find({record.comm, record.sequence, true});
    if (found == engine_.collectives_.end()) return;
    engine_.resume(*found->second, record.member, thread, record.operation, record.root, record.size, record.alone);
    engine_.end_collective(found->second);
}

}  // namespace polter::replay
