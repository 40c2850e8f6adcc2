// SPDX-License-Identifier: BSD-3-Clause
// What an engine asks of the other analysis processes: each reads the locations of its own ranks, and what crosses between ranks of
// different processes goes as records.
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

    virtual bool own(const Thread& thread) const = 0;  // read by this process
    virtual int processes() const = 0;
    // Of a communicator.
    virtual uint32_t own_members(uint32_t comm) = 0;
    virtual bool first_is_own(uint32_t comm) = 0;

    virtual void ship_send(Match& match) = 0;  // keeps it where the sender has to know the posting
    virtual void ship_posting(const Match& match) = 0;
    virtual void ship_arrival(const Thread& thread, const Arrival& arrival) = 0;
    virtual void ship_resume(const Collective& collective, uint32_t member, const Thread& thread, uint8_t operation, uint32_t root,
                             uint64_t size, bool alone) = 0;
    virtual void ship_finished(const Thread& thread) = 0;

    virtual bool exchange() = 0;  // everything that is there to go and to come; true if something came
    // What each process said, by process; quiet(): empty until nobody has anything to do and nothing is under way.
    virtual std::vector<Bytes> gather(const Bytes& mine) = 0;
    virtual std::vector<Bytes> quiet(const Bytes& mine) = 0;
};

}  // namespace polter::replay
