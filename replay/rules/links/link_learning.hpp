// SPDX-License-Identifier: BSD-3-Clause
// What the learning pass tells of transfers between hosts, and the network as found from it. Each process keeps what its own threads
// received and awaited. To find the network, processes tell each other of some transfers only; of all, once there is one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "network.hpp"

namespace polter::replay {

class Model;
struct Match;
struct Thread;

struct LearnedTransfer {
    uint64_t bytes;
    uint32_t thread, number;  // of the sender; of this transfer among that thread's
    int32_t from, to;         // hosts
    int64_t sent, posted;
    bool synchronous, noisy;  // noisy: it is not known when it began
};

// A transfer by when it began.
struct DatedTransfer {
    LearnedTransfer of;
    int64_t at = 0;
    bool waits = false;  // a rendezvous
};

class LinkLearning {
  public:
    void learn(const Thread& receiver, const Match& match);  // of a call that received it
    void learn_call(const Thread& thread);                   // what it waited for, and when

    uint64_t transfers() const { return learned_.size(); }
    bool too_many() const { return too_many_; }

    // Collective. After the pass, with its frozen model.
    std::optional<Network> network(const Model& model, const LinkSearch& search) const;
    // Collective: the transfers of all processes, by when they began.
    std::vector<DatedTransfer> all(const Model& model, const LinkSearch& search) const;

    static constexpr size_t most_learned = 1'000'000;  // transfers, of all processes together

  private:
    struct Call {
        uint32_t thread, messages;  // messages: so many of `awaited_`, behind those of the calls before it
        int64_t enter, leave;
    };
    struct Awaited {
        uint32_t thread, number;
    };
    std::vector<SeenCall> calls_seen(const std::vector<DatedTransfer>& looked_at) const;

    bool too_many_ = false;
    std::vector<LearnedTransfer> learned_;
    std::vector<Call> calls_;
    std::vector<Awaited> awaited_;
};

}  // namespace polter::replay
