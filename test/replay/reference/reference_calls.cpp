// SPDX-License-Identifier: BSD-3-Clause
#include "reference_calls.hpp"

#include <otf2/otf2.h>

#include <algorithm>

#include "reference.hpp"

namespace polter::test {

namespace {

using Kind = Record::Kind;

size_t account_of(const TraceSpec& trace, const std::string& name) {
    return static_cast<size_t>(std::find(trace.accounts.begin(), trace.accounts.end(), name) - trace.accounts.begin());
}

}  // namespace

std::vector<size_t> members_of(const TraceSpec& trace, uint32_t comm) {
    std::vector<size_t> members;
    if (comm == 0)
        for (size_t rank = 0; rank < trace.ranks(); ++rank) members.push_back(rank);
    else
        for (const uint64_t rank : trace.comms.at(comm)) members.push_back(static_cast<size_t>(rank));
    return members;
}

Calls::Calls(const TraceSpec& trace, bool last_first) : vertices(trace.ranks()) {
    for (size_t rank = 0; rank < trace.ranks(); ++rank) cut(trace, rank);
    match_messages(trace, last_first);
    match_collectives(trace);
}

// Noise fills the time before its record: durations end where they are recorded.
void Calls::cut(const TraceSpec& trace, size_t rank) {
    Call open;
    int64_t free_from = 0;
    for (const Record& record : trace.records[rank]) {
        if (record.kind == Kind::noise) {
            if (record.time - record.ns < free_from) throw NotCovered("noise overlaps");
            free_from = record.time;
            open.noise.push_back({record.time - record.ns, record.time, account_of(trace, record.name)});
            continue;
        }
        if (record.kind != Kind::enter && record.kind != Kind::leave) {
            open.records.push_back(&record);
            continue;
        }
        const size_t vertex = times.size();
        times.push_back(record.time);
        if (!vertices[rank].empty()) {
            open.to = vertex;
            open.leave = record.time;
            if (record.posted) open.records.push_back(&record);  // a probe tells at its end what it found
            calls.push_back(open);
        }
        vertices[rank].push_back(vertex);
        free_from = record.time;
        open = {};
        open.rank = rank;
        open.from = vertex;
        open.enter = record.time;
        if (record.kind == Kind::enter && record.name.starts_with("MPI_")) open.name = record.name;
    }
}

// The k-th message of a channel goes to the k-th receive posted there (MPI-4.0, section 3.5); a cancelled receive takes none.
void Calls::match_messages(const TraceSpec& trace, bool last_first) {
    struct Channel {
        std::vector<Message*> sent;
        std::vector<std::pair<const Record*, const Call*>> posted;
        std::vector<std::pair<const Record*, size_t>> probed;  // how many receives had been posted before
    };
    std::map<std::tuple<uint32_t, size_t, size_t, int64_t>, Channel> channels;  // communicator, source, destination, tag
    std::map<const Record*, const Record*> completes;                           // … the record that began the request
    std::map<std::pair<size_t, uint64_t>, const Record*> requests;
    for (const Call& call : calls)
        for (const Record* record : call.records) {
            const std::vector<size_t> members = members_of(trace, record->comm);
            const size_t peer = record->peer >= 0 && static_cast<size_t>(record->peer) < members.size()
                                    ? members[static_cast<size_t>(record->peer)]
                                    : SIZE_MAX;
            const std::pair<size_t, uint64_t> request{call.rank, record->request};
            Channel& from_peer = channels[{record->comm, peer, call.rank, record->tag}];
            switch (record->kind) {
                case Kind::send:
                case Kind::isend:
                    message_.push_back({&call, nullptr, record});
                    messages[record] = &message_.back();
                    channels[{record->comm, call.rank, peer, record->tag}].sent.push_back(&message_.back());
                    if (record->kind == Kind::isend) requests[request] = record;
                    break;
                case Kind::recv:
                case Kind::irecv_request:
                    from_peer.posted.emplace_back(record, &call);
                    if (record->kind == Kind::irecv_request) requests[request] = record;
                    break;
                case Kind::irecv:
                case Kind::isend_complete:
                    completes[record] = requests.at(request);
                    break;
                case Kind::cancelled:
                    for (auto& [key, channel] : channels)
                        std::erase_if(channel.posted, [&](const auto& posted) { return posted.first == requests.at(request); });
                    break;
                case Kind::leave:
                    from_peer.probed.emplace_back(record, from_peer.posted.size());
                    break;
                default:
                    break;
            }
        }
    for (auto& [key, channel] : channels) {
        if (channel.posted.size() > channel.sent.size()) throw NotCovered("a receive without its message");
        if (last_first) std::reverse(channel.posted.begin(), channel.posted.end());
        for (size_t i = 0; i < channel.posted.size(); ++i) {
            channel.sent[i]->post = channel.posted[i].second;
            messages[channel.posted[i].first] = channel.sent[i];
        }
        for (const auto& [record, before] : channel.probed) messages[record] = channel.sent.at(before);
    }
    for (const auto& [end, begin] : completes) messages[end] = messages.at(begin);
}

// The k-th collective of each member is one (MPI-4.0, section 6.1), blocking and non-blocking ones counted apart.
void Calls::match_collectives(const TraceSpec& trace) {
    std::map<std::tuple<size_t, uint32_t, bool>, size_t> begun;
    std::map<std::pair<size_t, uint64_t>, const CollectiveCall*> requests;
    for (const Call& call : calls)
        for (const Record* record : call.records) {
            if (record->kind == Kind::collective_complete) collectives[record] = requests.at({call.rank, record->request});
            const bool nonblocking = record->kind == Kind::collective_request;
            if (!nonblocking && record->kind != Kind::collective_end) continue;
            const std::vector<size_t> members = members_of(trace, record->comm);
            CollectiveCall& collective = collective_[{record->comm, nonblocking, begun[{call.rank, record->comm, nonblocking}]++}];
            collective.comm = record->comm;
            collective.nonblocking = nonblocking;
            collective.members.resize(members.size());
            collective.members[static_cast<size_t>(std::find(members.begin(), members.end(), call.rank) - members.begin())] = &call;
            collectives[record] = &collective;
            if (nonblocking) requests[{call.rank, record->request}] = &collective;
        }
    for (const auto& [key, collective] : collective_)
        if (std::count(collective.members.begin(), collective.members.end(), nullptr) > 0)
            throw NotCovered("a collective without one of its members");
}

Whom whom(int operation) {
    switch (operation) {
        case OTF2_COLLECTIVE_OP_BARRIER:
        case OTF2_COLLECTIVE_OP_ALLREDUCE:
        case OTF2_COLLECTIVE_OP_ALLTOALL:
            return Whom::all;
        case OTF2_COLLECTIVE_OP_ALLTOALLV:  // may exchange nothing
            return Whom::all_that_came;
        case OTF2_COLLECTIVE_OP_BCAST:
            return Whom::root;
        case OTF2_COLLECTIVE_OP_REDUCE:
            return Whom::root_all;
        case OTF2_COLLECTIVE_OP_SCAN:
            return Whom::lower;
        default:
            throw NotCovered("a collective without a rule");
    }
}

int64_t most_hit(const std::vector<const Call*>& members, int64_t from, int64_t to, const std::function<bool(const Noise&)>& counts) {
    int64_t most = 0;
    for (const Call* member : members) {
        int64_t sum = 0;
        for (const Noise& noise : member->noise)
            if (noise.end > from && noise.end <= to && counts(noise)) sum += noise.end - std::max(noise.begin, from);
        most = std::max(most, sum);
    }
    return most;
}

int64_t time_hit(const std::vector<const Call*>& members, int64_t from, int64_t to, const std::function<bool(const Noise&)>& counts) {
    std::vector<std::pair<int64_t, int64_t>> stretches;
    for (const Call* member : members)
        for (const Noise& noise : member->noise)
            if (noise.end > from && noise.end <= to && counts(noise)) stretches.emplace_back(std::max(from, noise.begin), noise.end);
    std::sort(stretches.begin(), stretches.end());
    int64_t sum = 0, reached = from;
    for (const auto& [begin, end] : stretches) {
        sum += std::max<int64_t>(0, end - std::max(begin, reached));
        reached = std::max(reached, end);
    }
    return sum;
}

}  // namespace polter::test
