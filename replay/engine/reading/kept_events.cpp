// SPDX-License-Identifier: BSD-3-Clause
#include "kept_events.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>
#include <type_traits>

#include "decoder.hpp"

namespace polter::replay {

namespace {

static_assert(static_cast<uint8_t>(Operation::Kind::neighbours) < KeptLocation::enter_kind);  // the last one

constexpr uint64_t behind_end = sizeof(uint64_t);  // what may be written, and is read, beyond the last number

// Of an operation's fields, those follow that differ from the latest of its kind; the request is told by its distance from the latest one.
enum Present : uint16_t {
    posted_known = 1,
    wildcard = 2,
    any_source = 4,
    synchronises = 8,
    mode_shift = 4,  // two bits
    collective = 1 << 6,
    comm = 1 << 7,
    peer = 1 << 8,
    tag = 1 << 9,
    partitioned = 1 << 10,
    size = 1 << 11,
    request = 1 << 12,
    part = 1 << 13,
    whole = 1 << 14,
    seldom = collective | comm | partitioned | part | whole,  // the same in most operations
};

}  // namespace

Pages::Pages(size_t bytes, bool shared) : size_(bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_NORESERVE | (shared ? MAP_SHARED : MAP_PRIVATE), -1, 0);
    if (memory == MAP_FAILED) return;
    begin_ = static_cast<uint8_t*>(memory);
    constexpr size_t many = 16u << 20;
    if (bytes >= many) madvise(memory, bytes, MADV_HUGEPAGE);  // one fault for 2 MiB, not for 4 KiB
}

Pages::~Pages() {
    if (begin_) munmap(begin_, size_);
}

void KeptLocation::allow(uint64_t bytes, bool shared) {
    constexpr uint64_t least = 256;
    if (bytes < least) return;
    pages_ = Pages(bytes + behind_end, shared);
    written_ = pages_.begin();
    keeping_ = written_ != nullptr;
    if (keeping_) room_end_ = written_ + bytes;
}

void KeptLocation::close(uint64_t records) {
    if (!keeping_) return;
    keeping_ = false;
    complete_ = true;
    all_ = records;
}

void KeptLocation::tell(DecodedAhead& ahead, bool ended) const {
    ahead.bytes.store(static_cast<uint64_t>(written_ - pages_.begin()), std::memory_order_release);
    if (!ended && keeping_) return;
    ahead.records.store(all_, std::memory_order_relaxed);
    ahead.state.store(complete_ ? DecodedAhead::State::complete : DecodedAhead::State::stopped, std::memory_order_release);
}

void KeptLocation::follow(Decoder& decoder, const DecodedAhead& ahead) {
    keeping_ = false;
    rewound_ = true;
    decoder_ = &decoder;
    ahead_ = &ahead;
    at_ = end_ = pages_.begin();
}

// Whatever comes of it, all that is read then has been decoded: no more, and the archive tells what is behind it.
void KeptLocation::wait() {
    for (int waited = 0;; ++waited) {
        const bool lost = decoder_->lost();
        DecodedAhead::State state = ahead_->state.load(std::memory_order_acquire);
        if (lost && state == DecodedAhead::State::running) state = decoder_->end_unknown();
        written_ = pages_.begin() + ahead_->bytes.load(std::memory_order_acquire);
        end_ = written_;
        if (at_ != end_) return;
        if (state != DecodedAhead::State::running) {
            complete_ = state == DecodedAhead::State::complete;
            behind_ = kept_ = last_.record;
            all_ = lost ? kept_ : ahead_->records.load(std::memory_order_relaxed);
            ahead_ = nullptr;
            skips_ = kept_ > 0;
            return;
        }
        decoder_->wait(waited);
    }
}

void KeptLocation::rewind(uint64_t lost) {
    if (std::exchange(ahead_, nullptr)) {  // the pass before did not read it all
        written_ = pages_.begin() + (at_ - pages_.begin());
        kept_ = last_.record;
    }
    keeping_ = false;
    rewound_ = true;
    skips_ = kept_ > 0;
    last_ = {};
    behind_ = kept_ + (kept_ > 0 ? lost : 0);
    at_ = pages_.begin();
    end_ = written_;
}

void KeptLocation::leave(uint64_t ticks, uint64_t record, uint32_t region, const LeaveFacts& facts) {
    uint8_t* at = begin(told_leave_kind, ticks, record, 60);
    if (!at) return;
    at = put(at, region);
    *at++ = static_cast<uint8_t>((facts.polls > 0 ? 1 : 0) | (facts.names_comm ? 2 : 0) | (facts.names_message ? 4 : 0));
    if (facts.polls > 0) at = put(put(put(at, facts.polls), facts.last_poll), facts.poll_gap);
    if (facts.names_comm) at = put(at, facts.comm);
    if (facts.names_message) {
        *at++ = facts.any;
        at = put(put(put(at, facts.source), facts.tag), facts.partitioned);
    }
    end(at);
}

LeaveFacts KeptLocation::leave_facts() {
    LeaveFacts facts;
    const uint8_t told = *at_++;
    if (told & 1) {
        facts.polls = static_cast<uint32_t>(number());
        facts.last_poll = number();
        facts.poll_gap = number();
    }
    facts.names_comm = (told & 2) != 0;
    facts.names_message = (told & 4) != 0;
    if (facts.names_comm) facts.comm = static_cast<uint32_t>(number());
    if (facts.names_message) {
        facts.any = *at_++;
        facts.source = static_cast<uint32_t>(number());
        facts.tag = static_cast<uint32_t>(number());
        facts.partitioned = static_cast<uint32_t>(number());
    }
    return facts;
}

// What is the same in most operations of a kind that follow each other. `each(field, its bit)`.
template <class Each>
static void each_seldom(Each each) {
    each(&Operation::collective, collective);
    each(&Operation::comm, comm);
    each(&Operation::partitioned, partitioned);
    each(&Operation::part, part);
    each(&Operation::whole, whole);
}

void KeptLocation::operation(uint64_t ticks, uint64_t record, const Operation& o) {
    uint8_t* at = begin(static_cast<uint8_t>(o.kind), ticks, record, 70);
    if (!at) return;
    Operation& before = last_.operations[static_cast<size_t>(o.kind)];
    int present = (o.posted_known ? posted_known : 0) | (o.wildcard ? wildcard : 0) | (o.any_source ? any_source : 0) |
                  (o.synchronises ? synchronises : 0) | static_cast<int>(o.mode) << mode_shift | (o.peer != before.peer ? peer : 0) |
                  (o.tag != before.tag ? tag : 0) | (o.size != before.size ? size : 0) | (o.request ? request : 0);
    uint64_t changed = 0;  // of all that seldom change: one test for most operations
    each_seldom([&](auto Operation::*which, int) { changed |= static_cast<uint64_t>(o.*which ^ before.*which); });
    if (changed != 0) each_seldom([&](auto Operation::*which, int bit) { present |= o.*which != before.*which ? bit : 0; });
    *at++ = static_cast<uint8_t>(present);
    *at++ = static_cast<uint8_t>(present >> 8);
    const auto field = [&](auto Operation::*which, int bit) {
        if (present & bit) at = put(at, before.*which = o.*which);
    };
    field(&Operation::peer, peer);
    field(&Operation::tag, tag);
    field(&Operation::size, size);
    if (present & request) {
        at = put_signed(at, o.request - last_.request);
        last_.request = o.request;
    }
    if (present & seldom) each_seldom(field);
    end(at);
}

void KeptLocation::operation(uint8_t kind, Operation& to) {
    const int present = at_[0] | at_[1] << 8;
    at_ += 2;
    Operation& before = last_.operations[kind];
    const auto field = [&](auto Operation::*which, int bit) {
        if (present & bit) before.*which = static_cast<std::remove_reference_t<decltype(before.*which)>>(number());
    };
    field(&Operation::peer, peer);
    field(&Operation::tag, tag);
    field(&Operation::size, size);
    const uint64_t its_request = present& request ? last_.request += signed_number() : 0;
    if (present & seldom) each_seldom(field);
    to.kind = static_cast<Operation::Kind>(kind);
    to.mode = static_cast<SendMode>(present >> mode_shift & 3);
    to.posted_known = (present & posted_known) != 0;
    to.wildcard = (present & wildcard) != 0;
    to.any_source = (present & any_source) != 0;
    to.synchronises = (present & synchronises) != 0;
    to.collective = before.collective;
    to.comm = before.comm;
    to.peer = before.peer;
    to.tag = before.tag;
    to.partitioned = before.partitioned;
    to.size = before.size;
    to.request = its_request;
    to.part = before.part;
    to.whole = before.whole;
}

// Most records of a metric differ from the one before in one value.
void KeptLocation::metric(uint64_t ticks, uint64_t record, uint32_t metric, std::span<const OTF2_Type> types,
                          const OTF2_MetricValue* values, uint32_t culprit, uint64_t ago) {
    const size_t count = types.size(), bytes = (count + 7) / 8;
    MetricFacts& last = last_.metric;
    const bool same = metric == last.metric && std::equal(types.begin(), types.end(), last.types.begin(), last.types.end());
    uint8_t* at = begin(same ? same_metric_kind : metric_kind, ticks, record, 30 + bytes + 11 * count);
    if (!at) return;
    at = put(put(at, static_cast<uint32_t>(culprit + 1)), ago);
    if (!same) {
        at = put(put(at, metric), count);
        for (size_t i = 0; i < count; ++i) *at++ = types[i];
        last.metric = metric;
        last.types.assign(types.begin(), types.end());
        last.values.assign(count, {.unsigned_int = 0});
    }
    uint8_t* changed = at;
    std::fill_n(changed, bytes, 0);
    at += bytes;
    for (size_t i = 0; i < count; ++i) {
        if (values[i].unsigned_int == last.values[i].unsigned_int) continue;
        changed[i / 8] = static_cast<uint8_t>(changed[i / 8] | 1 << i % 8);
        at = put_signed(at, values[i].unsigned_int - last.values[i].unsigned_int);
        last.values[i] = values[i];
    }
    end(at);
}

const MetricFacts& KeptLocation::metric(uint8_t kind) {
    MetricFacts& last = last_.metric;
    last.culprit = number_or_none();
    last.ago = number();
    if (kind == metric_kind) {
        last.metric = static_cast<uint32_t>(number());
        last.types.resize(number());
        for (OTF2_Type& type : last.types) type = *at_++;
        last.values.assign(last.types.size(), {.unsigned_int = 0});
    }
    const uint8_t* changed = at_;
    at_ += (last.values.size() + 7) / 8;
    for (size_t i = 0; i < last.values.size(); ++i)
        if (changed[i / 8] >> i % 8 & 1) last.values[i].unsigned_int += signed_number();
    return last;
}

bool KeptEvents::begin_pass(const Archive& archive, const std::vector<bool>& own, uint64_t lost, bool ahead) {
    if (room_ == 0) return false;
    if (!locations_.empty()) {
        for (KeptLocation& location : locations_) location.rewind(lost);
        return false;
    }
    locations_.resize(own.size());
    own_ = own;
    std::vector<uint64_t> wanted(own.size(), 0);
    for (size_t i = 0; i < own.size(); ++i) {
        if (!own[i]) continue;
        const uint64_t file = archive.event_file_bytes(i);
        wanted[i] = file + file / 4 + 4096;
    }
    ahead = ahead && std::accumulate(wanted.begin(), wanted.end(), uint64_t{0}) <= room_;
    uint64_t left = room_;
    for (size_t i = 0; i < own.size(); ++i) {
        const uint64_t share = std::min(left, wanted[i]);
        locations_[i].allow(share, ahead);
        left -= share;
    }
    return ahead;
}

uint64_t default_kept_bytes(int processes) {
    constexpr uint64_t most = uint64_t{1} << 30;
    uint64_t free_bytes = 4 * most;
    std::ifstream memory("/proc/meminfo");
    for (std::string line; std::getline(memory, line);)
        if (line.starts_with("MemAvailable:")) free_bytes = std::stoull(line.substr(13)) * 1024;
    return std::min(most, free_bytes / 4) / static_cast<uint64_t>(std::max(processes, 1));
}

}  // namespace polter::replay
