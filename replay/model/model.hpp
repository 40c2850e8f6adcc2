// SPDX-License-Identifier: BSD-3-Clause
// What communication costs on this machine without noise, learned from the trace in a pass before the replay. Integer histograms
// by class: the result does not depend on the order in which the samples came.
#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "call_samples.hpp"
#include "collective_algorithm.hpp"
#include "replay/base/histogram.hpp"
#include "replay/base/indexed_map.hpp"
#include "replay/base/mutations.hpp"
#include "wait_samples.hpp"

namespace polter::replay {

// The noise-free time from a dependency to the end of the call that waited for it: plausible least, expected, plausible most.
struct Cost {
    int64_t low = 0, mid = 0, high = 0;
    bool known = false;
    int64_t spread = 0;         // the middle nine tenths: 3.29 standard deviations, were they normal
    bool extrapolated = false;  // known from sizes that all lie on one side of it
    // With counters only: of the time by which calls with noise are longer than usual, the part that calls without noise do not show.
    static constexpr int32_t all_of_excess = 1'000'000;
    int32_t noise_ppm = all_of_excess;

    // Of that much longer than usual.
    int64_t noise_of(int64_t longer) const { return static_cast<int64_t>(static_cast<__int128>(longer) * noise_ppm / all_of_excess); }

    // Without what happens once in a while: a message that noise delayed where the trace does not show it.
    int64_t usual_low() const { return std::max(low, mid - spread); }
    int64_t usual_high() const { return std::min(high, mid + spread); }
};

enum class CostKind : uint8_t {
    receive_after_send,         // from the send to the end of a receive that waited for it: overhead and latency
    receive_after_post,         // from a late receiver's posting to the end: the message was there
    wait_own,                   // of a completion call for which everything was ready; class: how many it completed
    send_after_post,            // from the late receiver's posting to the end of a synchronous send
    send_own,                   // of a synchronous send whose receiver was there
    collective_tail,            // from the last that mattered to the end of a collective
    collective_own,             // of a rooted collective for which the root had come long ago
    notice_after,               // one-sided: from a notice to the end of the call that waited for it; class: which call, how far, bytes
    notice_own,                 // of such a call for which all notices were there; class: which call, how many
    epoch_own,                  // of a lock, and of what completes transfers, where nobody holds it up; class: which call, how far, bytes
    collective_send,            // of a member of a rooted collective that only sends
    collective_shortest,        // while learning: of collective_tail, what is left if all noise of the members delayed the end
    collective_shortest_apart,  // the same where it may have hit at other times than it seems to, one after the other
};

// Partitioned communication has costs and protocols of its own: both sides must agree before its data can go.
inline constexpr uint16_t partitioned_messages = 1;

struct CostClass {
    CostKind kind;
    bool same_host = true, synchronous = false;
    uint16_t operation = 0;  // of collectives: which, and for how many; of messages: partitioned_messages, or 0
    uint64_t size = 0;       // bytes, or what the kind counts

    static constexpr int size_bits = 16;  // of a key: the class of the size
    // Libraries change how they send at certain sizes, and costs with it by a step: classes of messages are narrow. Of others few are seen.
    static constexpr int message_bits = 4, other_bits = 2;
    // Logarithmic, 2^bits classes an octave.
    static uint64_t size_class(uint64_t size, int bits) {
        const int octave = std::max(0, static_cast<int>(std::bit_width(size)) - 1 - bits);
        return (static_cast<uint64_t>(octave) << bits) + (size >> octave);
    }
    uint64_t key() const {
        const bool message = kind < CostKind::wait_own || kind == CostKind::send_after_post || kind == CostKind::send_own;
        const uint64_t kind_and_pair =
            (static_cast<uint64_t>(kind) << 2 | static_cast<uint64_t>(same_host) << 1 | static_cast<uint64_t>(synchronous));
        return (kind_and_pair << 16 | operation) << size_bits | size_class(size, message ? message_bits : other_bits);
    }
    auto operator<=>(const CostClass&) const = default;
};

// What was learned, for people.
struct LearnedCost {
    CostClass of;
    Cost cost;
    int64_t samples = 0;
};
struct LearnedProtocol {
    bool same_host = true;
    uint64_t size = 0;  // the smallest of its class
    int64_t eager = 0, late = 0;
    bool partitioned = false;
};
struct LearnedStructure {
    CostClass of, by_root;  // by_root: the class as its root sees it
    uint32_t members = 0;
    int64_t instances = 0;  // that were looked at
    std::optional<Structure> structure;
    std::optional<Structure> likeliest;  // where none was found: what injected noise follows
    std::set<uint64_t> set_ups;          // calls that set something up first, by ordinal; of this trace, not in files
    std::optional<Structure> set_up;     // how
    double constant_error = 0;           // of what a structure has to beat, in ns
    int64_t constant_root_error = 0;     // … of roots alone, where only these wait
};
CollectiveKind kind_of(const CostClass&, Waits, uint32_t members);
std::string operation_name(uint8_t operation);  // an OTF2_CollectiveOp, or one of trace/mpi_calls.hpp

class Bytes;
class Input;

struct Learned {
    std::vector<LearnedCost> costs;
    std::vector<LearnedProtocol> protocols;
    std::vector<LearnedStructure> structures;
    std::set<uint8_t> never_wait;  // collective operations that a member has left before another one came, though all take part
    int64_t clock_disorder_ns = 0;
};

// Of a collective call: its communicator (or window, or file), and which of the calls on that it is.
struct CallNumber {
    uint64_t of = 0, number = 0;
    uint64_t ordinal() const { return number << 20 ^ of; }
};

class Model {
  public:
    explicit Model(Faults faults = {}) : faults_(faults) {}
    const Faults& faults() const { return faults_; }

    // Learning. `slack` is how long before the call the dependency had happened: where it may be large or small (receive_after_post,
    // wait_own, collective_own), only what had much slack tells the cost without any waiting.
    // Elsewhere: `clean` where nothing else can have prolonged it, else 0.
    static constexpr int64_t clean = int64_t{1} << 60;
    void learn(const CostClass&, int64_t ns, int64_t slack = 0);
    // An instance with noise in it, or with other things to wait for: the cost lies between these. At most: a limit for what others show.
    void learn_between(const CostClass&, int64_t least, int64_t most, int64_t slack = 0);
    // A collective's end, `tail` after the last arrival; noise has delayed it by `likely` or less, by `most` at most, and by `apart` at
    // most where it may have hit at other times of its call than it seems to.
    void learn_tail(const CostClass&, int64_t tail, int64_t likely, int64_t most, int64_t apart);
    void learn_at_most(const CostClass&, int64_t most);
    // A call that began when what it waited for had been sent and posted (all had come to its collective). `own`: the class of its cost if
    // that was there; `message`: the largest, or the collective. Decided in freeze(), which knows how long such are under way.
    void learn_wait(const CostClass& own, const CostClass& message, const WaitSamples::Sample&, bool single);
    // A call that took a message `after` its sending, and completed a send whose receive was posted later than that: it waited for the
    // posting, or for the message to arrive. Decided in freeze(), which knows how long such messages are under way.
    void learn_late_or_arrival(bool same_host, bool partitioned, uint64_t size, const CostClass& message, int64_t after);
    // A standard send that ended before its receive was posted was eager; one that ended soon after may have waited for it.
    void learn_protocol(bool same_host, bool partitioned, uint64_t size, bool ended_before_post, int64_t times = 1);
    // A whole collective of `members` (not non-blocking); `by_root`: the class as its root sees it. Of each class those with the smallest
    // hash of their `ordinal` are kept: so which are does not depend on the order.
    // `any_size`: members do not agree on the size, so all sizes of this operation are one class, of size 0.
    // Kept is also the first of each communicator, of some.
    void learn_instance(const CostClass&, const CostClass& by_root, uint32_t members, Waits waits, CallNumber number, InstanceSample sample,
                        bool any_size = false);
    // Of this class a member has left before another one came: it is not one exchange of all, and gets no structure. (Freeing a
    // communicator waits for nobody then.)
    void learn_apart(const CostClass&, uint32_t members);
    bool wants_instance(const CostClass&, uint32_t members, CallNumber number) const;
    void merge(const Model&);
    // Ends learning. `noise_placed`: whether it is known when within a call noise hit. Several processes that have learned the same can
    // share the search for structures: each looks at its part of the candidates, `join` brings in what the others found, by class.
    struct Search {
        size_t part = 0, parts = 1;
        std::function<void(std::vector<Nearest>&)> join;
        Library library = Library::unknown;
    };
    void freeze(bool noise_placed = true, const Search& = {0, 1, {}, Library::unknown});
    // Between processes (parallel/model_bytes.cpp): what was learned before freeze().
    void write(Bytes&) const;
    static Model read(Input&, Faults faults = {});
    // A frozen model from what another one learned.
    static Model given(const Learned&, Faults faults = {});
    // … and what that does not know: kinds of calls, collectives of so many members.
    void complete(const Learned&);
    // What was shown so far, without its costs: which classes, how often.
    Learned shown() const;

    // Asking. The class itself, else interpolated from the sizes beside it, else unknown: (0, 0, the least upper limit seen). Messages on
    // one side of the eager limit tell nothing about those on the other.
    const Cost& cost(const CostClass&) const;
    bool rendezvous(bool same_host, bool partitioned, uint64_t size) const;
    const LearnedStructure* structure(const CostClass&, uint32_t members) const;           // none: not known
    bool knows_protocol(bool same_host, bool partitioned) const;                           // of sends between such pairs
    bool knows_structure(const CostClass&, uint32_t members) const;                        // or that none was found
    bool never_waits(uint8_t operation) const { return never_wait_.contains(operation); }  // freeing communicators, in most libraries

    Learned learned() const;

    int64_t clock_disorder_ns = 0;  // largest time that a receive ended before its send began
    int64_t clock_step_ns = 1;      // times are whole numbers of it; of this trace, not in files; set before freeze()

  private:
    struct Samples {
        CostClass of{};
        BinMap<CostLimits> by_slack;  // by the logarithm of the slack; `limits_only`: upper limits
        int64_t first = -1;
        int64_t count() const {  // without mere limits
            int64_t all = 0;
            for (const auto& [slack, limits] : by_slack) all += slack == limits_only ? 0 : limits.count();
            return all;
        }
    };
    static constexpr int limits_only = -1;
    static uint64_t protocol_key(bool same_host, bool partitioned, uint64_t size) {
        return (static_cast<uint64_t>(partitioned) << 1 | static_cast<uint64_t>(same_host)) << CostClass::size_bits |
               CostClass::size_class(size, CostClass::message_bits);
    }
    Samples& samples(const CostClass&, int64_t first);
    static CostLimits with_most_slack(const Samples&);
    Cost summarise(const Samples&) const;
    void settle_tails();
    void settle_excess();
    struct Wait {
        CostClass own{}, message{};
        WaitSamples samples;
    };
    void merge_sizes();
    void settle_protocols();
    int64_t shortest_call(const Wait&) const;
    void settle_transfers();
    void settle_waits();
    void settle_open_sizes();
    Cost between_or_beyond(const CostClass&, const LearnedCost* below, const LearnedCost* above) const;
    void add_settled(const CostClass&, const CostLimits&);
    bool same_protocol(const CostClass&, const CostClass&) const;
    struct CollectiveClass {
        CollectiveKind kind;
        std::vector<InstanceSample> samples, set_ups;
        Explanation explanation;
        std::optional<Structure> set_up;
    };
    struct Instances {
        CostClass of{}, by_root{};
        Waits waits = Waits::for_nobody;
        bool apart = false;                       // see learn_apart()
        bool any_size = false;                    // see learn_instance()
        std::map<uint64_t, InstanceSample> kept;  // by the hash of the ordinal
        struct First {
            uint64_t number = UINT64_MAX;
            InstanceSample sample;
        };
        std::map<uint64_t, First> firsts;  // by communicator
        bool wants_first(CallNumber) const;
        void keep_first(CallNumber, const InstanceSample&);
    };
    const LearnedCost* shortest_message(bool same_host) const;
    std::vector<Reference> references(const std::vector<CollectiveClass>&, bool once) const;
    void tell_calls_apart(std::vector<CollectiveClass>*) const;
    void fence_as_barriers(std::vector<CollectiveClass>*) const;
    void share_links_as_others(std::vector<CollectiveClass>*) const;
    bool may_take(const Structure&, const CollectiveKind&) const;
    bool explained_without(const std::vector<InstanceSample>&, const CollectiveClass&, const Search&) const;
    void look_for_set_ups(CollectiveClass&, Instances&, const Search&) const;
    void add(const LearnedStructure&);

    HashedMap<uint64_t, Samples> samples_;
    HashedMap<std::pair<uint64_t, uint64_t>, Wait> waits_;  // by the classes of the call and of the message
    HashedMap<uint64_t, LearnedProtocol> protocols_;
    using InstanceKey = std::pair<uint64_t, uint32_t>;
    std::map<InstanceKey, Instances> instances_;
    std::map<InstanceKey, LearnedStructure> structures_;
    std::set<uint8_t> never_wait_;                // operations
    std::map<InstanceKey, InstanceKey> by_root_;  // the root's view of a class → the class
    std::map<uint64_t, LearnedCost> costs_;       // known ones
    std::map<uint64_t, int64_t> limits_;          // upper limits of classes
    struct LateOrArrival {
        LearnedProtocol protocol;
        CostClass message{};
        Histogram after;
    };
    HashedMap<std::pair<uint64_t, uint64_t>, LateOrArrival> late_or_arrival_;  // by protocol and class of the message
    mutable HashedMap<uint64_t, Cost> asked_;
    mutable HashedMap<uint64_t, bool> rendezvous_asked_;
    Faults faults_;
    bool noise_placed_ = true;  // in the trace, within its calls; else only counters at MPI events tell of it
};

}  // namespace polter::replay
