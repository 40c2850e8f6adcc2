// SPDX-License-Identifier: BSD-3-Clause
// What follows from measurements whose distribution is known.
#include "analyzers/latency/latency.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "analyzers/latency/mutations.hpp"
#include "analyzers/samples/json.hpp"

namespace {

using namespace polter;
using nlohmann::json;

struct Made {
    int32_t ranks = 4;
    int64_t trials = 200, cycles = 2;
    int32_t ranks_per_host = 1;
    std::function<double(int32_t a, int32_t b, int64_t cycle, int64_t trial)> latency;  // pairwise, and both one-sided
    std::function<bool(int32_t a, int32_t b, int64_t cycle, int64_t trial)> hit = [](auto...) { return false; };
};

// As latency.c writes it; only the ranks of [first, last).
json raw(const Made& made, int32_t first = 0, int32_t last = INT32_MAX) {
    json out{{"schema", "polter.latency.raw/1"},
             {"ranks", made.ranks},
             {"bytes", 8},
             {"trials", made.trials},
             {"warmups", 1},
             {"cycles", made.cycles}};
    int32_t power = 1;
    while (power < made.ranks) power *= 2;
    out["stages"] = json::array();
    for (int32_t stage = 1; stage < power; ++stage) out["stages"].push_back(stage);
    out["of_ranks"] = json::array();
    for (int32_t rank = first; rank < std::min(last, made.ranks); ++rank) {
        std::vector<std::vector<samples::Histogram>> of(latency::places, std::vector<samples::Histogram>(latency::kinds));
        samples::Histogram timer;
        for (int i = 0; i < 1'000; ++i) timer.add(10);
        json blocks = json::array();
        for (int64_t cycle = 0; cycle < made.cycles; ++cycle)
            for (int32_t stage = 1; stage < power; ++stage) {
                const int32_t peer = rank ^ stage;
                if (peer >= made.ranks) continue;
                auto& place = of[rank / made.ranks_per_host == peer / made.ranks_per_host ? latency::on_node : latency::off_node];
                const int32_t a = std::min(rank, peer), b = std::max(rank, peer);
                std::vector<double> list;
                samples::Histogram block;
                int64_t hits = 0;
                for (int64_t trial = 0; trial < made.trials; ++trial) {
                    const double ns = made.latency(a, b, cycle, trial);
                    const bool hit = made.hit(a, b, cycle, trial);
                    hits += hit;
                    list.push_back(ns);
                    block.add(ns);
                    place[latency::one_sided].add(ns);
                    if (hit) place[latency::one_sided_hit].add(ns);
                    if (rank == b) continue;
                    place[latency::pairwise].add(ns);
                    if (hit) place[latency::pairwise_hit].add(ns);
                }
                std::sort(list.begin(), list.end());
                place[latency::one_sided_minima].add(list.front());
                if (rank == b) continue;
                place[latency::pairwise_minima].add(list.front());
                const size_t n = list.size();
                blocks.push_back({{"peer", peer},
                                  {"cycle", cycle},
                                  {"begin_ns", static_cast<double>(cycle) * 1e6},
                                  {"ns", 1e5},
                                  {"least_ns", list.front()},
                                  {"p25_ns", list[n / 4]},
                                  {"median_ns", list[n / 2]},
                                  {"p75_ns", list[n - 1 - n / 4]},
                                  {"p99_ns", list[n - 1 - n / 100]},
                                  {"most_ns", list.back()},
                                  {"hit", hits},
                                  {"stolen_ns", 0},
                                  {"bins", samples::to_json(block).at("counts")}});
            }
        json one{
            {"rank", rank},
            {"host", "node" + std::to_string(rank / made.ranks_per_host)},
            {"clock", {{"name", "processor"}, {"ticks_per_ns", 2.1}, {"drift", 0.0}, {"least_ns", 10}, {"mean_ns", 11}, {"own_ns", 20}}},
            {"timer", samples::to_json(timer)},
            {"marked", false},
            {"stolen_ns", json::object()},
            {"blocks", blocks}};
        for (size_t place = 0; place < latency::places; ++place)
            for (size_t kind = 0; kind < latency::kinds; ++kind)
                one[latency::place_names[place]][latency::kind_names[kind]] = samples::to_json(of[place][kind]);
        out["of_ranks"].push_back(std::move(one));
    }
    return out;
}

// Values near `ns`, the same for the same arguments.
double near(double ns, int32_t a, int32_t b, int64_t cycle, int64_t trial) {
    std::mt19937_64 random(static_cast<uint64_t>(((a * 131 + b) * 17 + cycle) * 100'003 + trial));
    return ns * (1 + 0.01 * std::uniform_real_distribution<double>(0, 1)(random));
}

latency::Analysis analyzed(const Made& made) {
    return latency::analyze(latency::parse(raw(made)));
}

// Switches of 4 ranks, groups of 2 switches: 2, 3 and 5 us.
double three_classes(int32_t a, int32_t b, int64_t cycle, int64_t trial) {
    return near(a / 4 == b / 4 ? 2'000 : a / 8 == b / 8 ? 3'000 : 5'000, a, b, cycle, trial);
}

}  // namespace

TEST_CASE("three classes of links: modes within a bin, shares exact, pairs and ranks behind each") {
    const auto analysis = analyzed({16, 100, 2, 1, three_classes});
    // Of 120 pairs: 4 switches with 6 each, 2 groups with 16 each across switches, 64 across groups.
    REQUIRE(analysis.modes.size() == 3);
    const double centre[] = {2'000, 3'000, 5'000}, pairs[] = {24, 32, 64};
    for (size_t i = 0; i < 3; ++i) {
        const auto& mode = analysis.modes[i];
        CHECK(mode.place == latency::off_node);
        CHECK(std::abs(static_cast<int>(analysis.measured.bins.bin(mode.peak.centre)) -
                       static_cast<int>(analysis.measured.bins.bin(centre[i]))) <= 1);
        CHECK(mode.peak.share == doctest::Approx(pairs[i] / 120).epsilon(1e-12));
        CHECK(mode.pairs.size() == pairs[i]);
        CHECK(std::all_of(mode.pairs.begin(), mode.pairs.end(), [](const auto& pair) { return pair.share == 1; }));
    }
    for (const auto& pair : analysis.modes[0].pairs) CHECK(pair.a / 4 == pair.b / 4);
    CHECK(analysis.modes[2].ranks.size() == 16);  // each has 8 of its 15 partners there
    CHECK(analysis.modes[0].ranks.empty());
    CHECK(analysis.minima[0][1] == analysis.minima[1][0]);
    CHECK(analysis.minima[0][1] >= 2'000);
    CHECK(analysis.minima[3][3] == 0);
}

TEST_CASE("on a node and between nodes are told apart") {
    const auto analysis =
        analyzed({8, 50, 1, 2, [](int32_t a, int32_t b, auto... rest) { return near(a / 2 == b / 2 ? 500 : 4'000, a, b, rest...); }});
    REQUIRE(analysis.modes.size() == 2);
    CHECK(analysis.modes[0].place == latency::on_node);
    CHECK(analysis.modes[0].pairs.size() == 4);
    CHECK(analysis.modes[1].pairs.size() == 24);
    CHECK(analysis.measured.of[latency::on_node][latency::pairwise].samples() == 4 * 50);
    CHECK(analysis.measured.of[latency::on_node][latency::one_sided].samples() == 8 * 50);
    CHECK(analysis.measured.of[latency::off_node][latency::pairwise_minima].samples() == 24);
}

namespace {

// Whether the result is the same to the last bit, however many processes collected those of the ranks.
bool same_by_any_number_of_processes() {
    const Made made{8, 40, 2, 2, three_classes};
    const json whole = latency::to_json(latency::analyze(latency::parse(raw(made))));
    for (const auto& cuts : {std::vector<int32_t>{0, 3, 8}, {0, 1, 2, 5, 8}, {0, 1, 2, 3, 4, 5, 6, 7, 8}}) {
        std::vector<json> parts;
        for (size_t i = 0; i + 1 < cuts.size(); ++i) parts.push_back(raw(made, cuts[i], cuts[i + 1]));
        std::reverse(parts.begin(), parts.end());
        if (latency::to_json(latency::analyze(latency::parse_parts(parts))) != whole) return false;
    }
    return true;
}

// What each rule of the analysis makes of a measurement whose answer is known; the first expectation that does not hold, or empty.
std::string broken_rule() {
    // Two nodes of 4 ranks: 500 ns on a node and 4000 between; in the second cycle 1 % more.
    const auto nodes = analyzed({8, 40, 2, 4, [](int32_t a, int32_t b, int64_t cycle, int64_t trial) {
                                     return near(a / 4 == b / 4 ? 500 : 4'000, a, b, 0, trial) * (cycle == 1 ? 1.01 : 1);
                                 }});
    if (nodes.modes.size() != 2 || nodes.modes[0].pairs.size() != 12 || nodes.modes[1].pairs.size() != 16) return "pairs of both places";
    if (nodes.minima[0][1] > 505) return "the least of all blocks";
    if (nodes.minima[1][0] != nodes.minima[0][1]) return "a pair's least latency holds both ways";
    // 4 ranks; a pair with a disturbed sample in a hundred stays in its mode alone. Rank 3 is far from the others, which are near each
    // other.
    const auto far = analyzed({4, 100, 1, 1, [](int32_t a, int32_t b, int64_t cycle, int64_t trial) {
                                   return near((b == 3) != (trial == 7) ? 9'000 : 2'000, a, b, cycle, trial);
                               }});
    if (far.modes.size() != 2 || far.modes[0].pairs.size() != 3 || far.modes[1].pairs.size() != 3) return "a pair's mode";
    if (far.modes[0].ranks != std::vector<int32_t>{0, 1, 2} || far.modes[1].ranks != std::vector<int32_t>{3}) return "a rank's mode";
    // Partners 5 to 7 in the order of a schedule that is not that of the ranks.
    json shuffled = raw({8, 10, 1, 1, [](int32_t a, int32_t b, auto... rest) {
                             const int32_t stage = a ^ b;
                             return near(stage == 2 || stage == 5 || stage == 1 ? 3'000 : 1'000, a, b, rest...);
                         }});
    shuffled["stages"] = {3, 7, 4, 6, 2, 5, 1};
    const auto limit = latency::analyze(latency::parse(shuffled)).onset;
    if (!limit || limit->from != 5) return "slower from the fifth partner on";
    // The first partner is on the same node; of the others those from the fourth on are slower, as partner 5 of all.
    const auto beside = analyzed({8, 10, 1, 2, [](int32_t a, int32_t b, auto... rest) {
                                      return near((a ^ b) == 1 ? 300 : (a ^ b) >= 5 ? 3'000 : 1'000, a, b, rest...);
                                  }});
    if (!beside.onset || beside.onset->from != 5) return "a partner on the same node has a number too";
    if (latency::onset_of({1, 1, 1, 1, 1.05, 1.05})) return "5 % are no step";
    if (latency::onset_of({1, 1, 1, 1, 2})) return "one slow partner is no limit";
    // 9000 samples of 1 us, 900 of 5 us, 60 of 20 us and 40 of 100 us. Above ten times the median: 60 * 19 and 40 * 99 us of 18700 us.
    samples::Histogram h;
    for (const auto& [count, ns] : {std::pair{9'000, 1e3}, {900, 5e3}, {60, 2e4}, {40, 1e5}})
        for (int i = 0; i < count; ++i) h.add(ns);
    const auto tail = latency::tail_of(h);
    if (tail.samples != 100) return "the tail's samples";
    if (std::abs(tail.share_of_time / ((60 * 19.0 + 40 * 99) / 18'700) - 1) > 0.02) return "the tail's time";
    if (std::abs(tail.length_ns / 99e3 - 1) > 0.02) return "the tail's length";
    if (tail.modes.size() != 2 || tail.modes[0].samples != 60 || tail.modes[1].samples != 40) return "the tail's modes";
    if (std::abs(tail.modes[0].length_ns / 19e3 - 1) > 0.02 || std::abs(tail.modes[1].share_of_time / (40 * 99.0 / 18'700) - 1) > 0.02)
        return "a mode of the tail";
    if (!same_by_any_number_of_processes()) return "any number of processes";
    // Levels that vary from block to block: samples would make a difference certain that blocks do not.
    const auto wavy = [](int32_t x, int32_t y, int32_t z) {
        return analyzed({4, 400, 4, 1, [=](int32_t a, int32_t b, int64_t cycle, int64_t trial) {
                             return near(4'000 + 300.0 * ((a * x + b * 3 + cycle * y + z) % 8), a, b, cycle, trial);
                         }});
    };
    const auto compared = latency::compare(latency::to_json(wavy(7, 5, 0)), latency::to_json(wavy(5, 3, 2)), 1).at.at(0);
    if (compared.distance <= samples::ks_critical(static_cast<double>(compared.samples_a), static_cast<double>(compared.samples_b)))
        return "they would differ by samples";
    if (compared.differ()) return "blocks are what is independent";
    return "";
}

}  // namespace

TEST_CASE("the answer does not depend on how the ranks' results come in") {
    CHECK(same_by_any_number_of_processes());
}

TEST_CASE("each rule, and each mutation of it is caught") {
    CHECK(broken_rule() == "");
    for (int which = 1; which < latency::mutations; ++which) {
        latency::mutation = static_cast<latency::Mutation>(which);
        const std::string broken = broken_rule();
        latency::mutation = latency::Mutation::none;
        CHECK_MESSAGE(broken != "", "mutation ", which);
    }
}

TEST_CASE("partners above the 16th are slower: it says from which on; and says nothing where there is no such step") {
    const auto analysis =
        analyzed({32, 30, 1, 1, [](int32_t a, int32_t b, auto... rest) { return near((a ^ b) > 16 ? 5'700 : 4'600, a, b, rest...); }});
    REQUIRE(analysis.onset);
    CHECK(analysis.onset->from == 17);
    CHECK(analysis.onset->before_ns == doctest::Approx(4'600).epsilon(0.01));
    CHECK(analysis.onset->after_ns == doctest::Approx(5'700).epsilon(0.01));
    CHECK(std::any_of(analysis.warnings.begin(), analysis.warnings.end(),
                      [](const auto& w) { return w.find("17th peer") != std::string::npos; }));
    CHECK(!analyzed({16, 30, 1, 1, [](auto... rest) { return near(4'600, rest...); }}).onset);
    CHECK(!latency::onset_of({1, 2, 1, 2, 1, 2, 1, 2}));
    CHECK(!latency::onset_of({1, 1, 1, 1, 1.05, 1.05}));  // 5 % are no step
    CHECK(!latency::onset_of({1, 1, 1, 1, 2}));           // one slow peer is no limit
    CHECK(!latency::onset_of({}));
    CHECK(latency::onset_of({1, 1, 0, 1, 2, 2})->from == 5);  // the third is on the same node
}

TEST_CASE("a tail of 1 % of the time, 200 us long each, is recovered within 5 %; minima do not move") {
    // Each 50th of 20000 samples of 0.5 us ... takes 200 us more: so many that their time is 1 %.
    std::mt19937_64 random(7);
    samples::Histogram quiet, disturbed;
    const double usual = 1'000, length = 200'000;
    const double probability = 0.01 / 0.99 * usual / length;
    std::uniform_real_distribution<double> draw(0, 1);
    for (int i = 0; i < 4'000'000; ++i) {
        const double ns = usual * (1 + 0.1 * draw(random));
        quiet.add(ns);
        disturbed.add(ns + (draw(random) < probability * 1.05 ? length * (0.98 + 0.04 * draw(random)) : 0));
    }
    const auto tail = latency::tail_of(disturbed);
    CHECK(tail.share_of_time == doctest::Approx(0.01).epsilon(0.05));
    CHECK(tail.length_ns == doctest::Approx(length).epsilon(0.05));
    CHECK(disturbed.least() == doctest::Approx(quiet.least()).epsilon(1e-3));
    CHECK(latency::tail_of(quiet).samples == 0);
}

TEST_CASE("comparison: the same twice does not differ; a shift is found, with its size; block by block") {
    const Made made{8, 100, 6, 1, [](auto... rest) { return near(4'000, rest...); }};
    Made slower = made;
    slower.latency = [](int32_t a, int32_t b, int64_t cycle, int64_t trial) { return near(4'400, a, b, cycle + 100, trial); };
    const json a = latency::to_json(analyzed(made)), b = latency::to_json(analyzed(slower));
    const auto same = latency::compare(a, a, 1);
    REQUIRE(same.at.size() == 1);
    CHECK(!same.at[0].differ());
    for (const auto& q : same.at[0].quantiles) CHECK(!q.certain());
    const auto shifted = latency::compare(a, b, 1);
    CHECK(shifted.at[0].differ());
    CHECK(shifted.at[0].distance == 1);
    for (const auto& q : shifted.at[0].quantiles) {
        CHECK(q.certain());
        const double truth = 400 * (1 + 0.01 * q.p);
        CHECK(q.interval.low <= truth + 1);
        CHECK(q.interval.high >= truth - 1);
        CHECK(q.b_ns - q.a_ns == doctest::Approx(truth).epsilon(0.02));
    }
    CHECK(shifted.at[0].blocks_a == 28 * 6);
    CHECK(shifted.at[0].band_a == doctest::Approx(std::sqrt(std::log(40.0) / (2 * 28 * 6))));
    CHECK(latency::to_json(shifted) == latency::to_json(latency::compare(a, b, 1)));
    CHECK(latency::to_text(shifted, 80).find("differ (") != std::string::npos);
}

TEST_CASE("what cannot be used gets a reason") {
    const Made made{4, 20, 1, 1, three_classes};
    const auto message = [](const json& from) {
        try {
            latency::parse(from);
        } catch (const samples::Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK(message(raw(made)) == "");
    CHECK(message(json()).find("no result of the latency benchmark") != std::string::npos);
    CHECK(message(json::object()).find("no result") != std::string::npos);
    json damaged = raw(made);
    damaged["of_ranks"].erase(2);
    CHECK(message(damaged).find("missing") != std::string::npos);
    damaged = raw(made);
    damaged["of_ranks"][1]["rank"] = 0;
    CHECK(message(damaged).find("twice") != std::string::npos);
    damaged = raw(made);
    damaged["of_ranks"][1]["rank"] = 99;
    CHECK(message(damaged).find("rank 99") != std::string::npos);
    damaged = raw(made);
    damaged["of_ranks"][0]["blocks"][0]["median_ns"] = nullptr;  // what a NaN becomes
    CHECK(message(damaged).find("no number") != std::string::npos);
    damaged = raw(made);
    damaged["of_ranks"][0]["blocks"][0]["peer"] = 4;
    CHECK(message(damaged).find("no rank") != std::string::npos);
    damaged = raw(made);
    damaged["of_ranks"][0].erase("timer");
    CHECK(message(damaged).find("damaged") != std::string::npos);
    CHECK(message(raw({1, 20, 1, 1, three_classes})).find("one rank") != std::string::npos);
    damaged = raw(made);
    damaged["of_ranks"][0]["timer"]["counts"][0][1] = std::nan("");
    CHECK(message(json::parse(damaged.dump())).find("damaged") != std::string::npos);  // null, as what writes JSON makes of NaN
    damaged = raw(made);
    damaged["of_ranks"] = json::array();
    CHECK(message(damaged).find("missing") != std::string::npos);
    // One sample of each pair is enough for what it says.
    const auto single = analyzed({2, 1, 1, 1, [](auto...) { return 1'000.0; }});
    CHECK(single.measured.of[latency::off_node][latency::pairwise].samples() == 1);
    CHECK(latency::to_json(latency::compare(latency::to_json(single), latency::to_json(single), 1)).at("schema") ==
          "polter.latency.compare/1");
    const auto equal = analyzed({4, 20, 1, 1, [](auto...) { return 1'000.0; }});
    CHECK(std::any_of(equal.warnings.begin(), equal.warnings.end(),
                      [](const auto& w) { return w.find("all latencies are equal") != std::string::npos; }));
    CHECK(equal.modes.size() == 1);
    CHECK_THROWS_WITH_AS(latency::compare(json::object(), json::object(), 1), doctest::Contains("no result of polter latency"),
                         samples::Error);
    json result = latency::to_json(equal);
    result.erase("blocks");
    CHECK_THROWS_WITH_AS(latency::compare(result, result, 1), doctest::Contains("damaged"), samples::Error);
}

TEST_CASE("marked samples are a part of all, and the text names what was found") {
    const auto analysis = analyzed(
        {4, 100, 1, 1,
         [](int32_t a, int32_t b, int64_t cycle, int64_t trial) { return near(trial % 50 == 0 ? 100'000 : 1'000, a, b, cycle, trial); },
         [](int32_t, int32_t, int64_t, int64_t trial) { return trial % 50 == 0; }});
    CHECK(analysis.measured.of[latency::off_node][latency::pairwise_hit].samples() == 12);
    CHECK(analysis.measured.of[latency::off_node][latency::pairwise_hit].least() >= 100'000);
    const std::string text = latency::to_text(analysis, 100);
    CHECK(text.find("hit by noise") != std::string::npos);
    CHECK(text.find("Tail between nodes") != std::string::npos);
    const json out = latency::to_json(analysis);
    CHECK(out.at("schema") == "polter.latency/1");
    CHECK(out.at("tails").at("off_node").at("samples") == 24);
}
