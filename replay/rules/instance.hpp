// SPDX-License-Identifier: BSD-3-Clause
// One collective whose structure is known, evaluated as its members come: measured, to place their noise in its steps, and in lanes.
#pragma once

#include <cstdint>
#include <vector>

#include "../lanes.hpp"
#include "../pool.hpp"
#include "structure.hpp"

namespace polter::replay {

class Instance {
  public:
    // `root` as a member of the communicator. Vectors of lanes come from the pool and go back with clear().
    void begin(const Structure& structure, uint32_t members, uint32_t root, const Lanes& lanes, LanePool& pool);
    // `arrival`: the member's approximated time of entering, in lanes. Everything that can go on then does; the members that came to
    // their end are given (until the next call).
    // `held`: a non-blocking one was started; of its steps those are done that wait for nothing, until resume().
    const std::vector<uint32_t>& arrive(uint32_t member, int64_t enter, const int64_t* arrival, const std::vector<NoisePiece>& noise,
                                        bool held = false);
    const std::vector<uint32_t>& resume(uint32_t member, int64_t enter, const int64_t* arrival, const std::vector<NoisePiece>& noise);
    bool active() const { return lanes_ != nullptr; }
    const Structure& structure() const { return structure_; }
    bool done(uint32_t member) const { return clocks_[place(member)].done; }
    int64_t measured_end(uint32_t member) const { return clocks_[place(member)].clock.now; }
    const int64_t* approximated_end(uint32_t member) const { return clocks_[place(member)].time; }
    void clear();

  private:
    struct Clock {
        MemberClock clock;
        std::vector<NoisePiece> noise;
        int64_t* time = nullptr;  // approximated, in lanes; none: has not come
        size_t at = 0;
        bool held = false, done = false;
    };
    struct Message {
        int64_t arrival = INT64_MIN;
        int64_t* time = nullptr;
    };
    uint32_t place(uint32_t member) const { return (member + members_ - first_) % members_; }
    void go_on(uint32_t place);
    int64_t gained_by_order(int64_t begin, size_t lane);
    void run(uint32_t place);
    static void set_noise(Clock& clock, const std::vector<NoisePiece>& noise);
    void work(Clock& clock);
    void receive(Clock& clock, Message& message);

    Structure structure_;
    const Schedule* schedule_ = nullptr;
    const Lanes* lanes_ = nullptr;
    LanePool* pool_ = nullptr;
    uint32_t members_ = 0, first_ = 0;
    std::vector<Clock> clocks_;
    std::vector<Message> messages_;
    std::vector<uint32_t> ready_, ended_, order_;
    std::vector<int64_t> coming_, gained_;
};

}  // namespace polter::replay
