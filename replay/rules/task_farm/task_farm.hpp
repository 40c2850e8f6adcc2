// SPDX-License-Identifier: BSD-3-Clause
// Task farms: a master that assigns  work to whichever worker asks first (MPI_ANY_SOURCE), and workers that wait for its answer.
// What is found of them in the learning pass, and what the replay makes of it. The rule in words: rules/task_farm/reassignment.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "replay/base/flat_map.hpp"

namespace polter::replay {

struct Match;
struct Thread;
class Engine;

using RankPair = std::pair<int32_t, int32_t>;  // master, worker

// What passed between two ranks: integers that add up, whoever counted which of them. A *request* is the first message that the master
// takes from the worker since it last sent it one.
struct FarmEvidence {
    // Counted by the master.
    int64_t requests = 0, served = 0;                // served: those that it sent something back after
    int64_t taken = 0, answers = 0, at_answers = 0;  // messages; at_answers: the sum over its answers of what it had taken by then
    // Counted by the worker.
    int64_t sent = 0, heard = 0, at_heard = 0;
    int64_t interrupted = 0;           // it waited for somebody else between its request and the answer
    int64_t idle_ns = 0, work_ns = 0;  // not in MPI: between request and waiting for the answer; between an answer and the next request
    int64_t foreign = 0;               // by another thread than the rank's

    void add(const FarmEvidence&);
    bool speaks_for_a_farm() const;
};

struct FarmWorker {
    int32_t rank = 0;
    int64_t requests = 0;
    bool last_unanswered = false;
};
using FarmPlan = std::map<int32_t, std::vector<FarmWorker>>;  // by master; its workers in the order of their ranks

FarmPlan find_farms(const std::map<RankPair, FarmEvidence>&);

// Of the pairs whose master took whichever message came first (true: from anyone; else among receives by source): those of masters that
// did so from several, and not each from the other by source (an exchange).
std::set<RankPair> farm_suspects(const std::map<RankPair, bool>& wildcards);

// Learning, in a pass of its own over traces that have suspects.
class FarmLearning {
  public:
    explicit FarmLearning(const std::set<RankPair>& suspects, size_t ranks);

    std::map<RankPair, FarmEvidence> evidence;

    void sent(const Thread& thread, int32_t to);
    void received(const Thread& thread, int32_t from);
    void called(const Thread& thread);  // all that the call depends on is listed

  private:
    struct Pair {
        FarmEvidence* evidence;
        RankPair ranks;
        bool in_service = false;                              // by the master
        bool asking = false, waits = false, strayed = false;  // by the worker: since its request; strayed: waited for somebody else
        int64_t asked_at = 0, heard_at = -1;
    };
    Pair* find(int32_t master, int32_t worker);

    std::map<RankPair, Pair> pairs_;
    std::vector<bool> involved_;              // by rank
    std::vector<std::vector<Pair*>> asking_;  // by worker
};

// The farms in the replay pass. They know of a worker only what its messages to the master bring, so the master's process has all of it.
class Farms {
  public:
    Farms(Engine& engine, const FarmPlan& plan);
    ~Farms();

    void arrived(Match& match);                             // a message is known, where its receiver is read
    bool asks(const Thread& master, int32_t source) const;  // its next message is a request that others could have been in place of
    bool taking(Thread& master, const Match& match);  // a receive's match; true if it is a request that others could have been in place of
    void answering(const Thread& master, Match& match, int32_t to);
    bool ready(const Thread& master) const;  // every worker that will ask again has
    void wait(Thread& master);
    void assign_task(const Thread& master, Match& request);  // to the first to ask in each lane
    void forget(Match& match);                               // it is given back

  private:
    struct Worker;
    struct Master;
    Worker* find(int32_t master, int32_t worker) const;
    static bool missing(const Worker&);
    const Match* rival(const Worker&, const Match& request) const;
    void move(Worker&, size_t lane, int64_t by);
    int64_t looked(const Thread& master);  // as measured; in each lane: looks_

    Engine& engine_;
    std::map<int32_t, std::unique_ptr<Master>> masters_;
    std::map<RankPair, Worker*> workers_;
    std::vector<int64_t> own_, best_, looks_;  // by lane, while work is assigned
    std::vector<Worker*> first_;
};

}  // namespace polter::replay
