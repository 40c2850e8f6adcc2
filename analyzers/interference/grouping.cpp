// SPDX-License-Identifier: BSD-3-Clause
#include "grouping.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "analyzers/samples/samples.hpp"
#include "mutations.hpp"

namespace polter::interference {

std::vector<uint32_t> cluster(const std::vector<double>& values, double distance) {
    for (const double value : values)
        if (!std::isfinite(value) || value < 0)
            throw samples::Error("a segment's work is no number, or below 0; the trace's counter is damaged");
    std::vector<size_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
    std::vector<uint32_t> clusters(values.size());
    uint32_t now = 0;
    size_t first = 0;
    for (size_t i = 1; i < order.size(); ++i) {
        const double below = values[order[mutated(Mutation::from_first) ? first : i - 1]], here = values[order[i]];
        double allowed = distance * below;  // not a quotient: below may be 0, from which nothing but 0 is near
        if (mutated(Mutation::absolute_distance)) allowed = distance;
        if (mutated(Mutation::zero_joins) && below == 0) allowed = 1;
        if (here != below && !(here - below < allowed)) {
            ++now;
            first = i;
        }
        clusters[order[i]] = now;
    }
    return clusters;
}

namespace {

// What a segment's kind is, in terms that mean the same in every run.
using Key = std::vector<Features>;

Key key_of(const Run& run, uint32_t kind) {
    Key key;
    for (const uint32_t id : run.kinds[kind]) {
        Features features = run.calls[id];
        features[bytes_sent] = features[bytes_sent] > 0;  // their values were joined in each run by itself
        features[bytes_received] = features[bytes_received] > 0;
        key.push_back(features);
    }
    return key;
}

}  // namespace

std::vector<Group> group(const Run& run) {
    std::vector<double> computing;
    for (const Segment& segment : run.segments) computing.push_back(segment.computing);
    const std::vector<uint32_t> clusters = cluster(computing);
    std::map<std::pair<uint32_t, uint32_t>, size_t> places;
    std::vector<Group> groups;
    for (size_t i = 0; i < run.segments.size(); ++i) {
        const Segment& segment = run.segments[i];
        const auto key = mutated(Mutation::over_all_groups) ? std::pair{0u, 0u} : std::pair{clusters[i], segment.kind};
        const auto [place, is_new] = places.try_emplace(key, groups.size());
        if (is_new) groups.push_back({{}, segment.computing, segment.computing, segment.kind});
        Group& group = groups[place->second];
        group.members.push_back(i);
        group.least_computing = std::min(group.least_computing, segment.computing);
        group.most_computing = std::max(group.most_computing, segment.computing);
    }
    return groups;
}

std::vector<Pairing> group_together(const Run& a, const Run& b) {
    std::vector<double> computing;
    for (const Run* run : {&a, &b})
        for (const Segment& segment : run->segments) computing.push_back(segment.computing);
    const std::vector<uint32_t> clusters = cluster(computing);
    std::map<std::pair<uint32_t, Key>, Pairing> pairs;
    for (size_t i = 0; i < a.segments.size(); ++i) pairs[{clusters[i], key_of(a, a.segments[i].kind)}].a.push_back(i);
    for (size_t i = 0; i < b.segments.size(); ++i) pairs[{clusters[a.segments.size() + i], key_of(b, b.segments[i].kind)}].b.push_back(i);
    std::vector<Pairing> list;
    for (auto& [key, pair] : pairs)
        if (pair.a.size() >= least_members && pair.b.size() >= least_members) list.push_back(std::move(pair));
    return list;
}

}  // namespace polter::interference
