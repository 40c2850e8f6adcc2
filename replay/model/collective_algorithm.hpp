// SPDX-License-Identifier: BSD-3-Clause
// Which algorithm a collective uses, found from its measured leave times: then noise inside it delays those who wait for that message.
//
// An algorithm (Structure) is a programme of sends and receives for each member (Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, has the
// usual ones), with two costs of LogGP: `own`, the overhead o of a send or a receive, and `hop`, the latency L of a message.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "replay/scenario/noise_placement.hpp"
#include "replay/trace/mpi_calls.hpp"

namespace polter::replay {

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
    everyone,            // a message to each of the others, then theirs as they come
    everyone_by_4,       // the same in portions of 4
    everyone_by_32,
    everyone_by_number,  // as everyone, but sent in the order 0, 1, 2, … and not from one's own number on
    everyone_above,      // a message to each with a higher number, then those of the lower ones as they come
};

// First what goes up to place 0, then what comes down from it. Places are counted from the root; `relay`: by number, and what the root
// has to give or to get goes through member 0.
struct Pattern {
    Shape up = Shape::none, down = Shape::none;
    bool relay = false;
    auto operator<=>(const Pattern&) const = default;
};

struct Schedule {
    struct Step {
        uint32_t message;
        uint32_t peer;  // its place
        bool receive;
        uint32_t together;  // so many receives from here on are taken in the order in which their messages come
    };
    std::vector<std::vector<Step>> steps;  // by place
    uint32_t messages = 0;
};

// Cached; lives for ever.
const Schedule& schedule(const Pattern& pattern, uint32_t members, uint32_t root);

// What `place` waits for, by place: 0 nothing, 1 a message that waited for none itself, 2 one that did.
std::vector<uint8_t> waited_for(const Schedule&, uint32_t place);

// The member at place 0.
inline uint32_t first_member(const Pattern& pattern, uint32_t root) {
    return pattern.relay ? 0 : root;
}

// Whether there are candidates at all.
inline bool has_structure(Waits waits) {
    return waits == Waits::n_to_n || waits == Waits::one_to_n || waits == Waits::n_to_one || waits == Waits::prefix;
}

// The candidates for what a collective waits for.
std::vector<Pattern> candidates(Waits waits, uint32_t members);

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

struct Structure {
    Pattern pattern;
    int64_t hop = 0, own = 0;
    int64_t error = 0;     // mean distance of predicted and measured leave times
    bool certain = false;  // a tenth of what a constant leaves, or less
};

// One instance as it was measured, by member.
struct InstanceSample {
    uint32_t root = 0;
    std::vector<int64_t> enter, leave;
    std::vector<int64_t> resume;  // of a non-blocking one: when the completing call began; empty: blocking
    std::vector<std::vector<NoisePiece>> noise;
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
        while (noise_ && next_ < noise_->size() && (*noise_)[next_].begin < now) {
            const NoisePiece& piece = (*noise_)[next_++];
            if (piece.end <= until) continue;
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
    uint32_t works, hops;
};
void predict(const Structure& structure, const InstanceSample& sample, std::vector<Prediction>* predicted);  // by member

// Of some candidates the one that comes nearest to the leave times.
struct Nearest {
    double error = std::numeric_limits<double>::infinity();  // ns; infinite: there was no candidate
    uint32_t candidate = 0;
    Structure structure;
    // Of two that are equally near the first: so it does not matter who looked at which.
    void join(const Nearest& other) {
        if (std::tie(other.error, other.candidate) < std::tie(error, candidate)) *this = other;
    }
};
// Where the noise inside is not known (`noise_known`), what most leave times say counts. Of `parts` that share the candidates, one: the
// looking takes the time.
Nearest nearest(const std::vector<InstanceSample>& samples, Waits waits, bool noise_known, size_t part, size_t parts);

// What explains the leave times: `found`, the structure and costs that do it best, where it explains most of what "a constant after the
// last that one waits for" leaves unexplained (`constant_error`, in ns). `likeliest`: where there is none, the one that comes nearest. In a
// quiet trace nobody was delayed inside the collective, and a constant says as much; but of messages it was made.
struct Explanation {
    std::optional<Structure> found, likeliest;
    double constant_error = 0;
};
// `best`: of all candidates.
Explanation explain(const std::vector<InstanceSample>& samples, Waits waits, bool noise_known, const Nearest& best);

std::string to_string(const Pattern&);

}  // namespace polter::replay
