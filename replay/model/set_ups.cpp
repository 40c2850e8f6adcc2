// SPDX-License-Identifier: BSD-3-Clause
#include "set_ups.hpp"

#include <algorithm>
#include <map>

#include "fit/collective_fit.hpp"

namespace polter::replay {

namespace {

// From the last coming to the last leaving.
int64_t length_of(const InstanceSample& sample) {
    return *std::max_element(sample.leave.begin(), sample.leave.end()) - *std::max_element(sample.enter.begin(), sample.enter.end());
}

// The same without the most noise that one member had in it.
int64_t unexplained(const InstanceSample& sample) {
    const int64_t came = *std::max_element(sample.enter.begin(), sample.enter.end()), took = length_of(sample);
    return took - longest_noise(sample, came, came + took);
}

// What calls take by an algorithm in sum.
double length_of(const Structure& structure, std::vector<InstanceSample> calls) {
    double took = 0;
    std::vector<Prediction> predicted;
    for (InstanceSample& call : calls) {
        predict(structure, call, &predicted, false);
        for (size_t i = 0; i < predicted.size(); ++i) call.leave[i] = predicted[i].leave;
        took += static_cast<double>(length_of(call));
    }
    return took;
}

}  // namespace

std::vector<InstanceSample> take_set_ups(std::vector<InstanceSample>* samples, std::vector<InstanceSample> firsts) {
    constexpr std::ptrdiff_t least = 4, one_of = 10;
    constexpr int64_t times = 8, little_ns = 10'000;
    const auto all = static_cast<std::ptrdiff_t>(samples->size());
    if (all < least || !samples->front().resume.empty()) return {};
    std::vector<int64_t> took;
    for (const InstanceSample& sample : *samples) took.push_back(length_of(sample));
    std::sort(took.begin(), took.end());
    const int64_t limit = times * std::max<int64_t>(0, took[took.size() / 2]) + little_ns;
    const auto sets_up = [&](const InstanceSample& sample) { return unexplained(sample) > limit; };
    if (std::count_if(samples->begin(), samples->end(), sets_up) > std::max<std::ptrdiff_t>(1, all / one_of))
        return {};                             // these are another kind of call
    std::map<uint64_t, InstanceSample> taken;  // by ordinal
    for (std::vector<InstanceSample>* list : {samples, &firsts})
        for (InstanceSample& sample : *list)
            if (sets_up(sample)) taken.try_emplace(sample.ordinal, list == samples ? sample : std::move(sample));
    std::erase_if(*samples, sets_up);
    std::vector<InstanceSample> list;
    for (auto& [ordinal, sample] : taken) list.push_back(std::move(sample));
    return list;
}

std::vector<InstanceSample> may_set_up(const std::vector<InstanceSample>& samples, int64_t way) {
    constexpr size_t most = 3;
    constexpr double part = 0.8;  // as arrivals and noise leave that open
    if (samples.empty() || samples.size() > most || !samples.front().resume.empty()) return {};
    const auto rounds = 2 * static_cast<double>(samples.front().enter.size() - 1);
    std::vector<InstanceSample> list;
    for (const InstanceSample& sample : samples)
        if (static_cast<double>(unexplained(sample)) > part * rounds * static_cast<double>(way)) list.push_back(sample);
    return list;
}

std::optional<Structure> explain_set_ups(const std::vector<InstanceSample>& set_ups, const CollectiveKind& kind, Library library,
                                         bool noise_known, const std::vector<Reference>& known, const std::optional<Structure>& usual) {
    constexpr uint32_t most_members = 256;  // the number of messages grows with the square of the members
    constexpr double range = 2, left = 0.05, most_behind = 0.4;
    if (set_ups.empty() || known.empty()) return std::nullopt;
    const auto members = static_cast<uint32_t>(set_ups.front().enter.size());
    if (evidence(set_ups) == Evidence::few || members > most_members || kind.nonblocking) return std::nullopt;  // few fit anything
    std::vector<Structure> list;
    if (usual) list.push_back(*usual);
    for (const Candidate& candidate : candidates(kind, members, library))
        for (const int64_t eager : candidate.decided ? eager_limits(candidate.pattern, kind, members) : std::vector<int64_t>())
            list.push_back({.pattern = candidate.pattern, .eager_ppm = eager, .link = eager == 0});
    double took = 0;
    for (const InstanceSample& sample : set_ups) took += static_cast<double>(length_of(sample)) / static_cast<double>(set_ups.size());
    std::vector<InstanceSample> quiet = set_ups;
    for (InstanceSample& sample : quiet) sample.noise.assign(members, {});
    Fit best{{}, left * took};
    bool found = false;
    for (size_t i = list.size(); i-- > 0;) {
        list[i].pattern.set_up = SetUp::first;
        const Pattern& pattern = list[i].pattern;
        if (pattern.up == Shape::none || pattern.down == Shape::none || is_split(pattern.up)) continue;
        list.push_back(list[i]);
        list.back().pattern.set_up = SetUp::between;
    }
    for (const Structure& plain : list) {
        std::vector<Structure> starts;
        for (const Reference& reference : known) starts.push_back(with_costs(plain, reference, kind.scale()));
        const Fit fit = fit_from(starts, set_ups, noise_known, range, best.error);
        if (fit.error >= best.error) continue;
        // It must be the set-up that takes the time without noise, not what follows.
        const double rounds = 2.0 * (members - 1) * static_cast<double>(fit.structure.hop + 2 * fit.structure.own);
        if (rounds * static_cast<double>(quiet.size()) < most_behind * length_of(fit.structure, quiet)) continue;
        best = fit;
        found = true;
    }
    if (!found) return std::nullopt;
    best.structure.certain = false;
    return best.structure;
}

}  // namespace polter::replay
