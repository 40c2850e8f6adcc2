// SPDX-License-Identifier: BSD-3-Clause
// What an engine asks of the other analysis processes. Each reads the locations of its own ranks; records cross between processes where
// ranks of different processes communicate.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/base/bytes.hpp"

namespace polter::replay {

struct Arrival;
struct Collective;
struct Match;
struct Thread;

class Peers {
  public:
    virtual ~Peers() = default;

    virtual bool own(const Thread& thread) const = 0;  // this process reads it
    virtual int processes() const = 0;
    // Of a communicator.
    virtual uint32_t own_members(uint32_t comm) = 0;
    virtual bool first_is_own(uint32_t comm) = 0;

    virtual void ship_send(Match& match) = 0;  // keeps the match if the sender must learn of the posting
    virtual void ship_posting(const Match& match) = 0;
    virtual void ship_arrival(const Thread& thread, const Arrival& arrival) = 0;
    virtual void ship_resume(const Collective& collective, uint32_t member, const Thread& thread, uint8_t operation, uint32_t root,
                             uint64_t size, bool alone) = 0;
    virtual void ship_finished(const Thread& thread) = 0;

    virtual bool exchange() = 0;      // sends and receives all records that are ready; true if any was received
    virtual void send_awaited() = 0;  // sends those that a thread elsewhere may wait for: not arrivals, of which it needs all
    // `mine` of each process, by process. quiet() returns nothing until no process can continue and no record is under way.
    virtual std::vector<Bytes> gather(const Bytes& mine) = 0;
    virtual std::vector<Bytes> quiet(const Bytes& mine) = 0;
};

}  // namespace polter::replay
