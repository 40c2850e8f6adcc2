// SPDX-License-Identifier: BSD-3-Clause
// The virtual ranks' run, evaluated from the equations of the ranks that they are copies of.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "collectives.hpp"
#include "layout.hpp"
#include "noise.hpp"

namespace polter::prediction {

// What a collective's algorithm does not explain of the measured calls, by rank and collective: with the recorded noise, and without.
struct Residual {
    int64_t recorded = 0, quiet = 0;
    bool for_all = true;
};
using Residuals = std::vector<std::vector<Residual>>;
Residuals residuals_of(const replay::Programs&);

struct Outcome {
    int64_t end = 0;       // of the last rank, since the run's beginning
    double local_ns = 0;   // noise that hit a rank, on average; of drawn noise only
    uint64_t most_open = 0;  // messages that were kept at once
};

class Simulation {
  public:
    // All outlive it.
    Simulation(const replay::Programs&, const Layout&, const Residuals&);

    Outcome quiet();
    Outcome recorded();  // each copy has the noise of the rank that it is copied from, in the same places of the program
    Outcome drawn(const NoiseDraw&);

  private:
    enum class Mode : uint8_t { quiet, recorded, drawn };
    struct Message {
        int64_t departure = INT64_MIN, posted = INT64_MIN;
        uint8_t users = 1;  // who may still ask for it
    };
    struct Queue {
        std::deque<Message> messages;
        uint32_t first = 0;                             // number of the first one that is kept
        uint32_t sends = 0, posts = 0;                  // so far
        int32_t receiver_waits = -1, sender_waits = -1;  // ranks
    };
    struct Rank {
        int64_t now = 0, enter = 0;
        uint32_t call = 0, send = 0, post = 0, wait = 0;
        bool in_call = false, done = false;
        DrawnClock clock;
    };
    struct Instance {
        uint32_t came = 0;
        std::vector<int32_t> ranks;
        std::vector<int64_t> enter;
    };
    Outcome run(Mode, const NoiseDraw*);
    void go_on(int32_t rank);
    void begin_call(int32_t rank);
    bool end_call(int32_t rank);
    bool take_part(int32_t rank);
    bool latest(int32_t rank, int64_t* end);
    Message& message(Queue&, uint32_t number);
    void forget(int32_t rank);
    int64_t work(Rank&, int64_t ns, int64_t noise);
    const replay::Program& program(int32_t rank) const { return programs_.ranks[static_cast<size_t>(layout_.parent(rank))]; }

    const replay::Programs& programs_;
    const Layout& layout_;
    const Residuals& residuals_;
    Mode mode_ = Mode::quiet;
    std::vector<Rank> ranks_;
    std::vector<Queue> queues_;
    std::vector<uint32_t> counters_;                             // by link: messages sent, or posted, so far
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> came_;     // by rank and communicator: collectives so far
    std::map<std::pair<uint32_t, uint32_t>, Instance> instances_;  // by communicator and number
    std::vector<int32_t> ready_;
    CollectiveRun collective_;
    uint64_t open_ = 0, most_open_ = 0;
};

}  // namespace polter::prediction
