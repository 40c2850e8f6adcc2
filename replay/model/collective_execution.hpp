// SPDX-License-Identifier: BSD-3-Clause
// One collective whose structure is known, evaluated as its members come: measured, to place their noise in its steps, and in lanes.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "algorithms/bursts.hpp"
#include "algorithms/fair_link.hpp"
#include "collective_algorithm.hpp"
#include "predict_order.hpp"
#include "replay/base/pool.hpp"
#include "replay/scenario/lanes.hpp"
#include "replay/trace/call_path.hpp"

namespace polter::replay {

class InjectedClock;
class Recorder;

// What a member has begun and its fence completes.
struct StartedTransfer {
    uint32_t from = 0, to = 0;  // members
    int64_t begin = 0;          // measured
    double share = 0;           // as in MemberTransfer
    LaneVector time;            // approximated
    uint64_t node = 0;          // of the event graph: what decided `time`
};

// Who goes on in it; all but `number` for the event graph: `node` is where the call begins with which the member comes.
struct Participant {
    uint32_t number = 0, thread = 0;
    Place place;
    uint64_t node = 0;
    std::vector<InjectedClock>* injected = nullptr;  // noise that hits its steps, by lane; none: nothing is injected. Outlives the instance
};

class Instance {
  public:
    // `root` as a member of the communicator. The instance holds vectors of the pool until clear().
    void begin(const Structure& structure, uint32_t members, uint32_t root, const Lanes& lanes, LanePool& pool,
               Recorder* recorder = nullptr, const Partition* partition = nullptr, BlockSizes sizes = {});
    // `arrival`: the member's approximated time of entering, in lanes. Everything that can go on then does; the members that came to
    // their end are given (until the next call).
    void add(StartedTransfer transfer);  // before its members come
    // `held`: a non-blocking one was started; of its steps those are done that wait for nothing, until resume().
    const std::vector<uint32_t>& arrive(const Participant& member, int64_t enter, const int64_t* arrival,
                                        const std::vector<NoisePiece>& noise, bool held = false);
    const std::vector<uint32_t>& resume(const Participant& member, int64_t enter, const int64_t* arrival,
                                        const std::vector<NoisePiece>& noise);
    bool active() const { return lanes_ != nullptr; }
    const Structure& structure() const { return structure_; }
    bool done(uint32_t member) const { return clocks_[place(member)].done; }
    int64_t measured_end(uint32_t member) const { return clocks_[place(member)].clock.now; }
    const int64_t* approximated_end(uint32_t member) const { return clocks_[place(member)].time; }
    uint64_t end_node(uint32_t member) const { return clocks_[place(member)].node; }
    // What `member` cannot end before, by member: 0 nothing, 1 a message that waited for none itself, 2 one that did.
    std::vector<uint8_t> waited_for(uint32_t member) const;
    void clear();

  private:
    struct Clock {
        MemberClock clock;
        std::vector<NoisePiece> noise;
        LaneVector time;  // approximated, in lanes; none: has not come
        std::vector<InjectedClock>* injected = nullptr;
        size_t at = 0;
        size_t shared_upto = 0;  // its steps before that: their messages have shared its link
        bool held = false, done = false;
        uint32_t thread = 0;
        Place where;
        uint64_t node = 0;
    };
    struct Message {
        int64_t arrival = INT64_MIN;
        uint64_t node = 0;
        LaneVector time;
        // Of a rendezvous: when its sender and its receiver were there. `sent`, `posted`: in lanes, with the time under way. Of an eager
        // one that shares links: when it would be there alone.
        int64_t ready = INT64_MIN, receivable = INT64_MIN;
        uint64_t posted_node = 0;
        LaneVector sent, posted;
        // Of a rendezvous in bursts, once it is under way: how much later it is for the others' sake, measured and in lanes.
        int64_t later = 0;
        LaneVector later_in;
        uint32_t uses = 0;  // of its time: by the receiver, and by a sender that waits for the end
    };
    uint32_t place(uint32_t member) const { return (member + members_ - first_) % members_; }
    void go_on(uint32_t place);
    int64_t gained_by_order(int64_t begin, size_t lane);
    void run(uint32_t place);
    static void set_noise(Clock& clock, const std::vector<NoisePiece>& noise);
    void count(Clock& clock, const NoisePiece& piece, int64_t ns);  // noise that prolonged it
    void work(Clock& clock, int64_t ns);
    void work_measured(Clock& clock, int64_t ns);  // in the measured run alone, noise aside
    // `behind`: of work that follows, in lanes.
    void wait(Clock& clock, Message& message, bool recorded, int64_t behind = 0);
    void go_on_if_waiting(uint32_t place) {
        if (const Clock& clock = clocks_[place]; clock.time && !clock.done) ready_.push_back(place);
    }
    void candidate(uint64_t from, const int64_t* time, int64_t base);
    void write(Clock& clock);
    void send(Clock& clock, const Schedule::Step& step);
    void share_out(const std::vector<Schedule::Step>& steps, const Schedule::Step& step);
    bool share_in(Clock& clock);
    template <class Alone, class Later>
    void share_as(const std::vector<uint32_t>& messages, Alone alone, Later later);
    void share(const std::vector<uint32_t>& messages);
    void post(Clock& clock, const Schedule::Step& step);
    void settle(uint32_t number);
    void share_burst(const std::vector<uint32_t>& messages);
    void come(uint32_t number);
    bool receive(Clock& clock, const Schedule::Step* step);
    bool complete(Clock& clock, const Schedule::Step& step);
    void await_transfers(Clock& clock, uint32_t member);
    void candidate(const StartedTransfer& transfer, bool leaves, int64_t base);
    template <class Begin>
    int64_t transfers_over(uint32_t member, Begin begin);
    double share_of(uint32_t message) const { return sizes_.share(*schedule_, message); }
    MessageCost cost(uint32_t message) const { return uniform_ ? cost_ : MessageCost(structure_, share_of(message)); }
    bool rendezvous(uint32_t message) const { return cost(message).rendezvous; }
    int64_t taking(uint32_t message) const { return cost(message).taking; }
    bool only_removed_follows(const Clock& clock, size_t lane) const;
    void find_gains(const Clock& clock);
    void record_reordered(Clock& clock, int64_t end_without_noise);
    bool reorders_watched() const;
    int64_t candidates_by_order(const Clock& clock);

    Structure structure_;
    const Schedule* schedule_ = nullptr;
    BlockSizes sizes_;
    bool uniform_ = false;
    MessageCost cost_;  // of all messages, if uniform
    const Lanes* lanes_ = nullptr;
    LanePool* pool_ = nullptr;
    Recorder* recorder_ = nullptr;
    uint32_t members_ = 0, first_ = 0;
    std::vector<Clock> clocks_;
    std::vector<Message> messages_;
    std::vector<uint32_t> ready_, ended_, order_;
    std::vector<uint32_t> sent_, sharing_;  // one after another by one member; to one member
    FairLink link_;
    Bursts bursts_;
    struct Coming {
        int64_t arrival = 0, taking = 0;
    };
    std::vector<Coming> coming_;
    std::vector<int64_t> gained_;
    struct Counted {
        NoisePiece piece;
        int64_t ns = 0;
    };
    std::vector<Counted> among_;  // noise that prolonged the taking of messages that come in another order in some lane
    bool keep_among_ = false;     // for later, when all are taken
    std::vector<StartedTransfer> transfers_;
    std::vector<std::array<std::vector<uint32_t>, 2>> at_link_;  // by member: which of them it sends, and which come to it
    std::vector<AwaitedTransfer> of_link_, awaited_;
    std::vector<int64_t> over_;  // in lanes
};

}  // namespace polter::replay
