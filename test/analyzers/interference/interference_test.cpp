// SPDX-License-Identifier: BSD-3-Clause
// The interference of traces whose answer was computed by hand; and each rule's mutation, which the same expectations must catch.
#include "analyzers/interference/interference.hpp"

#include <doctest/doctest.h>
#include <otf2/otf2.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "analyzers/interference/mutations.hpp"
#include "replay/base/error.hpp"
#include "support/process_group.hpp"
#include "support/trace_spec.hpp"
#include "test/analyzers/expectations.hpp"

namespace {

using namespace polter;
using test::Expectations;
using Kind = test::Record::Kind;

// What the ranks do before a barrier: how long each computes, what is stolen from it, and how much a counter counts.
struct Phase {
    std::vector<int64_t> work;  // by rank
    std::vector<int64_t> stolen = {};
    double counted = 0;                 // -1: no number
    uint64_t bytes = 0;                 // from rank 0 to rank 1
    std::vector<int64_t> in_call = {};  // by rank, of noise inside the barrier
    int64_t last_leaves_later = 0;      // the last rank
};

// Two or more ranks; a barrier begins when the last rank has entered it, and takes 10 ns from there.
std::string written(const test::TemporaryDirectory& directory, const std::string& name, const std::vector<Phase>& phases,
                    bool counter = false) {
    const size_t ranks = phases.front().work.size();
    test::TraceSpec spec(ranks);
    spec.real = "PAPI_TOT_INS";
    spec.accounts = {"os:preempt"};
    if (counter) spec.accounts.push_back("PAPI_TOT_INS");
    spec.properties["EXPORTER"] = "simulated";
    for (size_t rank = 0; rank < ranks; ++rank) {
        spec.add(rank, 0, Kind::enter, "MPI_Init");
        spec.add(rank, 1, Kind::leave, "MPI_Init");
    }
    int64_t now = 100;
    const auto barrier = [&](const std::vector<int64_t>& enter, const std::vector<int64_t>& in_call, int64_t later = 0) {
        const int64_t leave = *std::max_element(enter.begin(), enter.end()) + 10;
        for (size_t rank = 0; rank < ranks; ++rank) {
            spec.add(rank, enter[rank], Kind::enter, "MPI_Barrier");
            spec.add(rank, enter[rank], Kind::collective_begin);
            if (rank < in_call.size() && in_call[rank] > 0) {
                auto& noise = spec.add(rank, leave - 10, Kind::noise, "os:preempt");
                noise.ns = in_call[rank];
                noise.culprit = "absorbed";
            }
            const int64_t own_leave = leave + (rank + 1 == ranks ? later : 0);
            auto& end = spec.add(rank, own_leave, Kind::collective_end);
            end.operation = OTF2_COLLECTIVE_OP_BARRIER;
            end.peer = -1;
            spec.add(rank, own_leave, Kind::leave, "MPI_Barrier");
        }
        return leave;
    };
    now = barrier(std::vector<int64_t>(ranks, now), {});
    for (const Phase& phase : phases) {
        std::vector<int64_t> enter;
        for (size_t rank = 0; rank < ranks; ++rank) {
            const int64_t stolen = rank < phase.stolen.size() ? phase.stolen[rank] : 0;
            const int64_t end = now + phase.work[rank] + stolen;
            if (stolen > 0) {
                auto& noise = spec.add(rank, end, Kind::noise, "os:preempt");
                noise.ns = stolen;
                noise.culprit = "hog";
            }
            if (counter) spec.add(rank, end, Kind::noise, "PAPI_TOT_INS").ns = static_cast<int64_t>(phase.counted);
            if (phase.bytes > 0 && rank < 2) {
                spec.add(rank, end, Kind::enter, rank == 0 ? "MPI_Send" : "MPI_Recv");
                auto& message = spec.add(rank, end, rank == 0 ? Kind::send : Kind::recv);
                message.peer = rank == 0 ? 1 : 0;
                message.bytes = phase.bytes;
                spec.add(rank, end, Kind::leave, rank == 0 ? "MPI_Send" : "MPI_Recv");
            }
            enter.push_back(end);
        }
        now = barrier(enter, phase.in_call, phase.last_leaves_later);
    }
    for (size_t rank = 0; rank < ranks; ++rank) {
        spec.add(rank, now + 50, Kind::enter, "MPI_Finalize");
        spec.add(rank, now + 60, Kind::leave, "MPI_Finalize");
    }
    test::write_trace(spec, directory.path(name));
    return directory.path(name);
}

interference::Result analyzed(const std::vector<std::string>& traces, bool noise = false) {
    interference::Options options;
    options.traces = traces;
    options.noise = noise;
    return interference::analyze(options);
}

std::string held_by_interference() {
    Expectations e;
    const test::TemporaryDirectory directory;
    using List = std::vector<uint32_t>;
    // Neighbours decide: 1.19 is within 10 % of 1.09, and not of 1.
    e.expect(interference::cluster({1.19, 1, 1.5, 1.09}) == List({0, 0, 1, 0}), "a chain is one cluster");
    e.expect(interference::cluster({10, 11}) == List({0, 1}), "10 % more is another cluster");
    e.expect(interference::cluster({1000, 1050, 1, 2}) == List({2, 2, 0, 1}), "distances are relative");
    e.expect(interference::cluster({0, 0, 0.5, 0}) == List({0, 0, 1, 0}), "0 is a cluster of its own");
    e.expect(interference::cluster({}).empty(), "nothing");

    // One kind: 9 segments with work 90, 100 and 110 three times each (10 ns of barrier), and one of 500. Median of 100 100 100 110 110 110
    // 120 120 120 510: 110. Deviations 10 10 10 0 0 0 10 10 10 400: MAD 10. Threshold 150. Impact 360 of 1500: 24 %; over the median 400.
    std::vector<Phase> one;
    for (const int64_t work : {90, 100, 110, 90, 500, 100, 110, 90, 100, 110}) one.push_back({{work, 80}});
    const auto first = analyzed({written(directory, "one", one)}).runs.front();
    e.near(first.run.total(), 100 * 3 + 110 * 3 + 120 * 3 + 510, 1e-9, "total");
    e.expect(first.run.segments.size() == 10, "segments");
    e.expect(first.estimate.groups.size() == 1, "one group");
    if (first.estimate.groups.empty()) return e.failed;
    e.near(first.estimate.groups[0].median_ns, 110, 1e-9, "median");
    e.near(first.estimate.groups[0].mad_ns, 10, 1e-9, "MAD");
    e.near(first.estimate.groups[0].threshold_ns, 150, 1e-9, "threshold");
    e.near(first.estimate.percent, 24, 1e-9, "interference");
    e.near(first.estimate.percent_over_median, 100 * 400.0 / 1500, 1e-9, "interference over the median");
    e.expect(first.estimate.hits.size() == 1 && first.estimate.hits[0].segment == 4, "which segment was hit");
    e.near(first.run.before, 110, 1e-9, "before the segments");
    e.near(first.run.after, 60, 1e-9, "after the segments");

    // Which rank is late does not matter: the segment lasts until the last one leaves.
    std::vector<Phase> other;
    for (const int64_t work : {90, 100, 110, 90, 500, 100, 110, 90, 100, 110}) other.push_back({{80, work, 70}});
    e.near(analyzed({written(directory, "other", other)}).runs.front().estimate.percent, 24, 1e-9, "interference of another rank");

    // A segment ends on the last rank: where that leaves 60 ns later, it is longer and the next one shorter.
    std::vector<Phase> late(10, Phase{{100, 90}});
    late[3].last_leaves_later = 60;
    const auto left = analyzed({written(directory, "late", late)}).runs.front();
    e.near(static_cast<double>(left.run.segments[3].duration), 170, 1e-9, "a segment that the last rank leaves late");
    e.near(static_cast<double>(left.run.segments[4].duration), 50, 1e-9, "and the next one");

    // Equal times: the threshold is the clock's resolution of 1 ns above. 9 of 110, one of 111 (no hit) and one of 210: 96 of 1311.
    std::vector<Phase> equal(9, Phase{{100, 100}});
    equal.push_back({{101, 100}});
    equal.push_back({{200, 100}});
    const auto flat = analyzed({written(directory, "equal", equal)}).runs.front();
    e.near(flat.estimate.groups[0].threshold_ns, 114, 1e-9, "threshold of equal times");
    e.near(flat.estimate.percent, 100 * 96.0 / (9 * 110 + 111 + 210), 1e-9, "interference of equal times");
    e.expect(flat.estimate.hits.size() == 1, "a tick of the clock is no hit");

    // Two kinds, told apart by a counter (1000 and 2000, within 5 %); 4 of a third kind are too few. One hit in each of the first two:
    // 110 110 110 110 110 160 and 310 310 310 310 310 410, thresholds 114 and 314; the third lasts 1010.
    std::vector<Phase> kinds;
    for (int i = 0; i < 6; ++i) {
        kinds.push_back({{i == 5 ? 150 : 100, 90}, {}, 1000.0 + 10 * i});
        kinds.push_back({{i == 2 ? 400 : 300, 90}, {}, 2000.0 - 10 * i});
        if (i < 4) kinds.push_back({{i == 0 ? 2000 : 1000, 90}, {}, 9000});
    }
    const auto two = analyzed({written(directory, "kinds", kinds, true)}).runs.front();
    const double whole = 5 * 110 + 160 + 5 * 310 + 410 + 3 * 1010 + 2010;
    e.expect(two.run.counter == "PAPI_TOT_INS", "the counter");
    e.near(two.run.total(), whole, 1e-9, "total of two kinds");
    e.expect(two.estimate.unused_segments == 4, "segments of a small group");
    e.near(two.estimate.percent, 100 * (46.0 + 96.0) / whole, 1e-9, "interference of two kinds");

    // What they communicate tells them apart as well: with a message, and without one; bytes within 10 % are the same.
    std::vector<Phase> messages;
    for (int i = 0; i < 6; ++i) {
        messages.push_back({{i == 5 ? 150 : 100, 90}, {}, 0, 1000u + static_cast<uint64_t>(i)});
        messages.push_back({{i == 2 ? 400 : 300, 90}});
    }
    const auto told = analyzed({written(directory, "messages", messages)}).runs.front();
    e.expect(told.run.counter.empty(), "no counter");
    e.near(told.estimate.percent, 100 * (46.0 + 96.0) / (5 * 110 + 160 + 5 * 310 + 410), 1e-9, "interference by communication");

    // Measured against the fastest run: each of 10 segments takes 20 ns more, and one of them 200 more: 200 of 10 * 130 + 200.
    std::vector<Phase> quick(10, Phase{{100, 90}}), slow(10, Phase{{120, 90}});
    slow[3].work[1] = 320;
    const auto pair = analyzed({written(directory, "slow", slow), written(directory, "quick", quick)});
    e.expect(pair.fastest == 1, "the fastest");
    if (!pair.runs[0].measured) return e.failed;
    e.near(static_cast<double>(pair.runs[0].measured->displacement_ns), 200, 1e-9, "displacement of medians");
    e.near(pair.runs[0].measured->percent, 100 * 200.0 / 1500, 1e-9, "measured");
    e.near(pair.runs[0].estimate.percent, 100 * 196.0 / 1500, 1e-9, "estimated");
    e.near(pair.runs[1].measured->percent, 0, 1e-9, "the fastest run's own");

    // One segment is hit by OS noise of 300, one by something else, and in one noise is absorbed while the rank waits.
    std::vector<Phase> noisy(10, Phase{{100, 60}});
    noisy[2].stolen = {300, 0};
    noisy[6] = {{400, 60}, {}, 0, 0, {0, 250}};
    const auto known = analyzed({written(directory, "noisy", noisy)}, true).runs.front();
    e.expect(known.noise_known, "noise is known");
    e.near(static_cast<double>(known.accumulated_noise_ns), 300, 1e-9, "accumulated noise");
    e.expect(known.estimate.hits.size() == 2, "both were hit");
    if (known.estimate.hits.size() != 2) return e.failed;
    e.near(known.estimate.hits[0].os_noise_ns.value_or(-1), 300, 1e-9, "OS noise of a segment");
    e.near(known.estimate.hits[0].causes.count({"preempt", "hog"}) ? known.estimate.hits[0].causes.at({"preempt", "hog"}) : 0, 300, 1e-9,
           "its culprit");
    e.near(known.estimate.hits[1].os_noise_ns.value_or(-1), 0, 1e-9, "no OS noise");
    return e.failed;
}

}  // namespace

TEST_CASE("answers computed by hand") {
    CHECK(held_by_interference() == "");
}

TEST_CASE("each mutation of a rule is caught") {
    for (int which = 1; which < interference::mutations; ++which) {
        interference::mutation = static_cast<interference::Mutation>(which);
        std::string failed;
        try {
            failed = held_by_interference();
        } catch (const std::exception& error) {
            failed = error.what();
        }
        interference::mutation = interference::Mutation::none;
        CHECK_MESSAGE(failed != "", "mutation ", which);
    }
}

TEST_CASE("the result is the same by any number of processes, also more than ranks") {
    const test::TemporaryDirectory directory;
    std::vector<Phase> noisy(12, Phase{{100, 60, 80}});
    noisy[2].stolen = {300, 0, 0};
    noisy[6] = {{400, 60, 80}, {}, 0, 0, {0, 250, 0}};
    noisy[9].stolen = {0, 0, 500};
    const std::vector<std::string> traces = {written(directory, "noisy", noisy),
                                             written(directory, "quiet", std::vector<Phase>(12, Phase{{100, 60, 80}}))};
    const auto answer = [&](replay::Group* group) {
        interference::Options options;
        options.traces = traces;
        options.group = group;
        const auto result = interference::analyze(options);
        return group && group->rank() > 0 ? std::string() : interference::to_json(result).dump();
    };
    const std::string alone = answer(nullptr);
    CHECK(nlohmann::json::parse(alone).at("runs").at(0).at("os_noise").at("accumulated_noise_ns") == 780);
    for (const int processes : {2, 3, 5})
        CHECK(test::together(processes, 1, [&](replay::Group& group) { return answer(&group); }).front() == alone);
    // Where one of them fails, all do, and none waits for the others.
    std::filesystem::remove_all(traces[1]);
    for (const auto& said : test::together(2, 1, [&](replay::Group& group) { return answer(&group); })) CHECK(said.find("failed") == 0);
}

TEST_CASE("the paper's classes and its logistic function") {
    CHECK(interference::probability_of(7.5) == doctest::Approx(0.212).epsilon(0.002));
    CHECK(interference::probability_of(11.25) == 0.5);
    CHECK(interference::probability_of(15) == doctest::Approx(0.788).epsilon(0.002));
    CHECK(interference::class_of(7.49) == "low");
    CHECK(interference::class_of(7.5) == "medium");
    CHECK(interference::class_of(15) == "medium");
    CHECK(interference::class_of(15.1) == "high");
    CHECK(interference::accuracy_of(7.5, 15) == doctest::Approx(1 - 0.5754).epsilon(0.001));
    CHECK(interference::accuracy_of(30, 30) == 1);
}

TEST_CASE("the interval of an estimate holds it, and is the same each time") {
    const test::TemporaryDirectory directory;
    std::vector<Phase> phases;
    for (int i = 0; i < 100; ++i) phases.push_back({{100 + i % 7 + (i % 20 == 3 ? 200 : 0), 90}});
    const std::string trace = written(directory, "interval", phases);
    const auto a = analyzed({trace}).runs.front().estimate, b = analyzed({trace}).runs.front().estimate;
    CHECK(a.interval.low <= a.percent);
    CHECK(a.interval.high >= a.percent);
    CHECK(a.interval.high > a.interval.low);
    CHECK(a.interval.low == b.interval.low);
}

TEST_CASE("what it cannot judge gets a reason") {
    const test::TemporaryDirectory directory;
    const auto message = [&](const std::string& trace) {
        try {
            analyzed({trace});
        } catch (const std::exception& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK(message(written(directory, "single", {{{100, 90}}})).find("only one segment") != std::string::npos);
    CHECK(message(written(directory, "alone", {{{100}}, {{100}}})).find("has one rank") != std::string::npos);
    test::TraceSpec spec(2);
    for (size_t rank = 0; rank < 2; ++rank) {
        spec.add(rank, 0, Kind::enter, "MPI_Init");
        spec.add(rank, 100, Kind::leave, "MPI_Init");
    }
    test::write_trace(spec, directory.path("none"));
    CHECK(message(directory.path("none")).find("blocking collectives") != std::string::npos);
    CHECK(message(directory.path("not there")).find("not there") != std::string::npos);
    const std::string no_number = message(written(directory, "nan", {{{100, 90}, {}, -1}, {{100, 90}}, {{100, 90}}}, true));
    CHECK_MESSAGE(no_number.find("PAPI_TOT_INS is no number") != std::string::npos, no_number);
    // Equal times are no error: nothing is interference.
    const auto calm = analyzed({written(directory, "equal", std::vector<Phase>(10, Phase{{100, 100}}))}).runs.front().estimate;
    CHECK(calm.percent == 0);
    CHECK(calm.hits.empty());
    // A truncated event file: what can be read is used and the loss is told, or nothing can be, and that is told.
    const std::string trace = written(directory, "truncated", std::vector<Phase>(200, Phase{{100, 90}}));
    size_t damaged = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(trace))
        if (entry.path().extension() == ".evt" && entry.path().stem() == "1") {
            std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) / 2);
            ++damaged;
        }
    REQUIRE(damaged == 1);
    const std::string said = message(trace);
    if (said.empty()) {
        const auto run = analyzed({trace}).runs.front();
        CHECK(!run.run.warnings.empty());
        CHECK(run.run.segments.size() < 200);
    }
    CHECK_THROWS_WITH_AS(interference::cluster({1, std::numeric_limits<double>::quiet_NaN()}), doctest::Contains("is no number"),
                         samples::Error);
    interference::Run still;
    still.trace = "still";
    still.segments.resize(5);
    still.kinds = {{0}};
    still.calls = {{}};
    CHECK_THROWS_WITH_AS(interference::estimate(still), doctest::Contains("length 0"), replay::InputError);
}

TEST_CASE("an archive whose definitions are truncated gets a reason") {
    const test::TemporaryDirectory directory;
    for (const char* file : {"traces.otf2", "traces.def"}) {
        const std::string trace = written(directory, std::string("truncated-") + file, std::vector<Phase>(10, Phase{{100, 90}}));
        const auto path = std::filesystem::path(trace) / file;
        REQUIRE(std::filesystem::exists(path));
        std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
        CHECK_THROWS_AS(analyzed({trace}), replay::InputError);
    }
}

TEST_CASE("warnings: a high rate, no counter, much that is not judged, groups that differ widely") {
    const test::TemporaryDirectory directory;
    const auto has = [](const std::vector<std::string>& list, const std::string& what) {
        return std::any_of(list.begin(), list.end(), [&](const std::string& one) { return one.find(what) != std::string::npos; });
    };
    const auto quick = analyzed({written(directory, "quick", std::vector<Phase>(20, Phase{{3'000'000, 90}}))}).runs.front();
    CHECK(quick.estimate.rate_hz == doctest::Approx(1e9 / 3'000'010));
    CHECK(has(quick.estimate.warnings, "collectives a second"));
    CHECK(has(quick.estimate.warnings, "no counter"));
    const auto calm = analyzed({written(directory, "calm", std::vector<Phase>(20, Phase{{30'000'000, 90}, {}, 100}), true)}).runs.front();
    CHECK(!has(calm.estimate.warnings, "collectives a second"));
    CHECK(!has(calm.estimate.warnings, "no counter"));
    std::vector<Phase> wide;
    for (int i = 0; i < 20; ++i) wide.push_back({{i % 2 ? 100 : 300, 90}});
    CHECK(has(analyzed({written(directory, "wide", wide)}).runs.front().estimate.warnings, "differ widely"));
    std::vector<Phase> lonely;
    for (int i = 0; i < 12; ++i) lonely.push_back({{100, 90}, {}, std::pow(2.0, i)});
    CHECK(has(analyzed({written(directory, "lonely", lonely, true)}).runs.front().estimate.warnings, "groups of fewer than 5"));
}

TEST_CASE("runs of different programs are not measured against each other") {
    const test::TemporaryDirectory directory;
    const auto result = analyzed({written(directory, "ten", std::vector<Phase>(10, Phase{{100, 90}})),
                                  written(directory, "nine", std::vector<Phase>(9, Phase{{100, 90}}))});
    CHECK(!result.fastest);
    CHECK(!result.runs[0].measured);
    CHECK(result.warnings.size() == 1);
    CHECK(interference::to_json(result).at("accuracy").is_null());
    CHECK(interference::to_text(result).find("differ") != std::string::npos);
}

TEST_CASE("the JSON and the text of a result") {
    const test::TemporaryDirectory directory;
    std::vector<Phase> phases(10, Phase{{100, 60}});
    phases[2].stolen = {300, 0};
    const auto result = analyzed({written(directory, "run", phases)}, true);
    const auto out = interference::to_json(result);
    CHECK(out.at("schema") == "polter.interference/1");
    const auto& run = out.at("runs").at(0);
    CHECK(run.at("interference").at("unit") == "%");
    CHECK(run.at("interference").at("samples") == 10);
    CHECK(run.at("hits").size() == 1);
    CHECK(run.at("hits").at(0).at("os_noise_ns") == 300);
    CHECK(run.at("os_noise").at("accumulated_noise_ns") == 300);
    CHECK(run.at("os_noise").at("not_os_noise_ns") == 0);
    CHECK(run.at("timeline").size() == 10);
    const std::string text = interference::to_text(result);
    CHECK(text.find("preemption by hog") != std::string::npos);
    CHECK(text.find("high") != std::string::npos);
}
