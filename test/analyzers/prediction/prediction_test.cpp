// SPDX-License-Identifier: BSD-3-Clause
// Predictions whose answer was computed by hand, each rule's mutation, which the same expectations must catch, and the identity: for the
// measured ranks with their own noise the prediction is the replay's answer, to the nanosecond.
#include "analyzers/prediction/prediction.hpp"

#include <doctest/doctest.h>
#include <otf2/otf2.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "analyzers/prediction/layout.hpp"
#include "analyzers/prediction/mutations.hpp"
#include "analyzers/prediction/random.hpp"
#include "analyzers/prediction/scaling_rules.hpp"
#include "analyzers/prediction/simulation.hpp"
#include "replay/base/error.hpp"
#include "support/micro_parse.hpp"
#include "support/random_program.hpp"
#include "support/trace_spec.hpp"
#include "test/analyzers/expectations.hpp"

namespace {

using namespace polter;
using prediction::Grid;
using prediction::Pattern;
using prediction::Point;
using test::Expectations;
using Kind = test::Record::Kind;

// Ranks of a grid that only send, and take, one message each way.
replay::Programs linked(const Grid& grid, const std::vector<Point>& ways) {
    replay::Programs programs;
    programs.last = 1000;
    for (int32_t rank = 0; rank < grid.ranks(); ++rank) {
        replay::Program& program = programs.ranks.emplace_back();
        program.rank = rank;
        for (const Point& way : ways) {
            const Point back{-way[0], -way[1], -way[2]};
            const int32_t to = grid.neighbour(rank, way), from = grid.neighbour(rank, back);
            if (to >= 0) program.links.push_back({.out = true, .peer = to, .comm = 0, .tag = 0, .messages = 1});
            if (from >= 0) program.links.push_back({.out = false, .peer = from, .comm = 0, .tag = 0, .messages = 1});
        }
    }
    return programs;
}

Grid grid_of(std::vector<int32_t> sizes, std::vector<bool> periodic) {
    Grid grid;
    grid.dimensions = sizes.size();
    for (size_t d = 0; d < sizes.size(); ++d) {
        grid.size[d] = sizes[d];
        grid.periodic[d] = periodic[d];
    }
    return grid;
}

void expect_patterns(Expectations& e) {
    const std::vector<Point> cross{{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}};
    const std::vector<Point> cube{{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}};
    const auto found = [](const Grid& grid, const std::vector<Point>& ways) { return prediction::find_pattern(linked(grid, ways)); };
    e.expect(found(grid_of({8}, {true}), {{1, 0, 0}}).name == "ring of 8", "a ring");
    e.expect(found(grid_of({8}, {false}), {{1, 0, 0}}).name == "chain of 8", "a chain");
    e.expect(found(grid_of({4, 6}, {true, true}), cross).name == "periodic grid of 4 x 6", "a periodic grid");
    e.expect(found(grid_of({4, 6}, {false, false}), cross).name == "open grid of 4 x 6", "an open grid");
    e.expect(found(grid_of({4, 6}, {false, true}), cross).name == "partly periodic grid of 4 x 6", "a partly periodic grid");
    e.expect(found(grid_of({4, 3, 5}, {false, false, false}), cube).name == "open grid of 4 x 3 x 5", "a grid in three dimensions");
    e.expect(found(grid_of({8}, {true}), {}).name == "no messages between single ranks", "no messages");
    replay::Programs master = linked(grid_of({8}, {true}), {});
    for (int32_t rank = 1; rank < 8; ++rank) {
        master.ranks[0].links.push_back({.out = true, .peer = rank, .messages = 1});
        master.ranks[static_cast<size_t>(rank)].links.push_back({.out = false, .peer = 0, .messages = 1});
    }
    e.expect(!prediction::find_pattern(master).irregular.empty(), "a master is no neighbourhood");
    replay::Programs gap = linked(grid_of({4, 6}, {true, true}), cross);
    gap.ranks[7].links.clear();
    for (replay::Program& program : gap.ranks) std::erase_if(program.links, [](const auto& link) { return link.peer == 7; });
    e.expect(!prediction::find_pattern(gap).irregular.empty(), "a grid with a hole is no neighbourhood");

    const Pattern open = found(grid_of({4, 4}, {false, false}), cross);
    e.expect(prediction::shape_of(prediction::extend(open, 64, {}).grid) == "8 x 8", "64 extends 4 x 4");
    e.expect(prediction::shape_of(prediction::extend(open, 32, {}).grid) == "8 x 4", "32 extends 4 x 4");
    e.expect(prediction::shape_of(prediction::extend(open, 32, {4, 8}).grid) == "4 x 8", "as asked for");
    e.expect(!prediction::extend(open, 17, {}).why.empty(), "17 does not extend 4 x 4");
    e.expect(!prediction::extend(open, 32, {2, 16}).why.empty(), "2 x 16 does not extend 4 x 4");
    e.expect(!prediction::extend(found(grid_of({2, 4}, {false, false}), cross), 32, {4, 8}).why.empty(), "no rank inside to copy");

    // Borders stay borders: of a chain of 4 the ranks 1 and 2 are repeated.
    const Pattern chain = found(grid_of({4}, {false}), {{1, 0, 0}});
    std::string irregular;
    const prediction::Layout layout(linked(grid_of({4}, {false}), {{1, 0, 0}}), chain, prediction::extend(chain, 8, {}).grid, &irregular);
    e.expect(irregular.empty(), "a chain can be extended: " + irregular);
    std::vector<int32_t> parents;
    for (int32_t rank = 0; rank < layout.ranks(); ++rank) parents.push_back(layout.parent(rank));
    e.expect(parents == std::vector<int32_t>{0, 1, 2, 1, 2, 1, 2, 3}, "copies in a chain");
    const Pattern ring = found(grid_of({4}, {true}), {{1, 0, 0}});
    const prediction::Layout round(linked(grid_of({4}, {true}), {{1, 0, 0}}), ring, prediction::extend(ring, 8, {}).grid, &irregular);
    e.expect(round.parent(5) == 1 && round.parent(7) == 3, "copies in a ring");
    // What rank 3 sends is what rank 4 takes: links 0 and 1 go out and come in.
    e.expect(irregular.empty() && round.queue(3, 0) == round.queue(4, 1), "who takes what is sent");
}

// Four ranks in one communicator; all enter an Allreduce at 0 and leave at 30.
replay::Programs reduced() {
    replay::Programs programs;
    programs.last = 100;
    programs.communicators[0] = {0, 1, 2, 3};
    replay::Structure structure;
    structure.pattern.up = replay::Shape::recursive_doubling;
    structure.hop = 10;
    structure.own = 1;
    programs.structures = {structure};
    for (int32_t rank = 0; rank < 4; ++rank) {
        replay::Program& program = programs.ranks.emplace_back();
        program.rank = rank;
        program.calls.push_back({.work = 0, .collective = 0});
        replay::ProgramCollective collective;
        collective.operation = OTF2_COLLECTIVE_OP_ALLREDUCE;
        collective.structure = 0;
        collective.leave = collective.approximated_leave = 30;
        program.collectives.push_back(collective);
    }
    return programs;
}

// Two ranks a host, of which each event hits both.
replay::Programs noisy(int32_t ranks) {
    replay::Programs programs;
    programs.last = 80'000;
    for (int32_t rank = 0; rank < ranks; ++rank) {
        replay::Program& program = programs.ranks.emplace_back();
        program.rank = rank;
        program.host = rank / 2;
        for (int64_t i = 0; i < 64; ++i) {
            const int64_t begin = i * 1250 + 100 + 37 * (i * i % 11) + 5 * program.host;
            program.noise.push_back({begin, begin + 50 + i % 7});
        }
    }
    return programs;
}

void expect_noise(Expectations& e) {
    // An event from 100 to 150: work across it is prolonged; a wait that ends during it lasts until its end; one behind it costs nothing.
    replay::Programs one = noisy(2);
    for (replay::Program& program : one.ranks) program.noise = {{100, 150}};
    one.last = 8000;
    const prediction::NoiseBlocks single(one, 1);
    bool found = false;
    for (uint64_t draw = 0; draw < 64 && !found; ++draw) {  // a draw that begins with the block of the event
        const prediction::NoiseDraw drawn(single, draw, 20 * one.last);
        prediction::DrawnClock clock(drawn, 0);
        if (prediction::DrawnClock(clock).finish(90, 20) == 90 + 20) continue;
        found = true;
        e.near(static_cast<double>(prediction::DrawnClock(clock).finish(90, 20)), 160, 1e-6, "work across an event");
        e.near(static_cast<double>(prediction::DrawnClock(clock).finish(120, 0)), 150, 1e-6, "a wait that ends during an event");
        e.near(static_cast<double>(prediction::DrawnClock(clock).finish(200, 10)), 210, 1e-6, "a wait that ends behind an event");
    }
    e.expect(found, "the event is drawn");

    const replay::Programs programs = noisy(8);
    const prediction::NoiseBlocks noise(programs, 1);
    e.expect(noise.hosts() == 4 && noise.events() == 8 * 64, "hosts and events");
    std::vector<int64_t> places;
    for (const auto& event : programs.ranks[0].noise) places.push_back(event.begin % noise.block_ns());
    const int64_t until = 20 * programs.last;
    const prediction::NoiseDraw third(noise, 3, until), fourth(noise, 4, until);
    prediction::DrawnClock first(third, 10), second(third, 11), other(fourth, 10);
    int64_t now = 0, differs = 0;
    bool together = true, in_place = true;
    for (int i = 0; i < 3000; ++i) {
        const int64_t a = first.finish(now, 25), b = second.finish(now, 25), c = other.finish(now, 25);
        together = together && a == b;
        differs += a != c;
        now += 25;
    }
    for (uint64_t draw = 0; draw < 4; ++draw) {  // an event that is waited for ends where one of the host's events does in its block
        const prediction::NoiseDraw drawn(noise, draw, until);
        prediction::DrawnClock clock(drawn, 0);
        const int64_t end = clock.finish(0, 2 * noise.block_ns());
        in_place = in_place && end > 2 * noise.block_ns();
        prediction::DrawnClock again(drawn, 0);
        int64_t at = 0;
        while (again.noise_ns() == 0) at = again.finish(at, 1);
        const int64_t begin = (at - 1 - again.noise_ns()) % noise.block_ns();
        bool near = false;
        for (size_t host = 0; host < 4; ++host)
            for (const int64_t place : places) near = near || std::abs(begin - (place + 5 * static_cast<int64_t>(host))) <= 1;
        in_place = in_place && near;
    }
    e.expect(together, "ranks of a host suffer the same");
    e.expect(differs > 0, "draws differ");
    e.expect(in_place, "events keep their place in their block");

    // A draw that ends inside an event: 100'000 ns of work are hit by what lies before, and no more.
    prediction::DrawnClock unending(third, 10);
    const int64_t hit = unending.finish(0, 1000) - 1000;
    const int64_t inside = 1000 + hit - 1;  // of all noise that this work met
    const prediction::NoiseDraw brief(noise, 3, inside);
    prediction::DrawnClock ended(brief, 10);
    const int64_t end = ended.finish(0, 100'000);
    e.expect(hit > 0 && end > 100'000 && end <= 100'000 + hit, "a draw's noise ends with it");
}

void expect_longest_events(Expectations& e) {
    const auto near = [&](double value, double wanted, const std::string& what) {
        e.expect(std::abs(value / wanted - 1) < 0.2, what + ": " + std::to_string(value) + ", not " + std::to_string(wanted));
    };
    const auto quantiles = [](size_t count, const std::function<double(double)>& of) {
        std::vector<double> lengths;
        for (size_t i = 0; i < count; ++i) lengths.push_back(of((static_cast<double>(i) + 0.5) / static_cast<double>(count)));
        return lengths;
    };
    const prediction::ParetoLaw heavy{1000, 0.4}, bounded{1000, -0.5}, light{1000, 0};
    for (const auto& law : {heavy, bounded, light}) {
        const auto fitted = prediction::fit_pareto(quantiles(500, [&](double p) { return law.quantile(p); }));
        e.expect(fitted.has_value() && std::abs(fitted->shape - law.shape) < 0.05, "shape " + std::to_string(law.shape));
        if (fitted) near(fitted->scale, law.scale, "scale at shape " + std::to_string(law.shape));
        e.expect(std::abs(law.distribution(law.quantile(0.9)) - 0.9) < 1e-9, "distribution at shape " + std::to_string(law.shape));
    }
    e.expect(!prediction::fit_pareto(std::vector<double>(50, 7)), "lengths that are all alike follow no law");

    // 4000 short events, and 200 of another source: these are the tail.
    std::vector<double> lengths = quantiles(4000, [](double p) { return 4000 + 40 * p; });
    for (const double length : quantiles(200, [](double p) { return -150'000 * std::log1p(-p); })) lengths.push_back(length);
    const double longest = *std::max_element(lengths.begin(), lengths.end());
    const prediction::LongestEvents events(lengths, 1);
    e.expect(events.known() && events.threshold() > 4000, "the longest events have a law");
    if (events.known()) {
        near(events.law().scale, 150'000, "scale of the longest");
        e.near(static_cast<double>(events.length(4010, 99)), 4010, 1e-6, "a short event takes what it took");
        double most = 0, sum = 0;
        constexpr int draws = 20'000;
        for (int i = 0; i < draws; ++i) {
            const auto length = static_cast<double>(
                events.length(static_cast<int64_t>(longest), prediction::mixed(1, 0, prediction::Drawn::length, 0, static_cast<uint64_t>(i))));
            most = std::max(most, length);
            sum += (length - static_cast<double>(events.threshold())) / draws;
        }
        near(sum, 150'000, "what drawn events take above the threshold");
        e.expect(most > 1.3 * longest, "of many more events one is longer than all that were measured");
        e.expect(events.resampled(1).law().scale != events.resampled(2).law().scale, "draws differ by what the sample leaves open of the law");
    }
    // Two lengths far apart follow no such law; the longer alone does.
    std::vector<double> apart = quantiles(2000, [](double p) { return 100 + 10 * p; });
    for (const double from : {500, 1000})
        for (const double length : quantiles(100, [&](double p) { return from + 10 * p; })) apart.push_back(length);
    e.expect(prediction::LongestEvents(apart, 1).threshold() >= 1000, "the law begins above what it does not describe");
}

// What the measured noise tells of more: whether hosts differ, and whether the longest events decide.
void expect_warnings(Expectations& e) {
    e.expect(!prediction::NoiseBlocks(noisy(8), 1).hosts_differ(), "hosts with the same noise are alike");
    replay::Programs one_host = noisy(8);
    for (size_t rank : {2, 3})
        for (auto& event : one_host.ranks[rank].noise) event.end += 900;
    e.expect(prediction::NoiseBlocks(one_host, 1).hosts_differ(), "one host has far more noise");
    const auto warned = [](const std::function<double(double)>& length_of) {
        replay::Programs programs = noisy(8);
        constexpr size_t events = 8 * 64;
        for (size_t rank = 0; rank < 8; ++rank)
            for (size_t i = 0; i < 64; ++i) {
                auto& event = programs.ranks[rank].noise[i];
                event.end = event.begin + static_cast<int64_t>(length_of((static_cast<double>(i * 8 + rank) + 0.5) / events));
            }
        const auto warnings = prediction::warnings_of(prediction::NoiseBlocks(programs, 1));
        return !warnings.empty() && warnings.front().find("heavy tail") != std::string::npos;
    };
    e.expect(!warned([](double p) { return 100 * -std::log(p); }), "exponential lengths have no heavy tail");
    e.expect(warned([](double p) { return 10 * std::pow(p, -1 / 1.3); }), "lengths with an infinite variance");
    e.expect(prediction::warnings_of(prediction::NoiseBlocks(noisy(2), 1)).size() == 1, "few events");
}

void expect_simulation(Expectations& e) {
    // Recursive doubling, 2 rounds of 4 members: 1 + 10 + 1 each, 24 of the 30; 6 are not explained. 8 members: 36 + 6.
    const replay::Programs programs = reduced();
    const Pattern pattern = prediction::find_pattern(programs);
    const prediction::Residuals residuals = prediction::residuals_of(programs);
    const auto quiet = [&](int64_t ranks) {
        std::string irregular;
        const prediction::Layout layout(programs, pattern, prediction::extend(pattern, ranks, {}).grid, &irregular);
        e.expect(irregular.empty(), irregular);
        return static_cast<double>(prediction::Simulation(programs, layout, residuals).quiet().end);
    };
    e.near(quiet(4), 30, 1e-6, "an Allreduce of 4");
    e.near(quiet(8), 42, 1e-6, "an Allreduce of 8");
}

void expect_rules(Expectations& e) {
    // One of 100 times a rank computed it was hit, for 10 ns: 0.1 ns for 1 rank, 0.199 for 2.
    prediction::Intervals intervals;
    intervals.noise = {10};
    intervals.cells = 100;
    const prediction::Method rule = prediction::tsafrir(intervals, 1000, 1, 2);
    e.near(rule.ns.value_or(0), 1990, 1e-6, "Tsafrir's rule");
    // Without noise all stretches take the same but for a Gumbel-like spread; with it the same and more. Of one rank nothing changes.
    for (int i = 0; i < 200; ++i) {
        const double spread = -std::log(-std::log((i + 0.5) / 200));
        intervals.longest_quiet.push_back(1000 + spread);
        intervals.longest.push_back(1100 + 10 * spread);
    }
    e.near(prediction::emma(intervals, 1000, 1).ns.value_or(0), 1000, 1e-6, "EMMA for the measured ranks");
    // The scales 10 and 1 of the two Gumbel distributions: 100 + 9 gamma before, 9 ln 8 more on 8 times as many ranks.
    const double before = 100 + 9 * 0.5772157, more = 9 * std::log(8.0), found = prediction::emma(intervals, 1000, 8).ns.value_or(0);
    e.expect(std::abs(found / (1000 * (before + more) / before) - 1) < 0.02, "EMMA for 8 times as many ranks: " + std::to_string(found));
    prediction::Prediction three;
    three.noise_ns = 10;
    three.others = {{"EMMA", 15, ""}, {"Tsafrir", {}, "it does not apply"}};
    e.expect(prediction::disagreement(three).empty(), "within a factor of two");
    three.others[0].ns = 21;
    e.expect(!prediction::disagreement(three).empty(), "beyond a factor of two");
    prediction::Prediction endless;
    endless.draws = {1, 2, 3, 4};
    e.expect(prediction::without_end(endless).empty() && prediction::ended_draws(endless).empty(), "no draw was ended");
    endless.ended = 1;
    e.expect(prediction::without_end(endless).empty() && !prediction::ended_draws(endless).empty(), "one was: the upper end is open");
    endless.ended = 2;
    e.expect(!prediction::without_end(endless).empty(), "half of them were: no median");
}

std::string held_by_prediction() {
    Expectations e;
    expect_patterns(e);
    expect_noise(e);
    expect_longest_events(e);
    expect_warnings(e);
    expect_simulation(e);
    expect_rules(e);
    return e.failed;
}

prediction::Result as_recorded(const std::string& trace, int64_t ranks) {
    prediction::Options options;
    options.trace = trace;
    options.ranks = {ranks};
    options.resample = false;
    return prediction::predict(options);
}

// Whether there is a basis, and then whether it is the replay's answer.
bool identical(const std::string& trace, int64_t ranks) {
    const prediction::Result result = as_recorded(trace, ranks);
    if (!result.reasons.empty() || !result.predictions.front().basis()) return false;
    CHECK(result.predictions.front().quiet_ns == result.measured.approximated_ns);
    CHECK(result.predictions.front().noise_ns == static_cast<double>(result.measured.accumulated_noise_ns));
    return true;
}

// A chain: rank 0 sends `count` messages, each after 1000 ns of work; the others work as long on each before they send it on. On rank 1
// noise of 500 ns hits the work on the second message.
test::TraceSpec pipeline(size_t ranks, int64_t count) {
    test::TraceSpec spec(ranks);
    spec.accounts = {"os:preempt"};
    spec.properties["EXPORTER"] = "simulated";
    constexpr int64_t work = 1000, flight = 100, send = 10;
    std::vector<int64_t> now(ranks, 0);
    for (size_t rank = 0; rank < ranks; ++rank) {
        spec.add(rank, 0, Kind::enter, "MPI_Init");
        spec.add(rank, 1, Kind::leave, "MPI_Init");
        now[rank] = 1;
    }
    for (int64_t i = 0; i < count; ++i) {
        int64_t arrival = 0;
        for (size_t rank = 0; rank < ranks; ++rank) {
            if (rank > 0) {
                spec.add(rank, now[rank], Kind::enter, "MPI_Recv");
                now[rank] = std::max(now[rank] + 20, arrival);
                auto& taken = spec.add(rank, now[rank], Kind::recv);
                taken.peer = static_cast<int64_t>(rank) - 1;
                taken.bytes = 8;
                spec.add(rank, now[rank], Kind::leave, "MPI_Recv");
            }
            now[rank] += work;
            if (rank == 1 && i == 1) {
                now[rank] += 500;
                spec.add(rank, now[rank], Kind::noise, "os:preempt").ns = 500;
            }
            if (rank + 1 == ranks) continue;
            spec.add(rank, now[rank], Kind::enter, "MPI_Send");
            auto& sent = spec.add(rank, now[rank], Kind::send);
            sent.peer = static_cast<int64_t>(rank) + 1;
            sent.bytes = 8;
            arrival = now[rank] + flight;
            now[rank] += send;
            spec.add(rank, now[rank], Kind::leave, "MPI_Send");
        }
    }
    for (size_t rank = 0; rank < ranks; ++rank) {
        spec.add(rank, now[rank] + 1, Kind::enter, "MPI_Finalize");
        spec.add(rank, now[rank] + 2, Kind::leave, "MPI_Finalize");
    }
    return spec;
}

}  // namespace

TEST_CASE("predictions are those computed by hand") {
    CHECK(held_by_prediction() == "");
}

TEST_CASE("each mutation of a rule is caught") {
    for (int i = 1; i < prediction::mutations; ++i) {
        prediction::mutation = static_cast<prediction::Mutation>(i);
        const std::string failed = held_by_prediction();
        prediction::mutation = prediction::Mutation::none;
        CAPTURE(i);
        CHECK(!failed.empty());
    }
}

TEST_CASE("a longer pipeline fills for longer, and each copy has the noise of its rank") {
    const test::TemporaryDirectory directory;
    test::write_trace(pipeline(4, 20), directory.path("short"));
    test::write_trace(pipeline(8, 20), directory.path("long"));
    CHECK(identical(directory.path("short"), 4));
    // Of 8 ranks, 3 and 5 are copies of rank 1, which has the noise.
    const prediction::Result made = as_recorded(directory.path("short"), 8), measured = as_recorded(directory.path("long"), 8);
    REQUIRE(made.predictions.size() == 1);
    CHECK(made.predictions[0].quiet_ns == measured.measured.approximated_ns);
    CHECK(made.predictions[0].noise_ns == 3 * 500);  // the three of them follow each other, and nobody has time to wait
}

TEST_CASE("for the measured ranks with their own noise the prediction is the replay's answer") {
    const test::TemporaryDirectory directory;
    SUBCASE("micro traces") {
        int predicted = 0, all = 0;
        for (const auto& entry : std::filesystem::directory_iterator(POLTER_MICRO_TRACES)) {
            const test::Micro micro = test::parse_micro(entry.path().string());
            CAPTURE(entry.path().string());
            test::write_trace(micro.trace, directory.path("t"));
            ++all;
            predicted += identical(directory.path("t"), static_cast<int64_t>(micro.trace.ranks() - micro.trace.threads.size()));
        }
        CHECK(predicted >= 40);
        MESSAGE(predicted << " of " << all);
    }
    SUBCASE("random programs") {
        int predicted = 0;
        for (uint64_t seed = 1; seed <= test::programs_of(60); ++seed) {
            test::ProgramOptions options;
            options.seed = seed;
            options.ranks = 2 + seed % 4;
            options.wildcards = seed % 3 == 0;
            options.synchronous = seed % 2 == 0;
            options.structured = seed % 5 == 0;
            CAPTURE(seed);
            test::write_trace(test::random_program(options).trace, directory.path("t"));
            predicted += identical(directory.path("t"), static_cast<int64_t>(options.ranks));
        }
        CHECK(predicted >= static_cast<int>(test::programs_of(20)));
        MESSAGE(predicted);
    }
}

TEST_CASE("numbers of ranks that cannot be are refused, with what to do") {
    const test::TemporaryDirectory directory;
    test::write_trace(pipeline(4, 5), directory.path("t"));
    CHECK_THROWS_WITH_AS(as_recorded(directory.path("t"), 2), doctest::Contains("at least 4"), replay::InputError);
    prediction::Options options;
    options.trace = directory.path("t");
    options.ranks = {8};
    options.grid = {2, 4};
    CHECK_THROWS_WITH_AS(prediction::predict(options), doctest::Contains("do not extend"), replay::InputError);
    options.ranks = {8, 16};
    CHECK_THROWS_WITH_AS(prediction::predict(options), doctest::Contains("one number of ranks"), replay::InputError);
}

TEST_CASE("a trace whose noise was not measured gives no basis") {
    const test::TemporaryDirectory directory;
    test::TraceSpec spec = pipeline(4, 5);
    spec.accounts.clear();
    spec.properties.clear();
    for (auto& records : spec.records) std::erase_if(records, [](const test::Record& record) { return record.kind == Kind::noise; });
    test::write_trace(spec, directory.path("t"));
    const prediction::Result result = as_recorded(directory.path("t"), 8);
    CHECK(!result.reasons.empty());
    CHECK(prediction::to_text(result).find("No basis") == 0);
    CHECK(prediction::to_json(result).at("predictions").empty());
}
