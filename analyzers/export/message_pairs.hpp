// SPDX-License-Identifier: BSD-3-Clause
// Gives both ends of a message the same number, though each rank is read alone: the n-th message from one rank to another on a
// communicator with one tag goes to the n-th receive that was posted for it (MPI 4.0, 3.5: messages do not overtake).
//
// Only receives that wait behind one whose source or tag is not known yet are kept; beyond `most` of these, the oldest stays alone.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>

#include "timeline_reader.hpp"

namespace polter::exports {

class MessagePairs {
  public:
    static constexpr size_t most = 1 << 16;
    // `number` 0: its other end is not known.
    using Emit = std::function<void(const Record&, uint64_t number, bool sends)>;
    explicit MessagePairs(Emit emit) : emit_(std::move(emit)) {}

    void begin(int32_t rank);
    void record(const Record&);
    void end();

  private:
    struct Entry {
        Record record;
        uint64_t channel = 0;  // once `known`
        bool known = false, complete = false, cancelled = false;
    };
    struct Assigned {
        uint64_t channel, number, nth;
    };
    uint64_t channel(const Record&, bool sends) const;
    Assigned next(uint64_t channel, bool sends);
    void queue(const Record&, bool complete);
    void complete(const Record&);
    void cancel(uint64_t request);
    void drain();

    Emit emit_;
    int32_t rank_ = 0;
    std::unordered_map<uint64_t, uint64_t> counts_[2];   // by channel: received, sent (a rank may send to itself)
    std::unordered_map<uint64_t, Assigned> assigned_;    // by request: posted, not complete
    std::deque<Entry> waiting_;                          // in the order of posting
    uint64_t first_ = 0;                                 // sequence number of the front
    std::unordered_map<uint64_t, uint64_t> waiting_at_;  // by request: sequence number
};

}  // namespace polter::exports
