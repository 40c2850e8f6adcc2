// SPDX-License-Identifier: BSD-3-Clause
// predict() for all samples of a class at once, by structures that differ in nothing but their costs: fitting asks for this some hundred
// times an algorithm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithms/fair_link.hpp"
#include "predict_order.hpp"

namespace polter::replay {

// So many samples are followed side by side.
constexpr size_t samples_together = 8;
struct SampleTimes {
    int64_t of[samples_together];
};
struct SampleParts {
    double of[samples_together];
};

class SamplesTogether {
  public:
    // Whether it can follow these, and faster than one by one: blocking ones, whose messages cost the same in all samples. Of many members
    // some always have noise, and what comes to one from all others is sorted for each sample.
    static bool can_follow(const std::vector<InstanceSample>& samples);
    // `plain` has the algorithm and the protocol of all that will be asked for; the samples outlive this.
    SamplesTogether(const Structure& plain, const std::vector<InstanceSample>& samples);

    // By sample and member, one sample behind the other.
    const std::vector<int64_t>& leaves(const Structure& structure);
    // The same as predict(), by sample.
    void predict(const Structure& structure, std::vector<std::vector<Prediction>>* predictions);

    struct Noise {
        const NoisePiece *next = nullptr, *end = nullptr;
    };
    struct Way {
        SampleParts works, hops, work_data, hop_data;
    };
    // Samples that follow one schedule; those missing to a whole number of columns repeat the first one, without noise.
    struct Column {
        size_t group = 0;
        std::vector<size_t> samples;
        std::vector<uint32_t> first;     // by sample: the member at place 0
        std::vector<SampleTimes> enter;  // by place
        std::vector<Noise> noise;        // by place and sample
        std::vector<uint8_t> noisy;      // by place
    };
    struct State {
        std::vector<SampleTimes> now, arrival, ready, posted;  // by place; by message; …
        std::vector<Way> way, arrival_way, ready_way, posted_way;
        std::vector<Noise> noise;
        std::vector<uint32_t> order;
        FairLink link;
        LinkSlopes slopes;
    };

  private:
    struct Group {
        const Schedule* schedule = nullptr;
        StepProgram program;
        std::vector<MessageCost> costs;  // by message
    };
    void find_program(const Structure& plain, Group& group) const;
    void find_costs(const Structure& structure);
    template <bool with_ways>
    void follow(const Structure& structure, const Column& column);

    const std::vector<InstanceSample>& samples_;
    uint32_t members_ = 0;
    std::vector<Group> groups_;
    std::vector<Column> columns_;
    State state_;
    std::vector<int64_t> leaves_;
};

}  // namespace polter::replay
