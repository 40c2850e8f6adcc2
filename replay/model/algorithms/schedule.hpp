// SPDX-License-Identifier: BSD-3-Clause
// The known algorithms of collectives, as sends and receives of their members. Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, has the
// usual ones; Bruck et al., IEEE TPDS 8(11), 1997, theirs.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace polter::replay {

class Bytes;
class Input;

// How messages go to place 0 or from it; from recursive_doubling on everybody has everything at the end.
enum class Shape : uint8_t {
    none,
    binomial,          // subtrees of consecutive members
    binomial_strided,  // children at distances 1, 2, 4, …
    quaternomial,      // as binomial, in digits of base 4
    binary,            // children 2 i + 1 and 2 i + 2
    linear,            // received as they come
    linear_in_order,   // received by number
    chain,
    recursive_doubling,  // exchange with the partner whose number differs in one bit; what exceeds a power of two is folded in
    dissemination,       // everybody sends in every round, 1, 2, 4, … members further
    ring,                // members − 1 rounds to the next member
    pairwise,            // members − 1 rounds, each with another partner
    pairwise_from_self,  // as many rounds as members, the first with oneself (SMPI)
    everyone,            // a message to each of the others, then theirs as they come
    everyone_by_4,       // the same in portions of 4
    everyone_and_self,   // … of which the first is a message to oneself (SMPI)
    everyone_by_32,
    everyone_by_number,  // as everyone, but sent in the order 0, 1, 2, … and not from one's own number on
    everyone_above,      // a message to each with a higher number, then those of the lower ones as they come
    binary_by_levels,    // children a level's width apart, so that each level is numbered through (Open MPI)
    two_chains_a_pair,   // chains from the root, half as many as members
    linear_descending,   // received by member number from the highest down
    linear_ascending,    // received, or sent to, by member number from 0 on
    linear_by_turns,     // sent to by member number from 0 on, the next one when the one before has its message, if that is a rendezvous
    fold_upper,          // recursive doubling; members above the power of two are folded onto the lowest ones
    doubling_all,        // recursive doubling; who lacks a partner gets its part from its own half by a tree
    bruck,               // everybody sends in every round, 1, 2, 4, … members back
    bruck_exchange,      // Bruck's all-to-all: what has to go 1, 2, 4, … members further
    neighbour_exchange,  // pairs of neighbours, alternating sides
    double_ring,         // a token goes round twice
    xor_pairwise,        // members − 1 rounds with the partner whose number differs by the round's bits
    xor_from_self,       // the same, and before it a round with oneself (SMPI)
    halving,             // recursive halving, from half the members on
    halving_doubling,    // Rabenseifner: reduce-scatter by recursive halving, then allgather by recursive doubling
    halving_gather,      // the same, but then a gather to the root
    butterfly,           // recursive halving from neighbours on; at the end members change their results by mirrored number
    ring_twice,          // reduce-scatter, then allgather round a ring
    ring_twice_rest,     // the same, then up and down trees what the members cannot share evenly (SMPI)
    scatter_ring,        // scatter by a binomial tree, then allgather round a ring
    scatter_doubling,    // … then allgather by recursive doubling
    binomial_ascending,  // as binomial, but down to small subtrees first
    few_bytes,           // broadcasts of a few bytes as Open MPI has them: which tree depends on the number of members
    few_bytes_smpi,      // the same in SMPI, whose binary trees are numbered otherwise
    split,               // a creation of communicators (SMPI): all to member 0, back group by group, then `down` in each group
    split_from_tree,     // as split, but all go to member 0 by a binomial tree
    split_set_up,  // as split, and before the broadcast each group finds out who shares a host: two exchanges, a reduction, a broadcast
};

// What the messages of a phase carry.
enum class Cargo : uint8_t {
    all,     // all data, as in a reduction or a broadcast
    parts,   // the parts of the members that they are for or from
    theirs,  // of an exchange: the part of the member that they are for
};

enum class SetUp : uint8_t { none, first, between };

// First what goes up to place 0, then what comes down from it. Places are counted from the root; `relay`: by number, and what the root
// has to give or to get goes through member 0. `twice`: all of it again, as before and after the transfers of a fence. `segment`: a message
// up or down a tree is cut into pieces that each carry so much of the data, in millionths, and a piece is posted before the one in front
// of it is waited for; 0: neither. Down a tree only whole ones go so; what is left goes from the root by `rest`, or (`rest_relay`) from 0.
// `set_up`: everybody finds out who shares a host, by messages without data (SMPI: some first calls on a communicator), first of all or
// between what goes up and what comes down, where it is the broadcast that asks.
struct Pattern {
    Shape up = Shape::none, down = Shape::none;
    bool relay = false;
    Cargo cargo_up = Cargo::all, cargo_down = Cargo::all;
    bool twice = false;
    uint32_t segment = 0;
    Shape rest = Shape::none;
    bool rest_relay = false;
    SetUp set_up = SetUp::none;
    auto operator<=>(const Pattern&) const = default;
};

constexpr uint32_t one_segment = 1'000'000;  // all of the data

// Members one after another (behind the last comes place 0) whose parts of the data a message carries; none: it carries all data.
struct Blocks {
    uint32_t first = 0, count = 0;
};

struct Schedule {
    // post: a receive is posted before it is waited for; complete: a rendezvous send is waited for; transfers: what a fence completes is
    // waited for (no message).
    enum class Kind : uint8_t { send, receive, post, complete, transfers };
    struct Step {
        uint32_t message;
        uint32_t peer;  // its place
        Kind kind;
        uint32_t together;  // so many receives from here on are taken in the order in which their messages come
    };
    std::vector<std::vector<Step>> steps;             // by place
    std::vector<double> shares;                       // by message: which part of the collective's data it carries
    std::vector<Blocks> blocks;                       // by message
    std::vector<std::pair<uint32_t, uint32_t>> ends;  // by message: the places that it goes from and to
    bool uniform = true;                              // all shares are equal
    bool by_number = false;                           // a place is a member's number, whoever is the root; else it is counted from the root
    std::vector<double> distinct;                     // the shares that occur, rising; few of many
    // Whether the send at this step returns only at the end of its rendezvous.
    bool send_blocks(uint32_t place, size_t at) const {
        const std::vector<Step>& of = steps[place];
        return at + 1 < of.size() && of[at + 1].kind == Kind::complete && of[at + 1].message == of[at].message;
    }
};

// How many bytes each member contributes, or gets, where that differs between members. Shares are then of `unit` bytes. Where each member
// sends each other one another amount the records tell only what it sends and gets in all: a message then has its sender's bytes, divided
// as all receivers' are.
class BlockSizes {
  public:
    static constexpr uint64_t unit = uint64_t{1} << 20;
    BlockSizes() = default;
    // By member; `total`: of all of them, or 0. (Some recorders count a member's part once for each receiver.)
    BlockSizes(const std::vector<uint64_t>& bytes, uint64_t total, uint32_t root = 0);
    static BlockSizes of_pairs(const std::vector<uint64_t>& sent, const std::vector<uint64_t>& received);
    bool known() const { return !upto_.empty() || !sent_.empty(); }  // else all are equal, and shares are of all data
    uint64_t total() const;                                          // bytes
    double share(const Schedule& schedule, uint32_t message) const {
        if (!known()) return schedule.shares[message];
        if (schedule.shares[message] == 0) return 0;
        if (!sent_.empty()) return sent_[schedule.ends[message].first] * received_[schedule.ends[message].second];
        const Blocks& blocks = schedule.blocks[message];
        if (blocks.count == 0) return upto_[upto_.size() / 2];
        size_t first = blocks.first + (schedule.by_number ? 0 : root_);
        if (first >= upto_.size() / 2) first -= upto_.size() / 2;
        return upto_[first + blocks.count] - upto_[first];
    }
    // Between processes.
    void write(Bytes& to) const;
    void read(Input& from);

  private:
    std::vector<double> upto_;             // twice round: what the members in front have together
    uint32_t root_ = 0;
    std::vector<double> sent_, received_;  // of pairs: by member; received_: as a part of what all get
};

// The new communicators of a creation, each as members of the parent in their new order.
using Partition = std::vector<std::vector<uint32_t>>;
const Partition* interned(const Partition&);  // lives for ever

// Cached; lives for ever. `rendezvous`: with steps for messages whose sender waits for the receiver; without, there are none. `partition`:
// interned, of a split; none: everybody is in one group.
const Schedule& schedule(const Pattern& pattern, uint32_t members, uint32_t root, bool rendezvous, const Partition* partition = nullptr);

// What `place` waits for, by place: 0 nothing, 1 a message that waited for none itself, 2 one that did.
std::vector<uint8_t> waited_for(const Schedule&, uint32_t place);

inline bool is_split(Shape shape) {
    return shape == Shape::split || shape == Shape::split_from_tree || shape == Shape::split_set_up;
}

// The first step from `at` on that does something; nothing is done for an eager message behind its send. `eager(message)`.
template <class Eager>
size_t behind_idle_steps(const std::vector<Schedule::Step>& steps, size_t at, Eager eager) {
    using Kind = Schedule::Kind;
    const auto idle = [&](const Schedule::Step& step) {
        return step.kind == Kind::post || (step.kind == Kind::complete && eager(step.message));
    };
    while (at < steps.size() && idle(steps[at])) ++at;
    return at;
}

// Whether a member sends an eager message after the send at `at`, before it waits for anything.
template <class Eager>
bool goes_on_sending(const std::vector<Schedule::Step>& steps, size_t at, Eager eager) {
    at = behind_idle_steps(steps, at + 1, eager);
    return at < steps.size() && steps[at].kind == Schedule::Kind::send && eager(steps[at].message);
}

// The eager messages that a member receives from the receive at `at` on, before it sends anything or waits for another message: these are
// on their way whatever it does. Returns the step behind them.
template <class Eager>
size_t receives_on(const std::vector<Schedule::Step>& steps, size_t at, Eager eager, std::vector<uint32_t>* messages) {
    messages->clear();
    for (bool all_eager = true; all_eager && at < steps.size() && steps[at].kind == Schedule::Kind::receive;) {
        for (const size_t behind = at + steps[at].together; at < behind; ++at) {
            if (eager(steps[at].message))
                messages->push_back(steps[at].message);
            else
                all_eager = false;
        }
        at = behind_idle_steps(steps, at, eager);
    }
    return at;
}

// Algorithms that number their members as the communicator does, whoever is the root.
bool by_number(const Pattern&);

// The member at place 0.
inline uint32_t first_member(const Pattern& pattern, uint32_t root) {
    return by_number(pattern) ? 0 : root;
}

// The messages of the receives that belong together at `step`, in the order of their arrivals (INT64_MIN: not known yet); false
// while one is not known.
template <class Arrival>
bool arrived_in_order(const Schedule::Step* step, Arrival arrival, std::vector<uint32_t>* order) {
    order->clear();
    for (uint32_t i = 0; i < step->together; ++i) {
        if (arrival(step[i].message) == INT64_MIN) return false;
        order->push_back(step[i].message);
    }
    const auto sooner = [&](uint32_t a, uint32_t b) { return arrival(a) < arrival(b); };
    if (!std::is_sorted(order->begin(), order->end(), sooner)) std::stable_sort(order->begin(), order->end(), sooner);
    return true;
}

std::string to_string(const Pattern&);

}  // namespace polter::replay
