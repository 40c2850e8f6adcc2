// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>

#include "analyzers/samples/json.hpp"
#include "latency.hpp"
#include "replay/base/table.hpp"

namespace polter::latency {

namespace {

using nlohmann::json;
using samples::Histogram;

json moments_json(const Histogram& h) {
    const auto list = [](const samples::Moments& m) { return json{m.first, m.second, m.third, m.fourth}; };
    return {{"about_0", list(h.moments(0))}, {"about_least", list(h.moments(h.least()))}};
}

// PDF and CDF at the bins that have samples: begin, share per ns, share up to the bin's end.
json curve_json(const Histogram& h) {
    json list = json::array();
    uint64_t below = 0;
    for (uint32_t i = 0; i < h.bins().count; ++i) {
        if (h.counts()[i] == 0) continue;
        below += h.counts()[i];
        list.push_back({h.bins().begin(i), h.density(i), static_cast<double>(below) / static_cast<double>(h.samples())});
    }
    return list;
}

json distribution_json(const Histogram& h) {
    json out{{"histogram", samples::to_json(h)}};
    if (h.samples() == 0) return out;
    out["least_ns"] = h.least();
    out["mode_ns"] = h.mode();
    out["median_ns"] = h.quantile(0.5);
    out["mean_ns"] = h.mean();
    out["p99_ns"] = h.quantile(0.99);
    out["most_ns"] = h.most();
    out["peakedness"] = h.quantile(0.5) > 0 ? (h.quantile(0.75) - h.quantile(0.25)) / h.quantile(0.5) : 0;
    out["moments"] = moments_json(h);
    out["curve"] = curve_json(h);
    return out;
}

json blocks_json(const Measurement& m) {
    json list = json::array();
    for (const Block& block : m.blocks) {
        const bool node = m.hosts[static_cast<size_t>(block.a)] == m.hosts[static_cast<size_t>(block.b)];
        json out{{"a", block.a},
                 {"b", block.b},
                 {"place", place_names[node ? on_node : off_node]},
                 {"cycle", block.cycle},
                 {"begin_ns", block.begin_ns},
                 {"ns", block.ns},
                 {"least_ns", block.least},
                 {"p25_ns", block.p25},
                 {"median_ns", block.median},
                 {"p75_ns", block.p75},
                 {"p99_ns", block.p99},
                 {"most_ns", block.most},
                 {"hit", block.hit},
                 {"stolen_ns", block.stolen_ns}};
        if (!block.bins.empty()) {
            json bins = json::array();
            for (const auto& [bin, count] : block.bins) bins.push_back({bin, count});
            out["bins"] = std::move(bins);
        }
        list.push_back(std::move(out));
    }
    return list;
}

std::string time(double ns) {
    return ns < 1e3 ? fmt::format("{:.0f} ns", ns) : ns < 1e6 ? fmt::format("{:.3g} us", ns / 1e3) : fmt::format("{:.3g} ms", ns / 1e6);
}

const char* words(Place place) {
    return place == on_node ? "within nodes" : "between nodes";
}

std::string list_text(const std::vector<int32_t>& ranks) {
    if (ranks.empty()) return "-";
    std::string text;
    for (size_t i = 0; i < ranks.size();) {  // runs of numbers
        size_t j = i;
        while (j + 1 < ranks.size() && ranks[j + 1] == ranks[j] + 1) ++j;
        text += (text.empty() ? "" : ",") + std::to_string(ranks[i]) + (j > i ? "-" + std::to_string(ranks[j]) : "");
        i = j + 1;
    }
    return text;
}

}  // namespace

json to_json(const Analysis& analysis) {
    const Measurement& m = analysis.measured;
    json out = samples::result_of("polter.latency/1", analysis.warnings, {});
    out["configuration"] = {{"ranks", m.ranks},     {"bytes", m.bytes},   {"trials", m.trials},
                            {"warmups", m.warmups}, {"cycles", m.cycles}, {"stages", m.stages}};
    out["hosts"] = m.hosts;
    double least = 1e9, mean = 0, own = 0, drift = 0;
    for (const Clock& clock : m.clocks) {
        least = std::min(least, clock.least_ns);
        mean = std::max(mean, clock.mean_ns);
        own = std::max(own, clock.own_ns);
        drift = std::max(drift, clock.drift);
    }
    out["clock"] = {{"name", m.clocks.front().name},
                    {"least_ns", least},
                    {"mean_ns", mean},
                    {"own_cost", samples::to_json({own, "ns", {}, {}, m.timer.front().samples()})},
                    {"drift", drift},
                    {"quiet_share", analysis.timer_share},
                    {"distribution", distribution_json(m.timer.front())}};
    out["distributions"] = json::object();
    for (size_t place = 0; place < places; ++place)
        for (size_t kind = 0; kind < kinds; ++kind)
            out["distributions"][place_names[place]][kind_names[kind]] = distribution_json(m.of[place][kind]);
    out["modes"] = json::array();
    for (const Mode& mode : analysis.modes) {
        json pairs = json::array();
        for (const PairShare& pair : mode.pairs) pairs.push_back({pair.a, pair.b, pair.share});
        const uint64_t samples = m.of[mode.place][pairwise].samples();
        out["modes"].push_back(
            {{"place", place_names[mode.place]},
             {"centre", samples::to_json({mode.peak.centre,
                                          "ns",
                                          samples::Interval{m.bins.begin(mode.peak.first), m.bins.begin(mode.peak.last + 1)},
                                          {},
                                          samples})},
             {"share", mode.peak.share},
             {"pairs", pairs},
             {"ranks", mode.ranks}});
    }
    out["pair_minima_ns"] = analysis.minima;
    out["slower_peers"] = nullptr;
    if (analysis.onset)
        out["slower_peers"] = {
            {"from", analysis.onset->from}, {"before_ns", analysis.onset->before_ns}, {"after_ns", analysis.onset->after_ns}};
    out["tails"] = json::object();
    for (size_t place = 0; place < places; ++place) {
        const auto& tail = analysis.tails[place];
        json tail_modes = json::array();
        if (tail)
            for (const TailMode& mode : tail->modes)
                tail_modes.push_back({{"length_ns", mode.length_ns}, {"share_of_time", mode.share_of_time}, {"samples", mode.samples}});
        out["tails"][place_names[place]] =
            !tail
                ? json()
                : json{{"threshold_ns", tail->threshold_ns},   {"samples", tail->samples},     {"share_of_samples", tail->share_of_samples},
                       {"share_of_time", tail->share_of_time}, {"length_ns", tail->length_ns}, {"modes", tail_modes}};
    }
    out["noise"] = {{"marked", m.marked}, {"exporter", analysis.exporter_why}, {"stolen_ns", m.stolen_ns}};
    out["blocks"] = blocks_json(m);
    return out;
}

// Where a tail has several lengths: each with its part of the time.
static std::string tail_modes_text(const Tail& tail) {
    std::string text;
    for (const TailMode& mode : tail.modes)
        text += fmt::format("{}{} ({:.2g} %, {} samples)", text.empty() ? ": " : ", ", time(mode.length_ns), 100 * mode.share_of_time,
                            mode.samples);
    return tail.modes.size() < 2 ? "" : text;
}

std::string to_text(const Analysis& analysis, size_t columns) {
    const Measurement& m = analysis.measured;
    std::string out =
        fmt::format("{} ranks, {} bytes both ways, {} exchanges a pair in {} cycles\n", m.ranks, m.bytes, m.trials * m.cycles, m.cycles);
    double own = 0;
    for (const Clock& clock : m.clocks) own = std::max(own, clock.own_ns);
    out += fmt::format("clock: {:.0f} ns a reading, {:.0f} ns a sample beside the exchange, {:.2f} % of readings within {:.0f} ns\n\n",
                       m.clocks.front().least_ns, own, 100 * analysis.timer_share, m.bins.begin(1));
    replay::Table table({"latency", "samples", "least", "mode", "median", "mean", "99 %", "most"}, {0});
    const std::pair<Kind, const char*> rows[] = {
        {one_sided, "one-sided"}, {pairwise, "pairwise"}, {pairwise_minima, "least of a block"}, {pairwise_hit, "hit by noise"}};
    for (const Place place : {on_node, off_node})
        for (const auto& [kind, name] : rows) {
            const Histogram& h = m.of[place][kind];
            if (h.samples() == 0) continue;
            table.add({fmt::format("{}, {}", words(place), name), std::to_string(h.samples()), time(h.least()), time(h.mode()),
                       time(h.quantile(0.5)), time(h.mean()), time(h.quantile(0.99)), time(h.most())});
        }
    out += table.text(columns, 0) + "\n";
    replay::Table modes({"mode", "centre", "share", "pairs", "ranks"}, {0, 4}, {4});
    for (const Mode& mode : analysis.modes)
        modes.add({words(mode.place), time(mode.peak.centre), fmt::format("{:.1f} %", 100 * mode.peak.share),
                   std::to_string(mode.pairs.size()), list_text(mode.ranks)});
    out += modes.text(columns, 0);
    for (const Place place : {on_node, off_node})
        if (const auto& tail = analysis.tails[place]; tail && tail->samples > 0)
            out += "\n" +
                   replay::fold(
                       fmt::format("Tail {}: {:.3g} % of the samples are above {}, ten times the median; their excess is {:.3g} % of the "
                                   "time, typically {} long",
                                   words(place), 100 * tail->share_of_samples, time(tail->threshold_ns), 100 * tail->share_of_time,
                                   time(tail->length_ns)) +
                           tail_modes_text(*tail),
                       2, columns) +
                   "\n";
    if (m.marked) {
        double sum = 0;
        for (const auto& [source, ns] : m.stolen_ns) sum += ns;
        out += fmt::format("\nOS noise during the run: {} in all ranks\n", time(sum));
    }
    for (const std::string& warning : analysis.warnings)
        out += "\n" + replay::fold("Warning: " + replay::printable(warning), 2, columns) + "\n";
    return out;
}

}  // namespace polter::latency
