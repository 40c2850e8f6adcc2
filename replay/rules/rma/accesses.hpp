// SPDX-License-Identifier: BSD-3-Clause
// Accesses (put, get, accumulate) that wait while their target completes its own: what the learning pass finds of them, and the plan of
// which waited for which. The rule in words: rules/rma/accesses.cpp.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace polter::replay {

struct Thread;
class Bytes;
class Engine;
class Input;

// One access that waited for one completion, or came before it and could wait for it in another scenario; each side has an entry.
struct AccessWait {
    bool waited = false;             // measured
    uint64_t access = 0;             // index among the accesses of its rank
    uint64_t completion = 0;         // index among the calls of the target that complete accesses
    uint32_t number = 0;             // of this wait, the same on both sides
    int32_t origin = 0, target = 0;  // world ranks
    int64_t own = 0;                 // ns: an access of this size takes so long by itself
};

struct AccessPlan {
    std::vector<std::vector<AccessWait>> waits, holds;  // by world rank: as origin, by access; as target, by completion
    uint32_t number = 0;                                // of all waits
};

// Does not depend on the order of reading. An access takes 56 bytes, a completion 24.
class AccessLearning {
  public:
    // of each, of all ranks together; each rank has an equal part, and later calls are not recorded
    static constexpr uint64_t most_calls = uint64_t{1} << 18;

    explicit AccessLearning(size_t ranks) : ranks_(ranks), most_(most_calls / (ranks + 1) + 1) {}

    void accessed(const Thread&, uint32_t window, int32_t target, uint64_t bytes);
    void completed(const Thread&, uint32_t window);  // once a call
    void write(Bytes&) const;
    void merge(Input&);  // from another process, of other ranks
    AccessPlan plan() const;

  private:
    struct Class {
        uint32_t region = 0, magnitude = 0;  // magnitude: of the bytes, in binary digits
        auto operator<=>(const Class&) const = default;
    };
    struct Access {
        uint64_t index = 0;
        uint32_t window = 0;
        int32_t target = 0;
        int64_t enter = 0, leave = 0, noise = 0;
        Class kind;
    };
    struct Completion {
        uint64_t index = 0;
        int64_t enter = 0, leave = 0;
    };
    struct Rank {
        uint64_t accesses = 0, completions = 0;  // so far
        std::vector<Access> recorded;
        std::map<uint32_t, std::vector<Completion>> calls;  // by window
    };
    const std::vector<Completion>& of_target(const Access&) const;
    const Completion* ended_with(const Access&) const;   // none: it did not wait
    const Completion* next_behind(const Access&) const;  // none: its target completes nothing later

    std::vector<Rank> ranks_;
    std::map<Class, int64_t> shortest_;  // ns, without noise
    uint64_t most_;                      // of each rank
};

// The accesses in the passes that have a plan.
class Accesses {
  public:
    explicit Accesses(std::shared_ptr<const AccessPlan> plan);

    // As the calls are published: an access waits for the notices of a completion, which tell when it began and when it ended.
    void accessed(Engine&, Thread&, uint32_t window);
    void completing(Engine&, Thread&, uint32_t window);
    void completed(Engine&, Thread&);  // once the call's end is known

  private:
    struct Rank {
        uint64_t accesses = 0, completions = 0;
        size_t next_wait = 0, next_hold = 0, told = 0;  // told: of the holds, who knows of the end
        uint32_t window = 0;                            // of the open completion
    };
    std::shared_ptr<const AccessPlan> plan_;
    std::vector<Rank> ranks_;
};

}  // namespace polter::replay
