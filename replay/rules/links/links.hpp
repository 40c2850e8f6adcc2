// SPDX-License-Identifier: BSD-3-Clause
// Messages between hosts that share links (shared_links.hpp), from pass to pass: each pass notes when their transfers began, and a
// later one knows how much later each was there for the others' sake, as it was measured and in each lane.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "link_learning.hpp"
#include "network.hpp"
#include "replay/scenario/lanes.hpp"

namespace polter::replay {

class Engine;
class Model;
struct Match;
struct Operation;
struct Scratch;
struct Thread;

// What passes know. A transfer is known by its sending thread and its number among that thread's sends to other hosts.
struct LinkPlan {
    Network network;
    std::vector<size_t> first;      // by thread, and behind the last one: of all transfers, which is its first
    std::vector<int32_t> measured;  // by transfer: ns later than if it were alone
    bool others = false;            // collectives or accesses take of the links, too, which is not followed
    const Lanes* lanes = nullptr;   // of which the following is known; none: in all lanes as measured
    std::vector<int32_t> in_lanes;  // by transfer, lanes of one after another

    size_t count(uint32_t thread) const { return first[thread + 1] - first[thread]; }
    size_t place(uint32_t thread, uint32_t number) const { return first[thread] + number - 1; }
};

class Links {
  public:
    static constexpr uint64_t least_bytes = 1024;  // shorter ones are under way too short a time to count

    // `plan`: none in a first learning pass.
    Links(std::shared_ptr<const LinkPlan> plan, const Lanes& lanes);

    uint32_t number(const Thread& sender);                   // of a send that begins; from 1 on, 0: the plan does not know it
    void learn(const Thread& receiver, const Match& match);  // of a call that received it
    void learn_call(const Thread& thread);                   // what it waited for, and when
    // In each lane, when the last of the constraints from `from` on is there.
    void begins(const Thread& receiver, const Match& match, const Scratch& scratch, size_t from);
    void passes_by(const Operation& operation);  // … of a thread, of whatever kind
    // What all processes must know after a pass; what was learned they tell each other in plan().
    void write(Bytes& to) const;
    void merge(Input& from);

    // By how much the message was there later, as it was measured.
    int64_t measured(const Match& match) const;
    // The constraints from `from` on, later by what sharing adds.
    void delay(Engine& engine, Thread& thread, const Match& match, Scratch& scratch, size_t from) const;

    // After a learning pass whose model is frozen: the network, and how the measured run shared it. None: nothing to follow.
    // Collective.
    std::shared_ptr<const LinkPlan> plan(const Model& model, size_t threads, const LinkSearch& search = {}) const;
    // After a pass over lanes: how these share it.
    std::shared_ptr<const LinkPlan> next() const;

  private:
    struct Begun {
        uint32_t thread, number;
        int32_t from, to;
        uint64_t bytes;
    };
    std::shared_ptr<const LinkPlan> plan_;
    const Lanes& lanes_;
    bool too_many_ = false, others_ = false;
    std::vector<uint32_t> numbers_;  // by thread
    LinkLearning learning_;
    uint64_t learned_elsewhere_ = 0;  // transfers, by other processes
    std::vector<Begun> begun_;
    std::vector<int64_t> begins_;  // of what has begun: by lane, one after another
};

}  // namespace polter::replay
