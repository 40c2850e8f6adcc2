// SPDX-License-Identifier: BSD-3-Clause
// The events of the own locations as the first pass decoded them, for the passes behind it: reading them here costs a fraction of what
// OTF2's reader does. Of each location a prefix is kept, as long as there is room; behind it the archive is read again.
//
// Format of a record: a byte with its kind, the ticks since the record before, then what its kind needs. Numbers have seven bits a byte;
// how many bytes follow the first one tells, by its lowest bit that is set: lengths vary too much for branches to be guessed.
#pragma once

#include <otf2/otf2.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "replay/engine/state.hpp"
#include "replay/trace/archive.hpp"

namespace polter::replay {

enum class ThreadRecord : uint8_t { fork, join, team_begin, team_end, create, begin, end, wait, acquire, release };

// What a Leave's attributes tell.
struct LeaveFacts {
    uint32_t polls = 0;  // 0: not a run of polls
    uint64_t last_poll = 0, poll_gap = 0;
    bool names_comm = false, names_message = false;  // … and the source and tag
    uint8_t any = 0;
    uint32_t comm = 0, source = 0, tag = 0, partitioned = 0;
};

struct MetricFacts {
    uint32_t metric = UINT32_MAX, culprit = UINT32_MAX;
    uint64_t ago = 0;
    std::vector<OTF2_Type> types;
    std::vector<OTF2_MetricValue> values;
};

class Decoder;

// How far a process that decodes ahead has come with a location; in memory that is shared with it.
struct DecodedAhead {
    enum class State : uint32_t { running, stopped, complete };  // stopped: whoever reads goes on in the archive
    std::atomic<uint64_t> bytes, records;
    std::atomic<State> state;
};

// Pages that need no memory until they are written to.
class Pages {
  public:
    Pages() = default;
    Pages(size_t bytes, bool shared);  // shared: with processes that are forked from now on; none where there is no room
    ~Pages();
    Pages(Pages&& other) noexcept : begin_(std::exchange(other.begin_, nullptr)), size_(other.size_) {}
    Pages& operator=(Pages&& other) noexcept {
        std::swap(begin_, other.begin_);
        std::swap(size_, other.size_);
        return *this;
    }
    uint8_t* begin() const { return begin_; }

  private:
    uint8_t* begin_ = nullptr;
    size_t size_ = 0;
};

class KeptLocation {
  public:
    // Kinds of records: below `enter`, an Operation::Kind; from `threads` on, a ThreadRecord.
    static constexpr uint8_t enter_kind = 32, leave_kind = 33, told_leave_kind = 34, metric_kind = 35, same_metric_kind = 36,
                             other_kind = 37, threads = 40;

    void allow(uint64_t bytes, bool shared = false);  // before the first pass: so much room
    // Instead of writing: the first pass reads what another process writes.
    void follow(Decoder& decoder, const DecodedAhead& ahead);
    // Before each further pass: from the first record on. `lost`: records behind the kept ones that are lost (for the tests).
    void rewind(uint64_t lost);

    // Writing, in the first pass; ignored once there is no room.
    bool keeping() const { return keeping_; }
    void other(uint64_t ticks, uint64_t record) {
        if (uint8_t* at = begin(other_kind, ticks, record, 0)) end(at);
    }
    void enter(uint64_t ticks, uint64_t record, uint32_t region, uint32_t call_site) {
        if (uint8_t* at = begin(enter_kind, ticks, record, 10)) end(put(put(at, region), uint32_t(call_site + 1)));
    }
    void leave(uint64_t ticks, uint64_t record, uint32_t region) {
        if (uint8_t* at = begin(leave_kind, ticks, record, 5)) end(put(at, region));
    }
    void leave(uint64_t ticks, uint64_t record, uint32_t region, const LeaveFacts&);
    void operation(uint64_t ticks, uint64_t record, const Operation&);
    void metric(uint64_t ticks, uint64_t record, uint32_t metric, std::span<const OTF2_Type> types, const OTF2_MetricValue* values,
                uint32_t culprit, uint64_t ago);
    void of_threads(uint64_t ticks, uint64_t record, ThreadRecord kind, uint32_t a, uint64_t b) {
        if (uint8_t* at = begin(static_cast<uint8_t>(threads + static_cast<uint8_t>(kind)), ticks, record, 15)) end(put(put(at, a), b));
    }
    void close(uint64_t records);  // the location has ended; so many records were read
    void tell(DecodedAhead& ahead, bool ended) const;  // what has been written
    uint64_t last_ticks() const { return last_.ticks; }

    // Reading, in further passes.
    bool rewound() const { return rewound_; }
    bool complete() const { return complete_; }
    bool skips() { return std::exchange(skips_, false); }  // whether the archive is still to be read up to here; asks once
    bool more() {                                          // records that have not been read; waits for those that are decoded ahead
        if (at_ == end_ && ahead_) wait();
        return at_ != end_;
    }
    uint64_t behind() const { return behind_; }                    // records up to here are not taken from the archive
    uint64_t records() const { return complete_ ? all_ : kept_; }  // that are kept, or none needs to be read for
    struct Head {
        uint8_t kind;
        uint64_t ticks, record;
    };
    Head next();
    // The rest of a record, by its kind.
    uint64_t number() {
        const uint64_t word = load(at_);
        if (*at_ == 0) {
            at_ += longest_number;
            return load(at_ - sizeof(uint64_t));
        }
        const int bytes = std::countr_zero(word) + 1;
        at_ += bytes;
        return word >> bytes & UINT64_MAX >> (64 - 7 * bytes);
    }
    uint32_t number_or_none() { return static_cast<uint32_t>(number()) - 1; }
    LeaveFacts leave_facts();
    void operation(uint8_t kind, Operation& to);
    const MetricFacts& metric(uint8_t kind);

  private:
    static constexpr size_t longest_number = 1 + sizeof(uint64_t);  // of more than 56 bits: a byte that is 0 and the number
    static uint64_t load(const uint8_t* at) {
        uint64_t word = 0;
        std::memcpy(&word, at, sizeof word);
        return std::endian::native == std::endian::big ? __builtin_bswap64(word) : word;
    }
    static void store(uint8_t* at, uint64_t word) {  // writes beyond short numbers: there is room for that behind the end
        if (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
        std::memcpy(at, &word, sizeof word);
    }
    static uint8_t* put(uint8_t* at, uint64_t value) {
        if (value >> 56 != 0) {
            *at = 0;
            store(at + 1, value);
            return at + longest_number;
        }
        const int bytes = (std::bit_width(value | 1) + 6) / 7;
        store(at, (value << 1 | 1) << (bytes - 1));
        return at + bytes;
    }
    static uint8_t* put_signed(uint8_t* at, uint64_t difference) {  // zigzag
        return put(at, difference << 1 ^ (difference >> 63 ? UINT64_MAX : 0));
    }
    uint64_t signed_number() {
        const uint64_t value = number();
        return value >> 1 ^ (value & 1 ? UINT64_MAX : 0);
    }
    uint8_t* begin(uint8_t kind, uint64_t ticks, uint64_t record, size_t most);  // none: no room
    void end(uint8_t* at) { written_ = at; }
    void wait();

    // What the next record is coded against, in writing and in reading.
    struct Last {
        uint64_t ticks = 0, record = 0, request = 0;
        MetricFacts metric;
        std::array<Operation, enter_kind> operations{};  // by kind
    };
    Pages pages_;
    uint8_t *written_ = nullptr, *room_end_ = nullptr;  // written_: behind what has been written
    uint64_t kept_ = 0, all_ = 0, behind_ = 0;
    bool keeping_ = false, complete_ = false, rewound_ = false, skips_ = false;
    const uint8_t *at_ = nullptr, *end_ = nullptr;  // of what can be read
    Decoder* decoder_ = nullptr;
    const DecodedAhead* ahead_ = nullptr;  // none: nothing more comes
    Last last_;
};

class KeptEvents {
  public:
    // Keeps nothing with `bytes` = 0.
    explicit KeptEvents(uint64_t bytes) : room_(bytes) {}

    // Before each pass. The first one shares the room among the locations in `own`, whole ones first; each may need as much as its file.
    // `ahead`: in memory that processes share, if there is room for all. True: so it is.
    bool begin_pass(const Archive&, const std::vector<bool>& own, uint64_t lost, bool ahead);
    KeptLocation* location(size_t index) { return room_ > 0 ? &locations_[index] : nullptr; }

    // What opening the event files gave in the first pass, for others that read the same locations and need not open all.
    const std::optional<Archive::Opened>& opened(const std::vector<bool>& own) const { return own == own_ ? opened_ : nothing_; }
    void set_opened(const Archive::Opened& opened) { opened_ = opened; }

  private:
    uint64_t room_;
    std::vector<KeptLocation> locations_;
    std::vector<bool> own_;
    std::optional<Archive::Opened> opened_, nothing_;
};

// What is kept where the caller does not say: at most a quarter of the free memory, shared by `processes`.
uint64_t default_kept_bytes(int processes);

inline uint8_t* KeptLocation::begin(uint8_t kind, uint64_t ticks, uint64_t record, size_t most) {
    constexpr size_t head = 1 + 2 * longest_number;
    if (!keeping_) return nullptr;
    if (static_cast<size_t>(room_end_ - written_) < head + most) {
        keeping_ = false;
        return nullptr;
    }
    const bool backward = ticks < last_.ticks, next = record == last_.record + 1;
    uint8_t* at = written_;
    *at++ = static_cast<uint8_t>(kind | (backward ? 0x80 : 0) | (next ? 0 : 0x40));
    at = put(at, backward ? last_.ticks - ticks : ticks - last_.ticks);
    if (!next) at = put(at, record - last_.record);
    last_.ticks = ticks;
    last_.record = kept_ = record;
    return at;
}

inline KeptLocation::Head KeptLocation::next() {
    const uint8_t head = *at_++;
    const uint64_t since = number();
    last_.ticks = head & 0x80 ? last_.ticks - since : last_.ticks + since;
    last_.record += head & 0x40 ? number() : 1;
    return {static_cast<uint8_t>(head & 0x3f), last_.ticks, last_.record};
}

}  // namespace polter::replay
