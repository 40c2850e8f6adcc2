// SPDX-License-Identifier: BSD-3-Clause
// Locks of one-sided communication: the epochs that the learning pass finds, the plan of who waited for whom, and the replay of locks. The
// rule in words: rules/rma/locks.cpp.
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

inline constexpr uint32_t every_target = UINT32_MAX;  // the target of MPI_Win_lock_all; OTF2_UNDEFINED_UINT32
inline constexpr int64_t never = int64_t{1} << 60;    // a delay so large that its dependency never decides

struct LockKey {
    int32_t rank = 0;  // world rank of the origin, which locks
    uint32_t window = 0, target = 0;
    auto operator<=>(const LockKey&) const = default;
};

// An epoch, from lock to unlock; measured times in ns.
struct LockEpoch {
    int64_t requested = 0, releasing = 0;  // begin of the lock call, of the unlock
    int64_t locked = 0, unlocked = 0;      // end of the lock call; of the unlock, without the noise in it
    bool exclusive = false;
};

// One epoch releases the lock to another one; each side has an entry.
struct Grant {
    uint32_t epoch = 0;     // index among the epochs of its key
    uint32_t number = 0;    // of this grant, the same on both sides
    uint32_t target = 0;    // the locked rank of the window
    int32_t peer = 0;       // world rank of the other side
    int64_t released = 0;   // measured: the release was not earlier
    bool excluded = false;  // measured: requested before the release, so it waited
};

struct LockPlan {
    struct Place {
        uint64_t epochs = 0;       // number of epochs recorded
        std::vector<Grant> waits;  // by epoch: the releases that it waits for
        std::vector<Grant> lets;   // by epoch: the releases that it sends
        // By epoch: time of the request, if the recorded one contradicts the lock grant order; then after its predecessor's.
        std::map<uint32_t, int64_t> turns;
    };
    std::map<LockKey, Place> places;  // of windows with exclusive locks
    uint32_t grants = 0;
};

// Grant times in one scenario, by epoch, in ns; INT64_MIN where rules/rma/lock_simulation.cpp has not found one.
using LockTimes = std::map<LockKey, std::vector<int64_t>>;
using LockForesight = std::map<size_t, LockTimes>;  // by lane; only lanes that were simulated

// Sums of integers, so the order of reading does not matter. An epoch takes 40 bytes here, a grant 64 in the plan.
class LockLearning {
  public:
    // of all ranks together; each rank has an equal part, and later epochs are not recorded
    static constexpr uint64_t most_epochs = uint64_t{1} << 20;

    explicit LockLearning(size_t ranks, uint64_t most = most_epochs) : left_(ranks, most / (ranks + 1) + 1) {}

    void requested(const Thread&, uint32_t window, uint32_t target, bool exclusive);
    void released(const Thread&, uint32_t window, uint32_t target);
    void write(Bytes&) const;
    void merge(Input&);  // from another process, of other ranks
    LockPlan plan(const std::set<uint32_t>& exclusive_windows, const Faults& faults) const;

  private:
    std::map<LockKey, std::vector<LockEpoch>> epochs_;
    std::map<LockKey, LockEpoch> open_;
    std::vector<uint64_t> left_;  // by rank: how many more epochs may be recorded
};

// The queue of an exclusive lock, in each lane, as it passes from holder to holder. The entry after the last lane is the measured run.
struct LockQueue {
    struct Epoch {
        int64_t asked = 0, held = 0;  // ns: time of the request; how long it held the lock
    };
    static constexpr size_t most = 64;
    std::vector<int64_t> free;               // by lane: when the lock was free after the epochs that have been removed
    std::vector<std::vector<Epoch>> epochs;  // by lane, in order of the requests there

    void add(size_t lane, Epoch epoch);
    // When the lock is free for a request made at `asked`: after the epochs that requested it earlier, one after the other.
    int64_t free_for(size_t lane, int64_t asked) const;
    double idle(size_t lane) const;  // fraction of time in which the lock was free, since the first known request
};

// The state of one origin's epochs on one target, in passes that have a plan.
struct LockEpochState {
    const LockPlan::Place* place = nullptr;
    LockKey key;
    uint32_t ordinal = 0;  // of the open or the last epoch
    uint32_t epoch = 0;    // the open epoch, or else the next one
    size_t next_wait = 0, next_let = 0;
    int64_t turn = 0;  // simulation: when the open epoch requested the lock; earlier ones go first
    bool open = false, waited = false, counted = false, exclusive = false;
    // Simulation: the thread that waits; whether the lock is granted; whether a call of the epoch waits for the grant; when it was granted
    // in the measured run.
    Thread* thread = nullptr;
    bool granted = false, attached = false, same_host = true;
    int64_t measured = 0;
    // By lane, and last for the measured run: time of the request, and when the lock was free for it; of the open or the last epoch.
    std::vector<int64_t> asked, had;
    LockQueue queue;                // epochs before it, as far as they are known
    std::vector<const Grant*> due;  // of the open epoch: releases that no call waits for yet
};

// Locks in the time of one scenario: the earliest request is granted first. For a pass over that scenario alone
// (rules/rma/lock_simulation.cpp).
class LockTurns {
  public:
    LockTurns(const LockPlan& plan, size_t lane);

    void request(LockEpochState&);
    void release(LockEpochState&, int64_t time);  // `time`: in the scenario
    // When no thread can continue: grants the earliest request that does not exclude a holder. Returns the thread that this wakes; null:
    // none.
    Thread* grant();
    void give(LockEpochState&);  // grants this request, whoever holds the lock
    const LockTimes& times() const { return times_; }
    size_t lane() const { return lane_; }

  private:
    struct Lock {
        int64_t free = 0, free_of_exclusive = 0;  // ns: when the last holder released it; when the last exclusive holder did
        int holders = 0, exclusive_holders = 0;
    };
    std::vector<Lock*> concerned(const LockKey& key);
    bool has_to_wait(const LockEpochState& epoch);
    int64_t free_since(const LockEpochState& epoch);

    size_t lane_;
    std::vector<LockEpochState*> requests_;  // in order of `turn`
    std::map<std::pair<uint32_t, uint32_t>, Lock> locks_;
    LockTimes times_;
};

// The locks in the passes that have a plan.
class Locks {
  public:
    Locks(Engine& engine, std::shared_ptr<const LockPlan> plan) : engine_(engine), plan_(std::move(plan)) {}

    bool knows(const Thread&, const Operation& lock) const;  // the plan has the epoch that this lock begins
    // For the records inside a call: releases that it waits for become dependencies, releases that it sends become notices.
    void lock(Thread&, const Operation&);
    void unlock(Thread&, const Operation&);
    void take_turns(size_t lane);  // before run(): simulates the locks in this lane's time, instead of following notices
    LockTurns* turns() { return turns_.get(); }
    void foresee(std::shared_ptr<const LockForesight> foresight) { foresight_ = std::move(foresight); }
    int64_t foreseen(const LockEpochState&, size_t lane) const;  // INT64_MIN: not known
    void data(Thread&, const Operation&);                        // put, get or accumulate; or their completion, as by a flush

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
