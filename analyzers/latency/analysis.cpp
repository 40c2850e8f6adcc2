// SPDX-License-Identifier: BSD-3-Clause
// What follows from the distributions: modes and the pairs behind them, from which peer on partners are slower, the tail.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "latency.hpp"
#include "mutations.hpp"

namespace polter::latency {

namespace {

constexpr double half = 0.5;

Place place_of(const Measurement& m, int32_t a, int32_t b) {
    if (mutated(Mutation::one_place)) return off_node;
    return m.hosts[static_cast<size_t>(a)] == m.hosts[static_cast<size_t>(b)] ? on_node : off_node;
}

using Pair = std::pair<int32_t, int32_t>;

// Each pair's samples by bin; without bins, the medians of its blocks.
std::map<Pair, std::map<uint32_t, uint64_t>> by_pair(const Measurement& m, Place place) {
    std::map<Pair, std::map<uint32_t, uint64_t>> pairs;
    for (const Block& block : m.blocks) {
        if (place_of(m, block.a, block.b) != place) continue;
        auto& bins = pairs[{block.a, block.b}];
        if (block.bins.empty()) ++bins[m.bins.bin(block.median)];
        for (const auto& [bin, count] : block.bins) bins[bin] += count;
    }
    return pairs;
}

std::vector<Mode> modes_of(const Measurement& m, Place place) {
    std::vector<Mode> modes;
    for (const samples::Peak& peak : m.of[place][pairwise].peaks()) modes.push_back({place, peak, {}, {}});
    if (modes.empty()) return modes;
    const auto pairs = by_pair(m, place);
    std::map<int32_t, int64_t> pairs_of_rank;
    for (const auto& [pair, bins] : pairs) {
        ++pairs_of_rank[pair.first];
        ++pairs_of_rank[pair.second];
    }
    for (Mode& mode : modes) {
        std::map<int32_t, int64_t> ranks;
        for (const auto& [pair, bins] : pairs) {
            uint64_t all = 0, inside = 0;
            for (const auto& [bin, count] : bins) {
                all += count;
                if (bin >= mode.peak.first && bin <= mode.peak.last) inside += count;
            }
            const double share = all == 0 ? 0 : static_cast<double>(inside) / static_cast<double>(all);
            if (mutated(Mutation::any_share) ? share == 0 : share < half) continue;
            mode.pairs.push_back({pair.first, pair.second, share});
            ++ranks[pair.first];
            ++ranks[pair.second];
        }
        for (const auto& [rank, count] : ranks)
            if (mutated(Mutation::any_rank) || static_cast<double>(count) >= half * static_cast<double>(pairs_of_rank[rank]))
                mode.ranks.push_back(rank);
    }
    return modes;
}

// By the number of a rank's peer in the order of the schedule: the median over the ranks of their least latencies to it. Only pairs of the
// place that has most of them.
std::vector<double> least_by_peer(const Measurement& m, const std::vector<std::vector<double>>& minima) {
    std::array<int64_t, places> pairs{};
    for (int32_t a = 0; a < m.ranks; ++a)
        for (int32_t b = a + 1; b < m.ranks; ++b) ++pairs[place_of(m, a, b)];
    const Place place = pairs[off_node] >= pairs[on_node] ? off_node : on_node;
    std::vector<std::vector<double>> of_peer;
    for (int32_t rank = 0; rank < m.ranks; ++rank) {
        size_t number = 0;
        std::vector<int32_t> peers;
        for (const int32_t stage : m.stages)
            if ((rank ^ stage) < m.ranks) peers.push_back(rank ^ stage);
        if (mutated(Mutation::peers_by_rank)) std::sort(peers.begin(), peers.end());
        for (const int32_t peer : peers) {
            if (mutated(Mutation::number_of_the_same) && place_of(m, rank, peer) != place) continue;
            if (of_peer.size() <= number) of_peer.emplace_back();
            const double least = minima[static_cast<size_t>(rank)][static_cast<size_t>(peer)];
            if (least > 0 && place_of(m, rank, peer) == place) of_peer[number].push_back(least);
            ++number;
        }
    }
    std::vector<double> medians;
    for (auto& list : of_peer) medians.push_back(list.empty() ? 0 : samples::median(std::move(list)));
    return medians;
}

void add_warnings(Analysis& analysis) {
    const Measurement& m = analysis.measured;
    const auto warn = [&](const std::string& text) { analysis.warnings.push_back(text); };
    constexpr double quiet = 0.999;
    if (m.timer.front().samples() > 0 && analysis.timer_share < quiet)
        warn(
            fmt::format("{:.2f} % of the pairs of clock readings took longer than {:.0f} ns: the ranks were disturbed, or share CPUs; what "
                        "lies far above the median need not be the network's",
                        100 * (1 - analysis.timer_share), m.bins.begin(1)));
    double drift = 0, least = 0;
    for (const Clock& clock : m.clocks) {
        drift = std::max(drift, clock.drift);
        least = std::max(least, clock.least_ns);
    }
    if (drift > 1e-3) warn(fmt::format("the clock's rate changed by {:.2f} % during the run; latencies are as uncertain", 100 * drift));
    bool equal = true, above = false, clamped = false;
    for (const auto& place : m.of)
        for (const Kind kind : {one_sided, pairwise}) {
            const samples::Histogram& h = place[kind];
            if (h.samples() == 0) continue;
            equal = equal && h.least() == h.most();
            above = above || h.above > 0;
            clamped = clamped || h.clamped > 0;
        }
    if (equal) warn("all latencies are equal: the clock is coarser than they differ, or they were simulated");
    if (above) warn(fmt::format("samples of {:.3g} s and more are all in the last bin; give a larger --top", m.bins.top * 1e-9));
    if (clamped) warn(fmt::format("some samples were shorter than the least reading of the clock ({:.0f} ns), and count as 0", least));
    if (analysis.onset)
        warn(
            fmt::format("from the {}th peer of a rank on, latencies are longer ({:.3g} us instead of {:.3g} us): a limit on the number of "
                        "peers in the MPI library or the network card, or the network's topology, if ranks that are met later are further "
                        "away; --shuffle meets them in another order, and tells the two apart",
                        analysis.onset->from, analysis.onset->after_ns / 1e3, analysis.onset->before_ns / 1e3));
}

struct Excess {  // over the median, of the samples in a bin
    double length = 0, time = 0;
    uint64_t samples = 0;
};

// The median by time of lengths that ascend.
double length_of(const std::vector<Excess>& excesses) {
    const bool by_samples = mutated(Mutation::tail_by_samples);
    const auto weight = [&](const Excess& one) { return by_samples ? static_cast<double>(one.samples) : one.time; };
    double all = 0, below = 0;
    for (const Excess& one : excesses) all += weight(one);
    for (const Excess& one : excesses)
        if ((below += weight(one)) >= half * all) return one.length;
    return 0;
}

}  // namespace

std::optional<Onset> onset_of(const std::vector<double>& least_by_peer) {
    const size_t at_least = mutated(Mutation::one_slow_peer) ? 1 : 2;  // peers on each side
    const double longer = mutated(Mutation::any_step) ? 1 : 1.1;       // all later ones are longer than all earlier ones by this factor
    std::vector<double> list;
    std::vector<size_t> number;
    for (size_t i = 0; i < least_by_peer.size(); ++i)
        if (least_by_peer[i] > 0) {
            list.push_back(least_by_peer[i]);
            number.push_back(i);
        }
    std::optional<Onset> best;
    double ratio = longer;
    for (size_t split = at_least; split + at_least <= list.size(); ++split) {
        const auto middle = list.begin() + static_cast<std::ptrdiff_t>(split);
        const double before = *std::max_element(list.begin(), middle), after = *std::min_element(middle, list.end());
        if (after < ratio * before) continue;
        ratio = after / before;
        best = Onset{static_cast<int64_t>(number[split]) + 1, samples::median(std::vector<double>(list.begin(), middle)),
                     samples::median(std::vector<double>(middle, list.end()))};
    }
    return best;
}

Tail tail_of(const samples::Histogram& h) {
    const double times_median = mutated(Mutation::tail_of_all) ? 1 : 10;
    Tail tail;
    const double median = h.quantile(half);
    tail.threshold_ns = times_median * median;
    std::vector<Excess> excesses;
    double excess = 0;
    for (uint32_t bin = h.bins().bin(tail.threshold_ns) + 1; bin < h.bins().count; ++bin) {
        if (h.counts()[bin] == 0) continue;
        const auto count = static_cast<double>(h.counts()[bin]);
        const double length = std::min(h.bins().centre(bin), h.most()) - (mutated(Mutation::whole_samples) ? 0 : median);
        tail.samples += h.counts()[bin];
        excesses.push_back({length, count * length, h.counts()[bin]});
        excess += count * length;
    }
    if (tail.samples == 0) return tail;
    const double all = h.mean() * static_cast<double>(h.samples());
    tail.share_of_samples = static_cast<double>(tail.samples) / static_cast<double>(h.samples());
    tail.share_of_time = excess / all;
    tail.length_ns = length_of(excesses);
    // A tail has too few samples for bins as narrow as those of the histogram.
    constexpr uint32_t wider = 6;
    constexpr double least_share = 0.02;
    const samples::Bins bins{h.bins().width, h.bins().top, std::max(10U, h.bins().count / wider)};
    samples::Histogram by_time(bins);
    for (const Excess& one : excesses) by_time.add_bin(bins.bin(one.length), static_cast<uint64_t>(std::llround(one.time)));
    for (const samples::Peak& peak : by_time.peaks(mutated(Mutation::one_tail_mode) ? -1 : 0.8, least_share)) {
        std::vector<Excess> members;
        TailMode mode;
        for (const Excess& one : excesses) {
            if (bins.bin(one.length) < peak.first || bins.bin(one.length) > peak.last) continue;
            members.push_back(one);
            mode.samples += one.samples;
            mode.share_of_time += one.time / all;
        }
        mode.length_ns = length_of(members);
        tail.modes.push_back(mode);
    }
    return tail;
}

Analysis analyze(Measurement measured) {
    Analysis analysis;
    const auto ranks = static_cast<size_t>(measured.ranks);
    analysis.minima.assign(ranks, std::vector<double>(ranks, 0));
    for (const Block& block : measured.blocks)
        for (const auto& [a, b] : {std::pair{block.a, block.b}, {block.b, block.a}}) {
            if (a > b && mutated(Mutation::one_way)) continue;
            double& least = analysis.minima[static_cast<size_t>(a)][static_cast<size_t>(b)];
            least = least == 0 || mutated(Mutation::last_block) ? block.least : std::min(least, block.least);
        }
    for (const Place place : {on_node, off_node}) {
        const auto modes = modes_of(measured, place);
        analysis.modes.insert(analysis.modes.end(), modes.begin(), modes.end());
        if (measured.of[place][one_sided].samples() > 0) analysis.tails[place] = tail_of(measured.of[place][one_sided]);
    }
    analysis.onset = onset_of(least_by_peer(measured, analysis.minima));
    const samples::Histogram& timer = measured.timer.front();
    analysis.timer_share = timer.samples() == 0 ? 1 : static_cast<double>(timer.counts().front()) / static_cast<double>(timer.samples());
    analysis.measured = std::move(measured);
    add_warnings(analysis);
    return analysis;
}

}  // namespace polter::latency
