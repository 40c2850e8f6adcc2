// SPDX-License-Identifier: BSD-3-Clause
// The open requests, by handle. An MPI may give the same handle to several requests at once (those that completed at once share one),
// so a handle leads to a queue: which of it is meant is told by the address of the program's request variable, else the oldest is
// taken, which is as good: they are all complete. Not thread-safe: see TableLock.
//
// The hot path allocates only where more requests are open than ever before.
#pragma once

#include <cstdint>
#include <vector>

#include "../../write/location.hpp"

namespace polter::mpi {

struct Request {
    enum Kind : uint8_t {
        nothing,  // to or from MPI_PROC_NULL, on an unknown communicator, of a kind that is not followed
        sending,
        receiving,
        both,  // a send and a receive, with two ids
        collecting,
        transferring  // one-sided
    } kind = nothing;
    bool persistent = false;
    bool active = true;        // a persistent one between Start and completion; all others always
    bool cancelling = false;   // MPI_Cancel was called on it
    bool tested = false;       // an unsuccessful test of several requests has been recorded since it began
    uint8_t mode = 0;          // trace::SendMode
    uint32_t partitioned = 0;  // partitioned communication: which of its kind, see partitioned.hpp; else 0
    uint64_t id = 0;           // in the trace; of both, the receive has the next one
    uint32_t window = 0;       // of a transfer: the local id
    int source = 0, tag = 0;   // of a receive, as posted; -1 any
    write::Message message;    // of a send; of a receive only the communicator
    write::Collective collective;
    uint8_t unlisted = 0;  // its operation, where OTF2 has none for it: trace::Operation
};

class Requests {
  public:
    static constexpr uint32_t absent = UINT32_MAX;

    Requests() : buckets_(1024, absent) {}

    void add(uint64_t handle, const void* variable, const Request& request);
    // The request that a call with this handle, read from this variable, means; `absent` if it is not known.
    uint32_t find(uint64_t handle, const void* variable) const;
    Request& operator[](uint32_t index) { return pool_[index].request; }
    void erase(uint32_t index);

    // Takes a request out, so that nobody finds it, and puts it back under its handle.
    uint32_t take(uint64_t handle, const void* variable);
    void put_back(uint32_t index);
    void drop(uint32_t index);  // what was taken is gone

  private:
    struct Entry {
        uint64_t handle = 0;
        const void* variable = nullptr;
        uint32_t next = absent;       // head entries: the next handle of the bucket; free ones: the next free one
        uint32_t twin = absent;       // the next of the same handle
        uint32_t last_twin = absent;  // head entries: the end of that queue, itself at first
        Request request;
    };

    uint32_t& bucket(uint64_t handle) { return buckets_[handle * 0x9e3779b97f4a7c15u >> shift_]; }
    uint32_t head(uint64_t handle) const;
    void link(uint32_t index);
    void unlink(uint32_t index);
    void grow();

    std::vector<Entry> pool_;
    std::vector<uint32_t> buckets_;  // a power of two
    unsigned shift_ = 64 - 10;
    uint32_t free_ = absent;
};

}  // namespace polter::mpi
