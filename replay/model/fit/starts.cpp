// SPDX-License-Identifier: BSD-3-Clause
#include "starts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace polter::replay {

Structure scaled(Structure structure, double own, double hop) {
    structure.own = std::llround(own);
    structure.hop = std::llround(hop);
    return structure;
}

namespace {

// What the calls took from the last coming on, in the median. Of few instances noise may be most of that: so without what hit one member.
double usual_tail(const std::vector<InstanceSample>& samples, bool few) {
    std::vector<int64_t> tails;
    for (const InstanceSample& sample : samples) {
        const int64_t last = *std::max_element(sample.enter.begin(), sample.enter.end());
        for (size_t i = 0; i < sample.resume.size(); ++i) tails.push_back(std::max<int64_t>(1, sample.leave[i] - sample.resume[i]));
        if (!sample.resume.empty()) continue;
        const auto noise_until = [&](int64_t leave) { return few ? longest_noise(sample, last, leave) : 0; };
        for (const int64_t leave : sample.leave) tails.push_back(std::max<int64_t>(1, std::abs(leave - last) - noise_until(leave)));
    }
    std::nth_element(tails.begin(), tails.begin() + static_cast<std::ptrdiff_t>(tails.size() / 2), tails.end());
    return static_cast<double>(tails[tails.size() / 2]);
}

}  // namespace

Structure limited_by_link(Structure structure, const std::vector<InstanceSample>& samples) {
    const InstanceSample& sample = samples.front();
    const Schedule& of = schedule(structure.pattern, static_cast<uint32_t>(sample.enter.size()), sample.root, false);
    std::vector<double> received(sample.enter.size(), 0);
    for (uint32_t message = 0; message < of.shares.size(); ++message) received[of.ends[message].second] += sample.sizes.share(of, message);
    const double busiest = *std::max_element(received.begin(), received.end());
    structure.hop_data = 0;
    structure.own_data = busiest > 0 ? std::llround(usual_tail(samples, true) / busiest) : 0;
    return structure;
}

std::vector<Structure> with_transfers(const std::vector<Structure>& list, const std::vector<InstanceSample>& samples) {
    std::vector<double> took;  // at most
    for (const InstanceSample& sample : samples)
        for (size_t member = 0; member < sample.transfers.size(); ++member)
            for (const AwaitedTransfer& one : sample.transfers[member].awaited)
                if (one.share > 0) took.push_back(static_cast<double>(sample.leave[member] - one.begin) / one.share);
    if (took.empty()) return {};
    const auto low = took.begin() + static_cast<std::ptrdiff_t>(took.size() / 4);
    std::nth_element(took.begin(), low, took.end());
    std::vector<Structure> with;
    for (const double part : {0.9, 0.5, 0.2})
        for (Structure costs : list) {
            costs.hop_data = std::llround(part * *low);
            with.push_back(costs);
        }
    return with;
}

namespace {

// How long before who waited could go on one of the last three others had come, where that recurs: most often first. Where most calls find
// all messages there, only the few that wait tell the flight.
struct Recurring {
    std::vector<double> flights;
    std::array<int64_t, 2> usual{};  // what roots and the others take who do not wait
};
Recurring recurring_flights(const std::vector<InstanceSample>& samples) {
    constexpr size_t last_ones = 3, most_flights = 4;
    constexpr double as_long = 1.005;
    constexpr int64_t much_longer = 4;  // than calls usually take: else that tells
    const auto tail = [](const InstanceSample& one, size_t i) { return one.leave[i] - (one.resume.empty() ? one.enter : one.resume)[i]; };
    std::array<std::vector<int64_t>, 2> tails;  // of roots, and of the others
    for (const InstanceSample& sample : samples)
        for (size_t i = 0; i < sample.leave.size(); ++i) tails[i != sample.root].push_back(tail(sample, i));
    Recurring recurring;
    std::array<int64_t, 2>& usual = recurring.usual;
    for (const size_t role : {0, 1}) {
        const auto low = tails[role].begin() + static_cast<std::ptrdiff_t>(tails[role].size() / 4);
        std::nth_element(tails[role].begin(), low, tails[role].end());
        if (low != tails[role].end()) usual[role] = *low;
    }
    std::vector<double> flights;
    std::vector<size_t> order(samples.front().enter.size());
    for (const InstanceSample& sample : samples) {
        std::iota(order.begin(), order.end(), size_t{0});
        const auto last = order.begin() + static_cast<std::ptrdiff_t>(std::min(last_ones + 1, order.size()));
        std::partial_sort(order.begin(), last, order.end(), [&](size_t a, size_t b) { return sample.enter[a] > sample.enter[b]; });
        for (size_t i = 0; i < sample.leave.size(); ++i) {
            const int64_t usually = usual[i != sample.root];
            for (auto from = order.begin(); tail(sample, i) > 2 * usually && from != last; ++from)
                if (const int64_t flight = sample.leave[i] - sample.enter[*from]; *from != i && flight > much_longer * usually)
                    flights.push_back(static_cast<double>(flight));
        }
    }
    std::sort(flights.begin(), flights.end());
    while (recurring.flights.size() < most_flights) {
        size_t most = 1, at = 0;
        for (size_t begin = 0, end = 0; begin < flights.size(); ++begin) {
            while (end < flights.size() && flights[end] <= as_long * flights[begin]) ++end;
            if (end - begin > most) most = end - begin, at = begin;
        }
        if (most < 2) break;
        const auto first = flights.begin() + static_cast<std::ptrdiff_t>(at), behind = first + static_cast<std::ptrdiff_t>(most);
        recurring.flights.push_back(first[static_cast<std::ptrdiff_t>(most / 2)]);
        flights.erase(first, behind);
    }
    return recurring;
}

// Of the longest way through the messages where all come at once, without noise: how much is work, and how many flights.
std::pair<double, double> longest_way(const Structure& plain, const std::vector<InstanceSample>& samples) {
    InstanceSample together = samples.front();
    together.enter.assign(together.enter.size(), 0);
    together.noise.assign(together.enter.size(), {});
    together.resume.clear();
    std::vector<Prediction> ways;
    predict(scaled(plain, 1'000, 1'000'000), together, &ways);
    double works = 1, hops = 1;
    for (const Prediction& way : ways) {
        works = std::max(works, way.works);
        hops = std::max(hops, way.hops);
    }
    return {works, hops};
}

}  // namespace

std::vector<Structure> starts(const Structure& plain, const std::vector<InstanceSample>& samples, bool few) {
    const double scale = usual_tail(samples, few);
    const auto [works, hops] = longest_way(plain, samples);
    std::vector<Structure> list;
    // First what is likeliest, for where leave times do not tell: some work for each message, and more flight.
    for (const double part : {0.9, 1.0, 0.5}) list.push_back(scaled(plain, (1 - part) * scale / works, part * scale / hops));
    if (few && plain.link) list.push_back(limited_by_link(scaled(plain, 0, 0.1 * scale / hops), samples));
    for (const double part : {2, 8, 64}) list.push_back(scaled(plain, scale / part / 4, scale / part));
    list.push_back(scaled(plain, 0, scale / 64));
    return list;
}

std::vector<Structure> with_flights(const Structure& plain, const std::vector<InstanceSample>& samples) {
    std::vector<Structure> list;
    const Recurring recurring = recurring_flights(samples);
    const auto [works, hops] = longest_way(plain, samples);
    const auto [root, other] = recurring.usual;
    for (const double flight : recurring.flights)
        for (const double way : {1.0, hops})
            for (const double work : {static_cast<double>(root) / works, static_cast<double>(other), 0.0})
                if (2 * work < flight / way) list.push_back(scaled(plain, work, flight / way - 2 * work));
    return list;
}

Structure from_first(const Structure& plain, const std::vector<InstanceSample>& samples) {
    std::vector<int64_t> took;
    for (const InstanceSample& sample : samples)
        took.push_back(std::max<int64_t>(
            1, *std::max_element(sample.leave.begin(), sample.leave.end()) - *std::min_element(sample.enter.begin(), sample.enter.end())));
    const auto low = took.begin() + static_cast<std::ptrdiff_t>(took.size() / 4);
    std::nth_element(took.begin(), low, took.end());
    return scaled(plain, 0, static_cast<double>(*low));
}

}  // namespace polter::replay
