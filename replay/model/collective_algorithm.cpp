// SPDX-License-Identifier: BSD-3-Clause
#include "collective_algorithm.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>

namespace polter::replay {

namespace {

// The mean; where the noise is not known, without the greatest, which may be noise. (Not the median: where most members wait for
// nobody it says nothing of the others.)
double typical(std::vector<int64_t>& distances, bool noise_known) {
    constexpr size_t believed = 80;  // per cent
    if (distances.empty()) return 0;
    auto end = distances.end();
    if (!noise_known) {
        end = distances.begin() + static_cast<std::ptrdiff_t>((distances.size() * believed + 99) / 100);
        if (end != distances.end()) std::nth_element(distances.begin(), end, distances.end());
    }
    return std::accumulate(distances.begin(), end, 0.0) / static_cast<double>(end - distances.begin());
}

using Predictions = std::vector<std::vector<Prediction>>;  // by sample

// Distance of prediction and measurement, or anything from `most` on where it is that or more: then not all are predicted.
double error_of(const Structure& structure, const std::vector<InstanceSample>& samples, bool noise_known, double most,
                Predictions* predictions) {
    std::vector<int64_t> distances;
    size_t all = 0;
    for (const InstanceSample& sample : samples) all += sample.leave.size();
    distances.reserve(all);
    predictions->resize(samples.size());
    double sum = 0;
    for (size_t s = 0; s < samples.size(); ++s) {
        std::vector<Prediction>& predicted = (*predictions)[s];
        predict(structure, samples[s], &predicted);
        for (size_t i = 0; i < predicted.size(); ++i) {
            distances.push_back(std::abs(predicted[i].leave - samples[s].leave[i]));
            sum += static_cast<double>(distances.back());
        }
        if (noise_known && sum / static_cast<double>(all) >= most) return most;
    }
    return typical(distances, noise_known);
}

// Once it is known which way the last message took to a member, its leave time is linear in the two costs:
// leave = base + works · own + hops · hop. `predictions`: by the structure as it is. Least absolute distances by reweighted least squares
// (a few noisy instances must not matter); false where the ways leave the costs open.
bool regress(Structure* structure, const std::vector<InstanceSample>& samples, const Predictions& predictions) {
    double ww = 0, wh = 0, hh = 0, wy = 0, hy = 0;
    for (size_t s = 0; s < samples.size(); ++s) {
        const InstanceSample& sample = samples[s];
        const std::vector<Prediction>& predicted = predictions[s];
        for (size_t i = 0; i < predicted.size(); ++i) {
            const double works = predicted[i].works, hops = predicted[i].hops;
            const auto off = static_cast<double>(sample.leave[i] - predicted[i].leave);
            const double y = off + works * static_cast<double>(structure->own) + hops * static_cast<double>(structure->hop);
            const double weight = 1 / std::max(10.0, std::abs(off));
            ww += weight * works * works;
            wh += weight * works * hops;
            hh += weight * hops * hops;
            wy += weight * works * y;
            hy += weight * hops * y;
        }
    }
    if (ww <= 0 || hh <= 0) return false;
    const double determinant = ww * hh - wh * wh;
    double own = 0, hop = 0;
    if (determinant > 1e-9 * ww * hh) {
        own = (wy * hh - hy * wh) / determinant;
        hop = (hy * ww - wy * wh) / determinant;
    }
    if (own <= 0 || hop <= 0) {  // a cost is not negative: the better of one of them alone
        const bool hops_alone = hy * hy * ww > wy * wy * hh;
        own = hops_alone ? 0 : std::max(0.0, wy / ww);
        hop = hops_alone ? std::max(0.0, hy / hh) : 0;
    }
    structure->own = std::llround(own);
    structure->hop = std::llround(hop);
    return true;
}

// The costs decide the ways and the ways the costs: in turn, while it gets better, from the best of some starts. `error`: of what is found.
Structure fit(const Pattern& pattern, const std::vector<InstanceSample>& samples, bool noise_known, double* error) {
    std::vector<int64_t> tails;
    for (const InstanceSample& sample : samples) {
        const int64_t last = *std::max_element(sample.enter.begin(), sample.enter.end());
        for (size_t i = 0; i < sample.resume.size(); ++i) tails.push_back(std::max<int64_t>(1, sample.leave[i] - sample.resume[i]));
        if (!sample.resume.empty()) continue;
        for (const int64_t leave : sample.leave) tails.push_back(std::max<int64_t>(1, std::abs(leave - last)));
    }
    std::nth_element(tails.begin(), tails.begin() + static_cast<std::ptrdiff_t>(tails.size() / 2), tails.end());
    const int64_t scale = tails[tails.size() / 2];
    Structure best{pattern};
    Predictions by_best, by_trial;
    double least = error_of(best, samples, noise_known, std::numeric_limits<double>::infinity(), &by_best);
    const auto try_out = [&](const Structure& trial) {
        const double distance = error_of(trial, samples, noise_known, least, &by_trial);
        if (distance >= least) return false;
        least = distance;
        best = trial;
        by_best.swap(by_trial);
        return true;
    };
    for (const int64_t part : {2, 8, 64})
        for (const int64_t quarters : {0, 1, 4}) try_out({pattern, scale / part, scale / part * quarters / 4});
    for (int round = 0; round < 16; ++round) {
        Structure next = best;
        if (!regress(&next, samples, by_best) || !try_out(next)) break;
    }
    *error = least;
    best.error = static_cast<int64_t>(least);
    return best;
}

// "A constant after the last that one waits for": what a structure must beat.
double plain_error(const std::vector<InstanceSample>& samples, Waits waits, bool noise_known) {
    std::vector<int64_t> waiting, free;
    for (const InstanceSample& sample : samples) {
        const int64_t last = *std::max_element(sample.enter.begin(), sample.enter.end());
        int64_t lower = INT64_MIN;
        for (size_t i = 0; i < sample.enter.size(); ++i) {
            lower = std::max(lower, sample.enter[i]);
            const bool waits_for_everyone = waits == Waits::n_to_n || (waits == Waits::n_to_one && i == sample.root);
            const bool root_only = waits == Waits::one_to_n && i != sample.root;
            int64_t from = waits_for_everyone ? last : root_only ? std::max(sample.enter[sample.root], sample.enter[i]) : sample.enter[i];
            if (waits == Waits::prefix) from = lower;
            if (!sample.resume.empty()) from = std::max(from, sample.resume[i]);
            int64_t noise = 0;
            for (const NoisePiece& piece : sample.noise[i])
                if (piece.end > from) noise += piece.end - std::max(piece.begin, from);
            (waits_for_everyone || root_only ? waiting : free).push_back(sample.leave[i] - from - noise);
        }
    }
    std::vector<int64_t> distances;
    for (auto* list : {&waiting, &free}) {
        if (list->empty()) continue;
        std::sort(list->begin(), list->end());
        const int64_t median = (*list)[list->size() / 2];
        for (const int64_t value : *list) distances.push_back(std::abs(value - median));
    }
    return typical(distances, noise_known);
}

// What a collective that was called once says, or seldom: few leave times say enough if they are met exactly, by two costs.
enum class Evidence { none, little, enough };
Evidence evidence(const std::vector<InstanceSample>& samples) {
    const size_t leave_times = samples.empty() ? 0 : samples.size() * samples.front().leave.size();
    return leave_times < 12 ? Evidence::none : leave_times < 24 ? Evidence::little : Evidence::enough;
}

}  // namespace

Nearest nearest(const std::vector<InstanceSample>& samples, Waits waits, bool noise_known, size_t part, size_t parts) {
    Nearest best;
    if (evidence(samples) == Evidence::none) return best;
    uint32_t candidate = 0;
    for (const Pattern& pattern : candidates(waits, static_cast<uint32_t>(samples.front().enter.size()))) {
        Nearest one{.candidate = candidate++};
        if (one.candidate % parts != part) continue;
        one.structure = fit(pattern, samples, noise_known, &one.error);
        best.join(one);
    }
    return best;
}

Explanation explain(const std::vector<InstanceSample>& samples, Waits waits, bool noise_known, const Nearest& best) {
    // Of many patterns one is always a little better than none of them: only one that explains most of what a constant leaves.
    const bool little = evidence(samples) == Evidence::little;
    const double left = little ? 0.02 : 0.5;
    Explanation explanation;
    if (samples.empty()) return explanation;
    explanation.constant_error = plain_error(samples, waits, noise_known);
    if (!std::isfinite(best.error)) return explanation;
    Structure structure = best.structure;
    structure.certain = best.error * 10 <= explanation.constant_error;
    if (best.error < explanation.constant_error * left)
        explanation.found = structure;
    else if (!little)
        explanation.likeliest = structure;
    return explanation;
}

}  // namespace polter::replay
