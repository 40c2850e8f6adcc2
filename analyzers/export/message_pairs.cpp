// SPDX-License-Identifier: BSD-3-Clause
#include "message_pairs.hpp"

namespace polter::exports {

namespace {

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
uint64_t mixed(uint64_t value) {
    value += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
}

}  // namespace

void MessagePairs::begin(int32_t rank) {
    rank_ = rank;
    for (auto& counts : counts_) counts.clear();
    assigned_.clear();
    waiting_.clear();
    waiting_at_.clear();
    first_ = 0;
}

uint64_t MessagePairs::channel(const Record& record, bool sends) const {
    const auto from = static_cast<uint32_t>(sends ? rank_ : record.peer), to = static_cast<uint32_t>(sends ? record.peer : rank_);
    uint64_t hash = mixed(uint64_t{from} << 32 | to);
    hash = mixed(hash ^ (uint64_t{record.comm} << 32 | record.tag));
    return mixed(hash ^ record.partitioned);
}

MessagePairs::Assigned MessagePairs::next(uint64_t channel, bool sends) {
    const uint64_t nth = counts_[sends][channel]++, number = mixed(channel ^ mixed(nth));
    return {channel, number == 0 ? 1 : number, nth};
}

void MessagePairs::record(const Record& record) {
    using Kind = Record::Kind;
    switch (record.kind) {
        case Kind::send:
        case Kind::isend:
            return emit_(record, record.peer < 0 ? 0 : next(channel(record, true), true).number, true);
        case Kind::post:
            return queue(record, false);
        case Kind::receive:
            return queue(record, true);
        case Kind::irecv:
            return complete(record);
        case Kind::cancelled:
            return cancel(record.request);
        default:
            return;
    }
}

void MessagePairs::queue(const Record& record, bool complete) {
    const bool known = complete || record.known;
    if (waiting_.empty() && known) {
        const Assigned assigned = next(channel(record, false), false);
        if (complete)
            emit_(record, record.peer < 0 ? 0 : assigned.number, false);
        else
            assigned_[record.request] = assigned;
        return;
    }
    if (!complete) waiting_at_[record.request] = first_ + waiting_.size();
    waiting_.push_back({record, known ? channel(record, false) : 0, known, complete});
    if (waiting_.size() <= most) return;
    waiting_.front().cancelled = true;
    drain();
}

void MessagePairs::complete(const Record& record) {
    if (const auto assigned = assigned_.find(record.request); assigned != assigned_.end()) {
        const uint64_t number = assigned->second.number;
        assigned_.erase(assigned);
        return emit_(record, number, false);
    }
    const auto at = waiting_at_.find(record.request);
    // Posted without a record, or no longer kept.
    if (at == waiting_at_.end()) return emit_(record, 0, false);
    Entry& entry = waiting_[at->second - first_];
    waiting_at_.erase(at);
    if (!entry.known) entry.channel = channel(record, false);
    entry.record = record;
    entry.known = entry.complete = true;
    drain();
}

void MessagePairs::cancel(uint64_t request) {
    if (const auto assigned = assigned_.find(request); assigned != assigned_.end()) {
        // No message was for it: the next one posted takes its place, if none has been yet.
        uint64_t& count = counts_[false][assigned->second.channel];
        if (count == assigned->second.nth + 1) --count;
        assigned_.erase(assigned);
    } else if (const auto at = waiting_at_.find(request); at != waiting_at_.end()) {
        waiting_[at->second - first_].cancelled = true;
        waiting_at_.erase(at);
        drain();
    }
}

void MessagePairs::drain() {
    while (!waiting_.empty() && (waiting_.front().known || waiting_.front().cancelled)) {
        const Entry entry = waiting_.front();
        waiting_.pop_front();
        ++first_;
        if (!entry.complete) waiting_at_.erase(entry.record.request);
        if (entry.cancelled) continue;
        const Assigned assigned = next(entry.channel, false);
        if (entry.complete)
            emit_(entry.record, entry.record.peer < 0 ? 0 : assigned.number, false);
        else
            assigned_[entry.record.request] = assigned;
    }
}

void MessagePairs::end() {
    // What is still unknown was never completed, and took no message.
    for (Entry& entry : waiting_) entry.cancelled = entry.cancelled || !entry.known;
    drain();
}

}  // namespace polter::exports
