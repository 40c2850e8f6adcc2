// SPDX-License-Identifier: BSD-3-Clause
// The rules of MPI as the engine sees them, and what they keep during a pass: task farms, locks, and what the learning pass finds of both.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "replay/engine/semantics.hpp"
#include "replay/rules/links/links.hpp"
#include "replay/rules/program/program_recorder.hpp"
#include "replay/rules/rma/accesses.hpp"
#include "replay/rules/rma/locks.hpp"
#include "replay/rules/task_farm/task_farm.hpp"
#include "replay/trace/message_calls.hpp"

namespace polter::replay {

// What earlier passes found for the rules.
struct LearnedRules {
    std::set<uint32_t> exclusive_windows;            // those with exclusive locks
    std::set<RankPair> farm_suspects;                // for a learning pass that looks for task farms
    FarmPlan farms;                                  // for the replay
    std::shared_ptr<const LockPlan> locks;           // none: not looked for yet, or no lock was contended
    std::shared_ptr<const AccessPlan> accesses;      // none: none waited for its target, or not looked for yet
    std::shared_ptr<const LockForesight> foresight;  // when locks are had in each scenario
    MessageCalls calls;                              // of the trace: known by their names
    std::optional<size_t> turns_in;                  // a lane: in this pass locks go to the first to ask first in its own time
    std::shared_ptr<const LinkPlan> links;           // none: hosts' links are not shared, or not looked for yet
};

// Of the messages that wildcard receives took so far: the latest in the scenario "all".
struct LastArrival {
    int64_t measured = INT64_MIN, approximated = INT64_MIN;
};

// A Waitany or Waitsome that waited: from its beginning until what it took had come, measured and in the scenario "all".
struct WaitForAny {
    int64_t begin = 0, end = 0, approximated_begin = 0, approximated_end = 0;
};

// Of receives that one call posted without a record, and that may not have completed.
struct UnrecordedPosting {
    uint64_t index = 0;           // 1-based, among the postings of its thread: of the first that has not completed
    int64_t time = 0, delay = 0;  // delay: in the scenario "all"
    uint32_t most = 1;            // so many can be left; a Startall does not say how many it posted
    bool some_completed = false;  // one of a Startall's has completed
    int left_behind = 0;          // by so many Waitalls
};

// Requests of a thread that the trace does not record, and that may not have completed.
struct UnrecordedRequests {
    std::vector<UnrecordedPosting> postings;  // the earliest first
    std::vector<uint64_t> sends;              // requests, in the order of sending
    uint64_t sends_begun = 0;
    std::vector<uint64_t> undecided;  // learning: calls that completed receives, and these sends as well or not
};

class MpiRules final : public Semantics {
  public:
    explicit MpiRules(LearnedRules learned = {});
    ~MpiRules() override;

    const DependencyRules& dependency_rules() const override;
    void attach(Engine& engine) override;
    void publish(Engine& engine, Thread& thread) override;
    void publish_unfinished(Engine& engine, Thread& thread) override;
    CallEnd conclude(Engine& engine, Thread& thread) override;
    void message_arrived(Match& match) override;
    void message_forgotten(Match& match) override;
    void drop(LockQueue* queue) override;
    bool takes_turns() const override;
    Thread* grant() override;
    void write(Bytes& to) const override;
    void merge(Input& from) override;

    // Of this pass; each rule's own.
    LearnedRules learned;
    std::unique_ptr<Farms> farms;                 // none: no work is assigned
    std::unique_ptr<Locks> locks;                 // none: not known, or no lock was contended
    std::unique_ptr<FarmLearning> farm_learning;  // in a learning pass that has suspects
    std::unique_ptr<LockLearning> lock_learning;  // in a learning pass that knows no plan yet
    std::unique_ptr<Accesses> accesses;           // none: not known, or none waited
    std::unique_ptr<AccessLearning> access_learning;
    std::unique_ptr<Links> links;  // none: all is on one host, or no links are shared
    // Learned: who took whichever message came, and from whom (true: it asked for any source; else it had receives posted by source).
    std::map<RankPair, bool> wildcards;
    std::map<std::pair<int32_t, uint32_t>, LastArrival> last_arrivals;  // by receiver and communicator
    std::map<uint32_t, std::vector<WaitForAny>> waits_for_any;          // by thread; the latest
    std::vector<UnrecordedRequests> unrecorded_requests;                // by thread, as far as there are any
    ProgramRecorder* program = nullptr;                                 // writes down what each rank does; outlives the pass
    std::unique_ptr<Scratch> scratch;                                   // of the call that is being concluded; kept for its capacity
};

}  // namespace polter::replay
