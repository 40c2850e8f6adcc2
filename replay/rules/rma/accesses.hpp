// SPDX-License-Identifier: BSD-3-Clause
// Accesses (put, get, accumulate) that wait while their target completes its own, and completions that wait for the transfers of others'
// accesses: what the learning pass finds of them, and the plan of which waited for which. The rules in words: rules/rma/accesses.cpp and
// rules/rma/incoming.cpp.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "replay/base/pool.hpp"
#include "replay/model/model.hpp"

namespace polter::replay {

struct Thread;
class Bytes;
class Engine;
class Input;

// One access and one completion of its target, of which one waited for the other or could in another scenario; each side has an entry.
struct AccessWait {
    bool incoming = false;           // the completion waits for the access's transfer; else the access for the completion's end
    bool exposed = false;            // incoming: the target waits for the end of that exposure epoch, too
    bool waited = false;             // measured
    uint64_t access = 0;             // index among the accesses of its rank
    uint64_t completion = 0;         // index among the calls of the target that complete accesses
    uint32_t number = 0;             // of this wait, the same on both sides
    int32_t origin = 0, target = 0;  // world ranks
    int64_t own = 0;                 // ns: an access of this size takes so long by itself; incoming: a completion of as many targets
    int64_t begins = 0;              // ns: incoming: from the access's beginning to that of its transfer
    int64_t guards = 0;              // ns: of an access: from the beginning of its target's call until accesses wait
    Cost transfer;                   // incoming: what that takes
    int64_t takes = 0;               // ns: incoming: to receive it, of the call that completes it
    // Of one that waited in the measured run: so much earlier it would not have waited; and the time from which it could go on (incoming:
    // but for the transfer).
    int64_t margin = 0, until = 0;
};

// Of a window whose completions wait for transfers: what the notices of completes cost those that wait for them.
struct NoticeCosts {
    Cost flight;        // from its sending to its arrival
    int64_t sends = 0;  // ns: each, one after the other
    int64_t takes = 0;
};

struct AccessPlan {
    using OfRanks = std::vector<std::vector<AccessWait>>;
    OfRanks waits, holds;     // by world rank: as origin, by access; as target, by completion
    OfRanks begun, incoming;  // the same of completions that wait for transfers
    // By world rank and window: the transfers that a wait for an exposure epoch waits for, by epoch (here `completion`).
    std::vector<std::map<uint32_t, std::vector<AccessWait>>> exposed;
    std::map<uint32_t, NoticeCosts> notices;  // by window; not of those whose waits show nothing of it
    uint32_t number = 0;  // of all waits
};

// Does not depend on the order of reading. An access takes 72 bytes, a completion 72, a post 8, a wait 40 and 16 for each notice (of which
// there are as many as accesses at most).
class AccessLearning {
  public:
    // of each, of all ranks together; each rank has an equal part, and later calls are not recorded
    static constexpr uint64_t most_calls = uint64_t{1} << 18;

    explicit AccessLearning(size_t ranks) : ranks_(ranks), most_(most_calls / (ranks + 1) + 1) {}

    void accessed(const Thread&, uint32_t window, int32_t target, uint64_t bytes);
    void completed(const Thread&, uint32_t window);  // once a call
    void posted(const Thread&, uint32_t window);     // once a call
    void told(const Thread&);                        // … by a completion whose notices are known
    void waited(const Thread&, uint32_t window);     // once a call; for the end of an exposure epoch
    void awaited(const Thread&);                     // … when its notices have come
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
        uint64_t bytes = 0;
        Class kind;
    };
    struct Completion {
        uint64_t index = 0;
        int64_t enter = 0, leave = 0, noise = 0;
        uint64_t posts = 0;  // of its rank for the window, before it
        uint64_t records = 0;  // of what it does: more for more targets
        uint64_t targets = 0;
        int64_t hit = 0, hit_ns = 0;  // the first noise in it: when, since `enter`, and how long
    };
    struct Notified {
        int64_t sent = 0;
        uint64_t place = 0;  // among those of its call
    };
    struct Wait {  // for the end of an exposure epoch
        int64_t enter = 0, leave = 0, noise = 0;
        uint64_t posts = 0;  // as of a completion
        uint64_t notices = 0;
    };
    struct Rank {
        uint64_t accesses = 0, completions = 0;  // so far
        std::vector<Access> recorded;
        std::map<uint32_t, std::vector<Completion>> calls;  // by window
        std::map<uint32_t, std::vector<int64_t>> posts;     // by window: when they were entered
        std::map<uint32_t, uint64_t> waits;                 // by window: for the ends of exposure epochs
        std::map<uint32_t, std::vector<Wait>> ends;         // the same with all that is known of them, in order
        std::map<uint32_t, std::vector<Notified>> notified;  // by window: of one wait after the other
    };
    struct Arrivals;
    class Received;
    class Transfers;
    void plan_accesses(AccessPlan&) const;
    void plan_incoming(AccessPlan&) const;  // rules/rma/learn_incoming.cpp
    int64_t begun(const Access&) const;     // the transfer
    const Access* latest_begun(const Arrivals&) const;
    std::map<uint32_t, std::vector<Arrivals>> arrivals() const;
    std::map<uint64_t, int64_t> own_of_completions() const;  // ns, by records
    Received received(const std::vector<Arrivals>&) const;
    std::optional<int64_t> received_by(const Arrivals&, const Received&) const;
    std::optional<NoticeCosts> notice_costs(uint32_t window, const std::vector<Arrivals>&, const Received&, const Transfers&) const;
    const std::vector<Completion>& of_target(const Access&) const;
    const Completion* ended_with(const Access&) const;   // none: it did not wait
    const Completion* next_behind(const Access&) const;  // none: its target completes nothing later
    // The first behind the target's last post before the access: of those it can meet that one. None: no post, or nothing completed.
    const Completion* of_same_post(const Access&) const;

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
    void completed(Engine&, Thread&);                 // once the call's end is known
    void waiting(Engine&, Thread&, uint32_t window);  // for the end of an exposure epoch

    // When a rank's last completion of the window looked for transfers: measured, and in each lane.
    struct Looked {
        int64_t time = INT64_MIN;
        LaneVector in;
    };
    Looked& looked(const Thread&, uint32_t window);
    uint32_t completed_last(int32_t rank) const { return ranks_[static_cast<size_t>(rank)].window; }
    // None: what notices cost is not known of this window.
    const NoticeCosts* notice_costs(uint32_t window) const;

  private:
    struct Rank {
        uint64_t accesses = 0, completions = 0;
        size_t next_wait = 0, next_hold = 0, told = 0;  // told: of the holds, who knows of the end
        size_t next_begun = 0, next_incoming = 0;
        uint32_t window = 0;  // of the open completion
        struct Exposed {
            size_t next = 0;
            uint64_t epochs = 0;  // so far
        };
        std::map<uint32_t, Exposed> exposed;  // by window
        std::map<uint32_t, Looked> looked;
    };
    std::shared_ptr<const AccessPlan> plan_;
    std::vector<Rank> ranks_;
};

}  // namespace polter::replay
