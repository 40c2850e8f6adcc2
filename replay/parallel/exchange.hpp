// SPDX-License-Identifier: BSD-3-Clause
// One engine among several. Each reads the locations of its own ranks; what crosses between ranks of different processes is sent as
// records. A channel lives in the process of its receiver: sends are shipped there, and postings are returned to senders that need them. A
// collective has a copy in each process with members, which evaluates it from the arrivals of all.
//
// A thread read by another process is a mirror in this engine: it has what is known of it here, and is never ready.
#pragma once

#include <unordered_map>
#include <vector>

#include "group.hpp"
#include "replay/engine/engine.hpp"
#include "replay/engine/peers.hpp"

namespace polter::replay {

// By location: the process that reads it. Processes get contiguous blocks of ranks with about equal bytes of event files; not all writers
// record the number of events.
std::vector<int> spread(const Archive& archive, int processes);

class Exchange final : public Peers {
  public:
    Exchange(Engine& engine, Group& group);

    bool own(const Thread& thread) const override { return owner_[thread.index] == group_.rank(); }
    int processes() const override { return group_.size(); }
    uint32_t own_members(uint32_t comm) override { return audience(comm).own_members; }
    bool first_is_own(uint32_t comm) override { return audience(comm).first == group_.rank(); }

    void ship_send(Match& match) override;
    void ship_posting(const Match& match) override;
    void ship_arrival(const Thread& thread, const Arrival& arrival) override;
    void ship_resume(const Collective& collective, uint32_t member, const Thread& thread, uint8_t operation, uint32_t root, uint64_t size,
                     bool alone) override;
    void ship_finished(const Thread& thread) override;

    bool exchange() override;
    void send_awaited() override;
    std::vector<Bytes> gather(const Bytes& mine) override { return group_.gather(mine); }
    std::vector<Bytes> quiet(const Bytes& mine) override { return group_.quiet(mine); }

  private:
    enum class Kind : uint8_t { send, posting, refused, arrival, resume, finished };
    struct Audience {
        std::vector<int> others;  // other processes that have members
        uint32_t own_members = 0;
        int first = 0;  // the process of the first member
    };
    const Audience& audience(uint32_t comm);
    Bytes& begin(int process, Kind kind);
    void put_lanes(Bytes& to, const int64_t* lanes) const { to.put(lanes, engine_.lanes().count); }
    void get_lanes(Input& from, int64_t* lanes) const { from.get(lanes, engine_.lanes().count); }
    int owner_of(int32_t rank) const { return owner_of_rank_[static_cast<size_t>(rank)]; }

    void take(int process, const Bytes& records);
    void take_send(int process, Input& input);
    void take_posting(Input& input, bool refused);
    void take_arrival(Input& input);
    void take_resume(Input& input);

    Engine& engine_;
    Group& group_;
    std::vector<int> owner_, owner_of_rank_;
    std::unordered_map<uint32_t, Audience> audiences_;
};

}  // namespace polter::replay
