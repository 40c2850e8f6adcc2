// SPDX-License-Identifier: BSD-3-Clause
// The first pass of the GOAL export: what a rank alone cannot know. Which messages have both ends, how large a collective is and whether
// all its members took part, and noise that was found late.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../timeline_reader.hpp"

namespace polter::exports {

// A communicator's collectives are numbered, by each member alike, in the order in which it begins them.
class CollectiveNumbers {
  public:
    void clear();
    // The number of the collective that this record belongs to; `request`: nothing more is known yet.
    uint64_t number(const Record&);
    void request(const Record&);

  private:
    std::unordered_map<uint32_t, uint64_t> next_;       // by communicator
    std::unordered_map<uint64_t, uint64_t> requested_;  // by request
};

// Of a rank that sends or receives; equal at both ends.
struct Channel {
    int32_t from = 0, to = 0;
    uint32_t comm = 0, tag = 0, partitioned = 0;
    auto operator<=>(const Channel&) const = default;
};

class GoalSurvey : public Sink {
  public:
    explicit GoalSurvey(const replay::Definitions& definitions) : definitions_(definitions) {}

    struct Collective {
        uint8_t operation = 0;
        uint32_t root = 0, members = 0;  // members: that took part
        uint64_t most = 0, sum = 0;      // bytes, of members that are not the root
    };
    // All bytes that it moves, once (replay/model/algorithms/candidates.hpp).
    static uint64_t data(const Collective&, uint32_t members);

    const Collective* collective(uint32_t comm, uint64_t number) const;
    // So many of a channel's messages have both ends.
    uint64_t whole_messages(const Channel&) const;
    uint64_t half_messages() const;  // that have one end only
    // By rank: intervals of noise that was recorded after the call or computation in which it hit, by time.
    const std::vector<std::pair<int64_t, int64_t>>& late_noise(int32_t rank) const { return late_.at(rank); }

    void begin(const Place&) override;
    void enter(int64_t time, uint32_t, bool) override { last_call_ = time; }
    void leave(int64_t time) override { last_call_ = time; }
    void record(const Record&) override;
    void noise(const NoiseSlice&) override;
    void end() override;

  private:
    const replay::Definitions& definitions_;
    Place place_;
    int64_t last_call_ = 0;
    CollectiveNumbers numbers_;
    std::unordered_map<uint32_t, std::vector<Collective>> collectives_;  // by communicator and number
    std::map<Channel, std::pair<uint64_t, uint64_t>> channels_;          // sent, received
    std::map<int32_t, std::vector<std::pair<int64_t, int64_t>>> late_;
};

}  // namespace polter::exports
