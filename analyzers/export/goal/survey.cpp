// SPDX-License-Identifier: BSD-3-Clause
#include "survey.hpp"

#include <otf2/otf2.h>

#include <algorithm>

#include "replay/model/algorithms/candidates.hpp"

namespace polter::exports {

void CollectiveNumbers::clear() {
    next_.clear();
    requested_.clear();
}

void CollectiveNumbers::request(const Record& record) {
    if (record.known) requested_[record.request] = next_[record.comm]++;
}

uint64_t CollectiveNumbers::number(const Record& record) {
    if (record.kind == Record::Kind::collective_complete)
        if (const auto found = requested_.find(record.request); found != requested_.end()) {
            const uint64_t number = found->second;
            requested_.erase(found);
            return number;
        }
    return next_[record.comm]++;
}

uint64_t GoalSurvey::data(const Collective& collective, uint32_t members) {
    switch (collective.operation) {
        case OTF2_COLLECTIVE_OP_GATHERV:
        case OTF2_COLLECTIVE_OP_SCATTERV:
            return collective.sum;
        case OTF2_COLLECTIVE_OP_ALLTOALLV:
        case OTF2_COLLECTIVE_OP_ALLTOALLW:
            return collective.sum / std::max<uint32_t>(1, collective.members);
        default: {
            const uint64_t data = replay::data_of(collective.operation, collective.most, members);
            return data == replay::CollectiveKind::unknown ? collective.most : data;
        }
    }
}

const GoalSurvey::Collective* GoalSurvey::collective(uint32_t comm, uint64_t number) const {
    const auto found = collectives_.find(comm);
    return found == collectives_.end() || number >= found->second.size() ? nullptr : &found->second[number];
}

uint64_t GoalSurvey::whole_messages(const Channel& channel) const {
    const auto found = channels_.find(channel);
    return found == channels_.end() ? 0 : std::min(found->second.first, found->second.second);
}

uint64_t GoalSurvey::half_messages() const {
    uint64_t sum = 0;
    for (const auto& [channel, ends] : channels_) sum += std::max(ends.first, ends.second) - std::min(ends.first, ends.second);
    return sum;
}

void GoalSurvey::begin(const Place& place) {
    place_ = place;
    last_call_ = 0;
    numbers_.clear();
    late_[place.rank];
}

void GoalSurvey::record(const Record& record) {
    using Kind = Record::Kind;
    if (place_.thread > 0) return;
    switch (record.kind) {
        case Kind::send:
        case Kind::isend:
            ++channels_[{place_.rank, record.peer, record.comm, record.tag, record.partitioned}].first;
            return;
        case Kind::receive:
        case Kind::irecv:
            ++channels_[{record.peer, place_.rank, record.comm, record.tag, record.partitioned}].second;
            return;
        case Kind::collective_request:
            return numbers_.request(record);
        case Kind::collective:
        case Kind::collective_complete:
        case Kind::window_collective:
            break;
        default:
            return;
    }
    const auto comm = definitions_.communicators.find(record.comm);
    if (comm == definitions_.communicators.end() || comm->second.self) return;
    const uint64_t number = numbers_.number(record);
    auto& list = collectives_[record.comm];
    if (list.size() <= number) list.resize(number + 1);
    Collective& one = list[number];
    one.operation = record.operation;
    ++one.members;
    one.root = record.root;
    const auto& ranks = comm->second.ranks;
    const bool rooted = record.root < ranks.size() && record.kind != Kind::window_collective;
    if (rooted && ranks[record.root] == place_.rank) return;  // its record has what all others have together
    const uint64_t bytes = std::max(record.bytes, record.received);
    one.most = std::max(one.most, bytes);
    one.sum += bytes;
}

void GoalSurvey::noise(const NoiseSlice& slice) {
    if (place_.thread > 0 || definitions_.accounts[static_cast<size_t>(slice.account)].service || slice.end > last_call_) return;
    late_[place_.rank].emplace_back(slice.begin, slice.end);
}

void GoalSurvey::end() {
    auto& late = late_[place_.rank];
    std::sort(late.begin(), late.end());
}

}  // namespace polter::exports
