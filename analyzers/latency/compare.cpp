// SPDX-License-Identifier: BSD-3-Clause
// Two measurements of the same pairs: before and after a change of driver or library, say.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "analyzers/samples/json.hpp"
#include "latency.hpp"
#include "mutations.hpp"
#include "replay/base/table.hpp"

namespace polter::latency {

namespace {

using nlohmann::json;
using samples::Histogram;

constexpr double quantiles[] = {0.01, 0.25, 0.5, 0.75, 0.9, 0.99};
constexpr size_t resamples = 400;

struct Side {
    Histogram all;
    std::vector<Histogram> blocks;
};

Side side_of(const json& from, const char* place) {
    Side side{samples::histogram_from(from.at("distributions").at(place).at("pairwise").at("histogram")), {}};
    for (const json& block : from.at("blocks")) {
        if (block.at("place") != place || !block.contains("bins")) continue;
        Histogram& h = side.blocks.emplace_back(side.all.bins());
        for (const json& bin : block.at("bins")) h.add_bin(bin.at(0).get<uint32_t>(), bin.at(1).get<uint64_t>());
        h.set_extremes(block.at("least_ns").get<double>(), block.at("most_ns").get<double>(), 0);
    }
    return side;
}

// Of blocks drawn with replacement.
Histogram drawn(const Side& side, std::mt19937_64& random) {
    Histogram sum(side.all.bins());
    for (size_t i = 0; i < side.blocks.size(); ++i) sum.merge(side.blocks[random() % side.blocks.size()]);
    return sum;
}

double distance_of(const Histogram& a, const Histogram& b) {
    double most = 0;
    uint64_t below_a = 0, below_b = 0;
    for (uint32_t i = 0; i < a.bins().count; ++i) {
        below_a += a.counts()[i];
        below_b += b.counts()[i];
        most = std::max(most, std::abs(static_cast<double>(below_a) / static_cast<double>(a.samples()) -
                                       static_cast<double>(below_b) / static_cast<double>(b.samples())));
    }
    return most;
}

double peakedness(const Histogram& h) {
    const double median = h.quantile(0.5);
    return median > 0 ? (h.quantile(0.75) - h.quantile(0.25)) / median : 0;
}

PlaceComparison compare_place(Place place, const Side& a, const Side& b, uint64_t seed) {
    PlaceComparison result;
    result.place = place;
    result.samples_a = a.all.samples();
    result.samples_b = b.all.samples();
    result.blocks_a = a.blocks.size();
    result.blocks_b = b.blocks.size();
    result.band_a = samples::dkw_band(result.blocks_a);
    result.band_b = samples::dkw_band(result.blocks_b);
    result.distance = distance_of(a.all, b.all);
    result.critical = mutated(Mutation::samples_alone)
                          ? samples::ks_critical(static_cast<double>(result.samples_a), static_cast<double>(result.samples_b))
                          : samples::ks_critical(static_cast<double>(result.blocks_a), static_cast<double>(result.blocks_b));
    result.peakedness_a = peakedness(a.all);
    result.peakedness_b = peakedness(b.all);
    std::mt19937_64 random(seed);
    std::vector<std::vector<double>> differences(std::size(quantiles));
    for (size_t k = 0; k < resamples; ++k) {
        const Histogram of_a = drawn(a, random), of_b = drawn(b, random);
        for (size_t q = 0; q < std::size(quantiles); ++q)
            differences[q].push_back(of_b.quantile(quantiles[q]) - of_a.quantile(quantiles[q]));
    }
    for (size_t q = 0; q < std::size(quantiles); ++q) {
        const auto [low, high] = samples::central(std::move(differences[q]));
        result.quantiles.push_back({quantiles[q], a.all.quantile(quantiles[q]), b.all.quantile(quantiles[q]), {low, high}});
    }
    return result;
}

void check_schema(const json& from, const char* which) {
    if (!from.is_object() || from.value("schema", "") != "polter.latency/1")
        throw samples::Error(
            fmt::format("{} is no result of polter latency (schema polter.latency/1); make one with polter latency -o FILE", which));
}

}  // namespace

Comparison compare(const json& a, const json& b, uint64_t seed) try {
    check_schema(a, "the first file");
    check_schema(b, "the second file");
    Comparison result;
    for (const char* what : {"ranks", "bytes"})
        if (a.at("configuration").at(what) != b.at("configuration").at(what))
            result.warnings.push_back(fmt::format("the measurements differ in {} ({} and {}): so do their distributions", what,
                                                  a.at("configuration").at(what).dump(), b.at("configuration").at(what).dump()));
    if (a.at("hosts") != b.at("hosts")) result.warnings.push_back("the ranks ran on other hosts, or in another order");
    for (const Place place : {on_node, off_node}) {
        const Side of_a = side_of(a, place_names[place]), of_b = side_of(b, place_names[place]);
        if (of_a.all.samples() == 0 || of_b.all.samples() == 0) continue;
        if (!(of_a.all.bins() == of_b.all.bins()))
            throw samples::Error("the measurements have different bins; measure with equal --bins, --width and --top");
        if (of_a.blocks.empty() || of_b.blocks.empty())
            throw samples::Error(
                "a measurement does not have the distributions of its blocks (more than 128 ranks); nothing can be said of how "
                "certain differences are");
        constexpr size_t few = 10;
        if (std::min(of_a.blocks.size(), of_b.blocks.size()) < few)
            result.warnings.push_back(fmt::format("fewer than {} blocks {}: intervals are uncertain; give more --cycles", few,
                                                  place == on_node ? "on a node" : "between nodes"));
        result.at.push_back(compare_place(place, of_a, of_b, seed));
    }
    if (result.at.empty()) throw samples::Error("the measurements have no pairs of the same kind (on one node, or on two)");
    return result;
} catch (const json::exception& error) {
    throw samples::Error(std::string("a result of polter latency is damaged (") + error.what() + ")");
}

json to_json(const Comparison& comparison) {
    json out = samples::result_of("polter.latency.compare/1", comparison.warnings, {});
    out["a"] = comparison.a;
    out["b"] = comparison.b;
    out["places"] = json::array();
    for (const PlaceComparison& at : comparison.at) {
        json list = json::array();
        for (const QuantileDifference& q : at.quantiles)
            list.push_back(
                {{"p", q.p},
                 {"a_ns", q.a_ns},
                 {"b_ns", q.b_ns},
                 {"difference", samples::to_json({q.b_ns - q.a_ns, "ns", q.interval, samples::usual_level, at.samples_a + at.samples_b})},
                 {"certain", q.certain()}});
        out["places"].push_back({{"place", place_names[at.place]},
                                 {"samples", {at.samples_a, at.samples_b}},
                                 {"blocks", {at.blocks_a, at.blocks_b}},
                                 {"band", {at.band_a, at.band_b}},
                                 {"distance", at.distance},
                                 {"critical_distance", at.critical},
                                 {"differ", at.differ()},
                                 {"peakedness", {at.peakedness_a, at.peakedness_b}},
                                 {"quantiles", list}});
    }
    return out;
}

std::string to_text(const Comparison& comparison, size_t columns) {
    std::string out;
    for (const PlaceComparison& at : comparison.at) {
        out += fmt::format("{}: the distributions {} (largest distance {:.3f}, by chance up to {:.3f})\n",
                           at.place == on_node ? "Within nodes" : "Between nodes", at.differ() ? "differ" : "do not differ for certain",
                           at.distance, at.critical);
        replay::Table table({"quantile", "A", "B", "B - A", "between", ""}, {0, 5});
        const auto us = [](double ns) { return fmt::format("{:.3f} us", ns / 1e3); };
        for (const QuantileDifference& q : at.quantiles)
            table.add({fmt::format("{:.0f} %", 100 * q.p), us(q.a_ns), us(q.b_ns), us(q.b_ns - q.a_ns),
                       us(q.interval.low) + " and " + us(q.interval.high), q.certain() ? "" : "?"});
        out += table.text(columns);
        out += fmt::format("  interquartile range / median: {:.3f} and {:.3f}\n\n", at.peakedness_a, at.peakedness_b);
    }
    out += "?: the interval includes 0\n";
    for (const std::string& warning : comparison.warnings)
        out += "\n" + replay::fold("Warning: " + replay::printable(warning), 2, columns) + "\n";
    return out;
}

}  // namespace polter::latency
