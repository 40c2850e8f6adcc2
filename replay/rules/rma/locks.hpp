// SPDX-License-Identifier: BSD-3-Clause
// Locks of one-sided communication: who held which one until when, as the learning pass finds it; the plan of who waited for whom; and
// what the replay makes of that. The rule in words: rules/rma/locks.cpp.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace polter::replay {

struct Faults;
struct Operation;
struct Thread;
class Bytes;
class Engine;
class Input;

inline constexpr uint32_t every_target = UINT32_MAX;  // of lock_all; OTF2_UNDEFINED_UINT32
inline constexpr int64_t never = int64_t{1} << 60;    // a delay that delays nobody

struct LockKey {
    int32_t rank = 0;  // of the world: whoever locks
    uint32_t window = 0, target = 0;
    auto operator<=>(const LockKey&) const = default;
};

// From a lock to its unlock; measured times in ns.
struct LockEpoch {
    int64_t requested = 0, releasing = 0;  // the calls' beginnings
    int64_t locked = 0, unlocked = 0;      // … and their ends, the latter without the noise in it
    bool exclusive = false;
};

// One epoch releases the lock to another one.
struct Grant {
    uint32_t epoch = 0;     // its index among those of its key
    uint32_t number = 0;    // of this grant, the same on both sides
    uint32_t target = 0;    // of the lock
    int32_t peer = 0;       // world rank of the other side
    int64_t released = 0;   // measured: it was not before
    bool excluded = false;  // measured: it was asked for before that
};

struct LockPlan {
    struct Place {
        uint64_t epochs = 0;                // that are known
        std::vector<Grant> waits;           // by epoch: for whose release
        std::vector<Grant> lets;            // by epoch: whom in
        std::map<uint32_t, int64_t> turns;  // by epoch, where it seems to have asked before one that had it earlier: behind that one
    };
    std::map<LockKey, Place> places;  // of windows on which somebody ever waited
    uint32_t grants = 0;
};

// When everybody has the lock in one scenario, by epoch: ns. rules/rma/lock_simulation.cpp finds it, INT64_MIN where it has not.
using LockTimes = std::map<LockKey, std::vector<int64_t>>;
using LockForesight = std::map<size_t, LockTimes>;  // by lane, of those that were looked at

// Integers that do not depend on who noted them. An epoch takes 40 bytes here, a grant 64 in the plan.
class LockLearning {
  public:
    static constexpr uint64_t most_epochs = uint64_t{1} << 20;  // of all ranks; each has its part, and what is beyond it is not known

    explicit LockLearning(size_t ranks, uint64_t most = most_epochs) : left_(ranks, most / (ranks + 1) + 1) {}

    void requested(const Thread&, uint32_t window, uint32_t target, bool exclusive);
    void released(const Thread&, uint32_t window, uint32_t target);
    void write(Bytes&) const;
    void merge(Input&);  // of other ranks
    LockPlan plan(const std::set<uint32_t>& exclusive_windows, const Faults& faults) const;

  private:
    std::map<LockKey, std::vector<LockEpoch>> epochs_;
    std::map<LockKey, LockEpoch> open_;
    std::vector<uint64_t> left_;  // by rank
};

// Who has queued for a lock that excludes others, in each lane, as it goes from holder to holder. Behind the lanes stand the measured
// times, as one more.
struct LockQueue {
    struct Epoch {
        int64_t asked = 0, held = 0;  // ns: when it asked; how long it had the lock
    };
    static constexpr size_t most = 64;
    std::vector<int64_t> free;               // by lane: when those who are forgotten had given it back
    std::vector<std::vector<Epoch>> epochs;  // by lane, as they asked there

    void add(size_t lane, Epoch epoch);
    // When the lock is free for one that asks then: those who asked before it have had it, one after the other.
    int64_t free_for(size_t lane, int64_t asked) const;
    double idle(size_t lane) const;  // part of the time since the first of them asked
};

// From a lock to its unlock, in the passes that have a plan.
struct LockEpochState {
    const LockPlan::Place* place = nullptr;
    LockKey key;
    uint32_t ordinal = 0;  // of the open or the last one
    uint32_t epoch = 0;    // the open one, or else the next
    size_t next_wait = 0, next_let = 0;
    int64_t turn = 0;  // in turns: the open one goes before those with a later one
    bool open = false, waited = false, counted = false, exclusive = false;
    // In its turn: the thread waits; whether it has the lock; whether a call of the epoch waits for that; measured, when it was had.
    Thread* thread = nullptr;
    bool granted = false, attached = false, same_host = true;
    int64_t measured = 0;
    std::vector<int64_t> asked,
        had;                        // by lane, and measured: when it asked, and when the lock was free for it; of the open or the last one
    LockQueue queue;                // those before it, as far as they are known
    std::vector<const Grant*> due;  // of the open one: not waited for yet
};

// Locks in one scenario's own time: the first to ask first has the lock first. For one pass over that scenario alone
// (rules/rma/lock_simulation.cpp).
class LockTurns {
  public:
    LockTurns(const LockPlan& plan, size_t lane);

    void request(LockEpochState&);
    void release(LockEpochState&, int64_t time);  // in the scenario
    // Nobody can go on, so nobody will ask before those who have: the first of them has it. Whom that wakes; none: nobody can have one.
    Thread* grant();
    void give(LockEpochState&);  // whoever has it
    const LockTimes& times() const { return times_; }
    size_t lane() const { return lane_; }

  private:
    struct Lock {
        int64_t free = 0, free_of_exclusive = 0;  // since when
        int holders = 0, exclusive_holders = 0;
    };
    std::vector<Lock*> concerned(const LockKey& key);
    bool has_to_wait(const LockEpochState& epoch);
    int64_t free_since(const LockEpochState& epoch);

    size_t lane_;
    std::vector<LockEpochState*> requests_;  // by turn
    std::map<std::pair<uint32_t, uint32_t>, Lock> locks_;
    LockTimes times_;
};

// The locks in the passes that have a plan.
class Locks {
  public:
    Locks(Engine& engine, std::shared_ptr<const LockPlan> plan) : engine_(engine), plan_(std::move(plan)) {}

    bool knows(const Thread&, const Operation& lock) const;  // the epoch that it begins
    // Records inside a call: what it waits for becomes dependencies of it, whom it lets in notices.
    void lock(Thread&, const Operation&);
    void unlock(Thread&, const Operation&);
    void take_turns(size_t lane);  // before run(): what the others are told by notices is found out
    LockTurns* turns() { return turns_.get(); }
    void foresee(std::shared_ptr<const LockForesight> foresight) { foresight_ = std::move(foresight); }
    int64_t foreseen(const LockEpochState&, size_t lane) const;  // INT64_MIN: not
    void data(Thread&, const Operation&);                        // put, got, accumulated: or complete, as a flush has it

  private:
    LockEpochState* state(const Thread&, uint32_t window, uint32_t target);
    LockEpochState* open_epoch(const Thread&, uint32_t window, uint32_t target);
    void ask_in_turn(Thread&, LockEpochState&);
    void attach(Thread&, LockEpochState&);
    void wait(Thread&, LockEpochState&, const Operation&, bool whatever_is_left);

    Engine& engine_;
    std::shared_ptr<const LockPlan> plan_;
    std::map<LockKey, LockEpochState> states_;
    std::unique_ptr<LockTurns> turns_;
    std::shared_ptr<const LockForesight> foresight_;
};

}  // namespace polter::replay
