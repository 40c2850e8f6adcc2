// SPDX-License-Identifier: BSD-3-Clause
// Instances of collectives as they would be measured, for tests of what learning makes of them.
#pragma once

#include <random>

#include "replay/model/fit/collective_fit.hpp"

namespace polter::replay {

inline constexpr Structure dissemination{.pattern = {.up = Shape::dissemination}, .hop = 8000, .own = 300};

// One instance as it is measured: members come apart, noise hits some of them inside, and what they do takes up to `jitter` longer.
inline InstanceSample measured(uint32_t members, uint64_t seed, int64_t jitter, const Structure& by = dissemination,
                               const Partition* partition = nullptr) {
    std::mt19937_64 random(seed);
    InstanceSample sample;
    sample.partition = partition;
    sample.noise.resize(members);
    for (uint32_t i = 0; i < members; ++i) {
        sample.enter.push_back(static_cast<int64_t>(random() % 20000));
        const int64_t hit = sample.enter[i] + 200 + static_cast<int64_t>(random() % 30000);
        if (random() % 3 == 0) sample.noise[i].push_back({hit, hit + 9000});
    }
    std::vector<Prediction> predicted;
    predict(by, sample, &predicted);
    for (const Prediction& member : predicted)
        sample.leave.push_back(member.leave + (jitter > 0 ? static_cast<int64_t>(random() % static_cast<uint64_t>(jitter)) : 0));
    return sample;
}

inline constexpr CollectiveKind kind{.operation = operation_init, .waits = Waits::n_to_n};  // of which no MPI's rules speak

inline Explanation explanation(const std::vector<InstanceSample>& samples) {
    return explain(samples, Waits::n_to_n, true, nearest(samples, kind, Library::unknown, true, 0, 1));
}

}  // namespace polter::replay
