// SPDX-License-Identifier: BSD-3-Clause
// From the benchmark's raw JSON, rank by rank, to what all ranks measured together.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "analyzers/samples/json.hpp"
#include "latency.hpp"
#include "mutations.hpp"

namespace polter::latency {

const std::array<const char*, places> place_names = {"on_node", "off_node"};
const std::array<const char*, kinds> kind_names = {"one_sided",       "one_sided_minima", "pairwise",
                                                   "pairwise_minima", "one_sided_hit",    "pairwise_hit"};

namespace {

using nlohmann::json;

double time_of(const json& block, const char* name) {
    const json& value = block.at(name);
    if (!value.is_number()) throw samples::Error(fmt::format("{} of a block is no number; the result file is damaged", name));
    return value.get<double>();
}

Block block_of(int32_t rank, const json& from) {
    Block block;
    block.a = rank;
    block.b = from.at("peer").get<int32_t>();
    block.cycle = from.at("cycle").get<int64_t>();
    block.hit = from.at("hit").get<int64_t>();
    block.begin_ns = time_of(from, "begin_ns");
    block.ns = time_of(from, "ns");
    block.least = time_of(from, "least_ns");
    block.p25 = time_of(from, "p25_ns");
    block.median = time_of(from, "median_ns");
    block.p75 = time_of(from, "p75_ns");
    block.p99 = time_of(from, "p99_ns");
    block.most = time_of(from, "most_ns");
    block.stolen_ns = time_of(from, "stolen_ns");
    if (from.contains("bins"))
        for (const json& bin : from.at("bins")) block.bins.emplace_back(bin.at(0).get<uint32_t>(), bin.at(1).get<uint64_t>());
    return block;
}

void add_rank(Measurement& all, const json& from) {
    const auto rank = from.at("rank").get<int64_t>();
    if (rank < 0 || rank >= all.ranks)
        throw samples::Error(fmt::format("rank {} of {} ranks; the result file is damaged", rank, all.ranks));
    const auto at = static_cast<size_t>(rank);
    if (!all.hosts[at].empty()) throw samples::Error(fmt::format("rank {} is there twice; the result file is damaged", rank));
    all.hosts[at] = from.at("host").get<std::string>();
    const json& clock = from.at("clock");
    all.clocks[at] = {clock.at("name").get<std::string>(), clock.at("ticks_per_ns").get<double>(), clock.at("drift").get<double>(),
                      clock.at("least_ns").get<double>(),  clock.at("mean_ns").get<double>(),      clock.at("own_ns").get<double>()};
    const samples::Histogram timer = samples::histogram_from(from.at("timer"));
    if (all.timer.empty()) {
        all.bins = timer.bins();
        all.timer.emplace_back(all.bins);
        for (auto& place : all.of) place.assign(kinds, samples::Histogram(all.bins));
    }
    all.timer.front().merge(timer);
    for (size_t place = 0; place < places; ++place)
        for (size_t kind = 0; kind < kinds; ++kind)
            all.of[place][kind].merge(samples::histogram_from(from.at(place_names[place]).at(kind_names[kind])));
    all.marked = all.marked || from.at("marked").get<bool>();
    for (const auto& [source, ns] : from.at("stolen_ns").items()) all.stolen_ns[source] += ns.get<double>();
    for (const json& block : from.at("blocks")) {
        all.blocks.push_back(block_of(static_cast<int32_t>(rank), block));
        if (all.blocks.back().b < 0 || all.blocks.back().b >= all.ranks)
            throw samples::Error("a block's peer is no rank; the result file is damaged");
    }
}

}  // namespace

Measurement parse_parts(const std::vector<json>& parts) try {
    Measurement all;
    std::vector<std::pair<int64_t, const json*>> ranks;
    for (const json& raw : parts) {
        if (!raw.is_object() || raw.value("schema", "") != "polter.latency.raw/1")
            throw samples::Error("this is no result of the latency benchmark (schema polter.latency.raw/1)");
        if (all.ranks == 0) {
            all.ranks = raw.at("ranks").get<int64_t>();
            all.bytes = raw.at("bytes").get<int64_t>();
            all.trials = raw.at("trials").get<int64_t>();
            all.warmups = raw.at("warmups").get<int64_t>();
            all.cycles = raw.at("cycles").get<int64_t>();
            all.stages = raw.at("stages").get<std::vector<int32_t>>();
            if (all.ranks < 2) throw samples::Error("the benchmark ran with one rank; a latency needs two: give the launcher -n 2 or more");
            if (all.ranks > 1'000'000) throw samples::Error("the number of ranks is impossible; the result file is damaged");
            all.hosts.resize(static_cast<size_t>(all.ranks));
            all.clocks.resize(static_cast<size_t>(all.ranks));
        }
        for (const json& rank : raw.at("of_ranks")) ranks.emplace_back(rank.at("rank").get<int64_t>(), &rank);
    }
    // Sums are rounded: added up in one order, they are the same however many processes collected the ranks' results.
    if (!mutated(Mutation::as_they_come)) std::stable_sort(ranks.begin(), ranks.end());
    for (const auto& [rank, from] : ranks) add_rank(all, *from);
    if (parts.empty() || std::count(all.hosts.begin(), all.hosts.end(), "") > 0)
        throw samples::Error("results of some ranks are missing; the result file is not complete, so run the benchmark again");
    std::stable_sort(all.blocks.begin(), all.blocks.end(),
                     [](const Block& x, const Block& y) { return std::tuple(x.cycle, x.a, x.b) < std::tuple(y.cycle, y.a, y.b); });
    return all;
} catch (const json::exception& error) {
    throw samples::Error(std::string("the result of the latency benchmark is damaged (") + error.what() + ")");
}

Measurement parse(const json& raw) {
    return parse_parts({raw});
}

}  // namespace polter::latency
