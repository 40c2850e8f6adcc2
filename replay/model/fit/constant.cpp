// SPDX-License-Identifier: BSD-3-Clause
// "A constant after the last that one waits for": what an algorithm must beat.
#include <algorithm>

#include "collective_fit.hpp"

namespace polter::replay {

namespace {

// A call that waits: for what came at `came`; its own beginning (of non-blocking collectives, of the call that completes them) and its end
// without its noise.
struct Waiting {
    int64_t came = 0, began = 0, left = 0;
    const InstanceSample* sample = nullptr;
    size_t member = 0;
};

// Of non-blocking collectives the constant counts from the last arrival, however much later the completing call began: that is what is
// known of them without an algorithm.
void add_distances_from_constant(const std::vector<Waiting>& waiting, Distances* distances) {
    std::vector<int64_t> took, waited;
    for (const Waiting& call : waiting) {
        took.push_back(call.left - call.came);
        if (call.began <= call.came) waited.push_back(took.back());
    }
    std::vector<int64_t>& list = waited.empty() ? took : waited;
    if (list.empty()) return;
    std::sort(list.begin(), list.end());
    const int64_t median = list[list.size() / 2];
    for (const Waiting& call : waiting)
        distances->add(*call.sample, call.member, std::abs(call.left - std::max(call.began, call.came + median)));
}

}  // namespace

// "A constant after the last that one waits for": what a structure must beat.
double plain_error(const std::vector<InstanceSample>& samples, Waits waits, bool noise_known) {
    std::vector<Waiting> waiting, free;
    for (const InstanceSample& sample : samples) {
        const int64_t last = *std::max_element(sample.enter.begin(), sample.enter.end());
        int64_t lower = INT64_MIN;
        for (size_t i = 0; i < sample.enter.size(); ++i) {
            lower = std::max(lower, sample.enter[i]);
            const bool waits_for_everyone = waits == Waits::n_to_n || (waits == Waits::n_to_one && i == sample.root);
            const bool root_only = waits == Waits::one_to_n && i != sample.root;
            int64_t came = waits_for_everyone ? last : root_only ? std::max(sample.enter[sample.root], sample.enter[i]) : sample.enter[i];
            if (waits == Waits::prefix) came = lower;
            const int64_t began = sample.resume.empty() ? came : sample.resume[i], from = std::max(came, began);
            int64_t noise = 0;
            for (const NoisePiece& piece : sample.noise[i])
                if (piece.end > from) noise += piece.end - std::max(piece.begin, from);
            if (waits_for_everyone || root_only || waits == Waits::prefix)
                waiting.push_back({came, began, sample.leave[i] - noise, &sample, i});
            else
                free.push_back({from, from, sample.leave[i] - noise, &sample, i});
        }
    }
    Distances distances;
    add_distances_from_constant(waiting, &distances);
    add_distances_from_constant(free, &distances);
    return typical(distances, noise_known);
}

}  // namespace polter::replay
