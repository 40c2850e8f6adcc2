// SPDX-License-Identifier: BSD-3-Clause
// Task farms: a master that assigns tasks to workers first come, first served (MPI_ANY_SOURCE), and workers that wait for its answer.
// Detection in the learning pass, and reassignment in the replay; the rule in words: rules/task_farm/reassignment.cpp.
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

// What was sent between two ranks, as sums, so the order of reading does not matter. A *request* is the first message that the master takes
// from the worker after its last answer to it.
struct FarmEvidence {
    // Counted when the master's calls are read.
    int64_t requests = 0, served = 0;                // served: requests that were answered
    int64_t taken = 0, answers = 0, at_answers = 0;  // messages; at_answers: sum over the answers of `taken` at that time
    // Counted when the worker's calls are read.
    int64_t sent = 0, heard = 0, at_heard = 0;
    int64_t interrupted = 0;           // it waited for another rank between its request and the answer
    int64_t idle_ns = 0, work_ns = 0;  // ns outside MPI: from a request to the wait for its answer; from an answer to the next request
    int64_t foreign = 0;               // messages of threads that do not carry the rank

    void add(const FarmEvidence&);
    bool speaks_for_a_farm() const;
};

struct FarmWorker {
    int32_t rank = 0;
    int64_t requests = 0;
    bool last_unanswered = false;
};
using FarmPlan = std::map<int32_t, std::vector<FarmWorker>>;  // by master; the workers in order of rank

FarmPlan find_farms(const std::map<RankPair, FarmEvidence>&);

// Candidate pairs, from the pairs whose master took whichever message came first (true: any source; false: any of several receives). The
// master must have done so for several workers; pairs that both did so with named sources are exchanges between neighbours.
std::set<RankPair> farm_suspects(const std::map<RankPair, bool>& wildcards);

// For a learning pass of its own, over traces that have suspects.
class FarmLearning {
  public:
    explicit FarmLearning(const std::set<RankPair>& suspects, size_t ranks);

    std::map<RankPair, FarmEvidence> evidence;

    void sent(const Thread& thread, int32_t to);
    void received(const Thread& thread, int32_t from);
    void called(const Thread& thread);  // call once all dependencies of the call are listed

  private:
    struct Pair {
        FarmEvidence* evidence;
        RankPair ranks;
        bool in_service = false;                              // master's side
        bool asking = false, waits = false, strayed = false;  // worker's side, since its request; strayed: it waited for another rank
        int64_t asked_at = 0, heard_at = -1;
    };
    Pair* find(int32_t master, int32_t worker);

    std::map<RankPair, Pair> pairs_;
    std::vector<bool> involved_;              // by rank: it is in some pair
    std::vector<std::vector<Pair*>> asking_;  // by worker: its requests without an answer so far
};

// The farms in the replay pass. All they need of a worker is in its messages to the master, so only the process that reads the master has
// them.
class Farms {
  public:
    Farms(Engine& engine, const FarmPlan& plan);
    ~Farms();

    void arrived(Match& match);                             // a message is known; called in the process that reads its receiver
    bool asks(const Thread& master, int32_t source) const;  // its next message will be a request for which another worker may be served
    // A receive took this match; true: it is a request for which another worker may be served.
    bool taking(Thread& master, const Match& match);
    void answering(const Thread& master, Match& match, int32_t to);
    bool ready(const Thread& master) const;  // all workers that will ask again have asked
    void wait(Thread& master);
    void assign_task(const Thread& master, Match& request);  // in each lane to the first that asked
    void forget(Match& match);                               // the match returns to its pool

  private:
    struct Worker;
    struct Master;
    Worker* find(int32_t master, int32_t worker) const;
    static bool missing(const Worker&);
    const Match* rival(const Worker&, const Match& request) const;
    void move(Worker&, size_t lane, int64_t by);
    int64_t looked(const Thread& master);  // returns the measured time; fills looks_ by lane

    Engine& engine_;
    std::map<int32_t, std::unique_ptr<Master>> masters_;
    std::map<RankPair, Worker*> workers_;
    std::vector<int64_t> own_, best_, looks_;  // by lane, used by assign_task
    std::vector<Worker*> first_;
};

}  // namespace polter::replay
