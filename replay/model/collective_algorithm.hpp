// SPDX-License-Identifier: BSD-3-Clause
// Which algorithm a collective uses, found from its measured leave times: then noise inside it delays those who wait for that message.
//
// An algorithm (algorithms/schedule.hpp) is a programme of sends and receives for each member. A Structure adds its costs in LogGP's terms:
// the overhead o of a send or a receive and the latency L of a message, each with what it takes more for all of the collective's data, and
// from which size on a send is a rendezvous.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/candidates.hpp"
#include "algorithms/decisions.hpp"
#include "algorithms/schedule.hpp"
#include "algorithms/transfers.hpp"
#include "replay/scenario/noise_placement.hpp"
#include "replay/trace/mpi_calls.hpp"

namespace polter::replay {

// Whether there are candidates at all.
inline bool has_structure(Waits waits) {
    return waits == Waits::n_to_n || waits == Waits::one_to_n || waits == Waits::n_to_one || waits == Waits::prefix;
}

struct Structure {
    Pattern pattern;
    int64_t hop = 0, own = 0;            // L and o of a message without data
    int64_t taking_data = 0;             // of a fence: what BlockSizes::unit of transfers adds to taking them
    int64_t hop_data = 0, own_data = 0;  // what all of the data would add; hop_data of a fence: BlockSizes::unit of a transfer
    int64_t call = 0;                    // of the call, beside its messages; of a non-blocking one: of each of its two calls
    int64_t eager_ppm = all_eager;       // a message with a larger part of the data waits for its receive, in millionths
    bool link = false;                   // the network carries messages by itself: their data takes time of the link, not of a processor,
                                         // and so does a send that blocks; what needs no processor goes on while noise has it
    bool link_elsewhere = false;         // leave times leave open what sharing a link takes, so it is as in other collectives
    int64_t error = 0;                   // mean distance of predicted and measured leave times
    int64_t root_error = 0;              // … of roots' alone, where only these wait: many others that send in no time hide it
    bool certain = false;                // a tenth of what a constant leaves, or less

    static constexpr int64_t all_eager = 1'000'000'000;
    // Of a fence: whether a member waits for that, and when it is over. A long one takes own_data more, and whoever it leaves waits, too.
    bool awaits(const AwaitedTransfer& one) const { return !one.leaves || rendezvous(one.length); }
    int64_t over(const AwaitedTransfer& one) const { return one.begin + flight(one.share) + (rendezvous(one.length) ? own_data : 0); }
    // … and what each of so many that come takes then, of so much data in all.
    int64_t taking(uint32_t transfers, double share) const {
        return taking_data == 0 || transfers == 0 ? own : own + static_cast<int64_t>(static_cast<double>(taking_data) * share / transfers);
    }
    bool any_rendezvous() const { return eager_ppm < all_eager; }
    bool rendezvous(double share) const { return share * 1e6 > static_cast<double>(eager_ppm); }
    int64_t flight(double share) const { return hop_data == 0 ? hop : hop + static_cast<int64_t>(static_cast<double>(hop_data) * share); }
    bool by_link(double share) const { return link && rendezvous(share); }
    // An eager one shares the links of its sender and its receiver with what else is under way there; so does a rendezvous by link.
    bool shares_links(double share) const { return link && !rendezvous(share); }
    int64_t work(double share) const { return own + (link ? 0 : by_length(share)); }
    // Of a receiver, once the message is there.
    int64_t taking(double share) const { return by_link(share) ? 0 : rendezvous(share) ? by_length(share) : work(share); }
    int64_t by_length(double share) const { return own_data == 0 ? 0 : static_cast<int64_t>(static_cast<double>(own_data) * share); }
};

// One instance as it was measured, by member.
struct InstanceSample {
    uint64_t ordinal = 0;  // of this call among all: see Model::learn_instance
    uint32_t root = 0;
    const Partition* partition = nullptr;  // of a creation, interned: who came into one communicator; none: not known
    BlockSizes sizes;                      // where they differ between members
    std::vector<TransfersOfMember> transfers;  // of a fence, by member; none: it completes nothing
    std::vector<int64_t> enter, leave;
    std::vector<int64_t> resume;  // of a non-blocking one: when the completing call began; empty: blocking
    std::vector<std::vector<NoisePiece>> noise;
    int64_t unplaced = 0;  // ns of noise of all members, where it is not known when it hit; `noise` has nothing of it
    void forget_places();
};

// A member's own time within an instance: work is prolonged by noise, waiting swallows it.
class MemberClock {
  public:
    void start(int64_t enter, const std::vector<NoisePiece>* noise) {
        now = enter;
        noise_ = noise;
        next_ = 0;
    }
    // `on_noise(piece, ns)`: so much of the piece prolonged this step.
    template <class OnNoise>
    void work(int64_t ns, OnNoise on_noise) {
        int64_t end = now + ns;
        while (noise_ && next_ < noise_->size() && (*noise_)[next_].begin < end) {
            const NoisePiece& piece = (*noise_)[next_++];
            const int64_t counted = piece.end - std::max(piece.begin, now);
            if (counted <= 0) continue;
            on_noise(piece, counted);
            end += counted;
        }
        now = end;
    }
    // Between the calls of a non-blocking one; noise there is the program's own affair.
    void skip(int64_t until) {
        now = std::max(now, until);
        while (noise_ && next_ < noise_->size() && (*noise_)[next_].end <= until) ++next_;
    }
    template <class OnNoise>
    void wait(int64_t until, OnNoise on_noise) {
        if (until <= now) return;
        now = until;
        end(on_noise);
    }
    // As the network goes on by itself: what noise is left then prolongs the next work, or the end.
    void pass(int64_t until) {
        now = std::max(now, until);
        while (noise_ && next_ < noise_->size() && (*noise_)[next_].end <= now) ++next_;
    }
    template <class OnNoise>
    void end(OnNoise on_noise) {
        while (noise_ && next_ < noise_->size() && (*noise_)[next_].begin < now) {
            const NoisePiece& piece = (*noise_)[next_++];
            if (piece.end <= now) continue;
            on_noise(piece, piece.end - now);
            now = piece.end;
        }
    }
    bool hits_later() const { return noise_ && next_ < noise_->size(); }
    int64_t now = 0;

  private:
    const std::vector<NoisePiece>* noise_ = nullptr;
    size_t next_ = 0;
};

// When a member would leave, by a structure, and how many of its costs lie on the way that decided it.
struct Prediction {
    int64_t leave;
    double works, hops;
    double work_data, hop_data;  // the sums of their shares of the data
};
// By member. Without `with_ways` only `leave` is found, which is quicker.
void predict(const Structure& structure, const InstanceSample& sample, std::vector<Prediction>* predicted, bool with_ways = true);

// Of some candidates the one that comes nearest to the leave times.
struct Nearest {
    double error = std::numeric_limits<double>::infinity();  // ns; infinite: there was no candidate
    double score = std::numeric_limits<double>::infinity();  // the error, and more of it for what is less likely beforehand
    uint32_t candidate = 0;
    bool decided = false;  // an MPI is known to use it here
    Structure structure;
    // Of those that an MPI is known to use here. (Each process looks at all of them.)
    double rule_error = std::numeric_limits<double>::infinity(), rule_score = std::numeric_limits<double>::infinity();
    Structure rule;
    // Of two that are equally near the first: so it does not matter who looked at which.
    void join(const Nearest& other) {
        if (std::tie(other.score, other.candidate) < std::tie(score, candidate)) *this = other;
    }
};
// Where the noise inside is not known (`noise_known`), what most leave times say counts. Of `parts` that share the candidates, one: the
// looking takes the time. Where there are few leave times, only algorithms that an MPI is known to use here.
Nearest nearest(const std::vector<InstanceSample>& samples, const CollectiveKind& kind, Library library, bool noise_known, size_t part,
                size_t parts);

// How much the leave times of a class say; what a collective that was called once says, or seldom.
enum class Evidence { few, little, enough };
Evidence evidence(const std::vector<InstanceSample>& samples);

// The same with costs known from other collectives or from messages: as they are, nearly, where there are few leave times; else to start
// from.
struct Reference {
    Structure structure;
    uint64_t data = 0;
};
Structure with_costs(Structure, const Reference&, uint64_t data);  // with those costs, for so much data
Nearest borrow(const std::vector<InstanceSample>& samples, const CollectiveKind& kind, Library library, bool noise_known,
               const std::vector<Reference>& known, size_t part, size_t parts);

// Where all send to the root, what their calls cost is the sending and the call itself, and the leave times do not say how much of it a
// message that the root takes costs as well. `own`: what other collectives say of that. None: the leave times contradict.
std::optional<Structure> apart_from_call(const Structure& found, const std::vector<InstanceSample>& samples, int64_t own);

// What explains the leave times: `found`, the structure and costs that do it best, where it leaves clearly less unexplained than "a
// constant after the last that one waits for" (`constant_error`, in ns). `likeliest`: where there is none, the one that comes nearest. In a
// quiet trace nobody was delayed inside the collective, and a constant says as much; but of messages it was made.
struct Explanation {
    std::optional<Structure> found, likeliest;
    double constant_error = 0;
    int64_t constant_root_error = 0;  // of roots alone, as `Structure::root_error`

    bool leaves_more_than(double part) const { return found && static_cast<double>(found->error) > part * constant_error; }
};
// Of calls that were all hit, where it is not known when: of the algorithms that an MPI is known to use (or else of all), with costs known
// from elsewhere, the one that comes nearest if noise made the calls longer, and by no more than there was. None: noise does not explain
// what they took, or messages are long, in it or in what was `fitted`.
std::optional<Structure> hidden_by_noise(const std::vector<InstanceSample>& samples, const CollectiveKind& kind, Library library,
                                         const std::vector<Reference>& known, const std::optional<Structure>& fitted);

// `best`, `borrowed`: of all candidates.
Explanation explain(const std::vector<InstanceSample>& samples, Waits waits, bool noise_known, const Nearest& best,
                    const Nearest& borrowed = {});

}  // namespace polter::replay
