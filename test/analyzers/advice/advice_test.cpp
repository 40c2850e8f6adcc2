// SPDX-License-Identifier: BSD-3-Clause
// Advice on traces small enough to compute by hand: what each suggestion saves, and what is not suggested.
#include "analyzers/advice/advice.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analyzers/advice/actions.hpp"
#include "replay/base/error.hpp"
#include "support/trace_spec.hpp"

namespace {

using namespace polter;
using Kind = test::Record::Kind;

void noise(test::TraceSpec& spec, size_t rank, int64_t time, const std::string& account, int64_t ns, const std::string& culprit) {
    auto& record = spec.add(rank, time, Kind::noise, account);
    record.ns = ns;
    record.culprit = culprit;
}

// Both ranks compute, then rank 0 sends to rank 1, which has been waiting since 70,000.
//  rank 0: hog takes 20,000 and cron 10,000 of its computing until 100,000
//  rank 1: hog takes 5,000 before it waits: absorbed, as long as rank 0 is later
// Without hog rank 0 sends at 80,000 and rank 1 ends at 130,000 instead of 150,000; without cron at 140,000; without both at 120,000.
test::TraceSpec two_culprits() {
    test::TraceSpec spec(2);
    spec.accounts = {"os:preempt", "os:timer"};
    spec.add(0, 0, Kind::enter, "main");
    noise(spec, 0, 50'000, "os:preempt", 20'000, "hog");
    noise(spec, 0, 80'000, "os:preempt", 10'000, "cron");
    noise(spec, 0, 90'000, "os:timer", 100, "");
    spec.add(0, 100'000, Kind::enter, "MPI_Send");
    auto& send = spec.add(0, 100'000, Kind::send);
    send.peer = 1;
    send.bytes = 8;
    spec.add(0, 105'000, Kind::leave, "MPI_Send");
    spec.add(0, 105'000, Kind::leave, "main");
    spec.add(1, 0, Kind::enter, "main");
    noise(spec, 1, 30'000, "os:preempt", 5'000, "hog");
    spec.add(1, 40'000, Kind::enter, "MPI_Recv");
    auto& recv = spec.add(1, 110'000, Kind::recv);
    recv.peer = 0;
    recv.bytes = 8;
    spec.add(1, 110'000, Kind::leave, "MPI_Recv");
    spec.add(1, 150'000, Kind::leave, "main");
    return spec;
}

replay::Options written(const test::TraceSpec& spec, const test::TemporaryDirectory& directory) {
    test::write_trace(spec, directory.path("t"));
    replay::Options options;
    options.trace = directory.path("t");
    return options;
}

advice::Advice advice_for(const test::TraceSpec& spec, double least = 0.005) {
    const test::TemporaryDirectory directory;
    advice::Options options;
    options.trace = written(spec, directory).trace;
    options.least = least;
    return advice::advise(options);
}

const advice::Suggestion* find(const advice::Advice& advice, const std::string& kind, const std::string& title = "") {
    for (const auto& one : advice.suggestions)
        if (one.kind == kind && one.title.find(title) != std::string::npos) return &one;
    return nullptr;
}

}  // namespace

TEST_CASE("savings by culprit and rank are those computed by hand") {
    const test::TemporaryDirectory directory;
    int asked = 0;
    replay::replay(written(two_culprits(), directory), [&](const replay::Result& result, replay::WhatIfs& what_ifs) {
        ++asked;
        CHECK(result.accumulated_noise_ns == 30'100);
        const std::vector<replay::Scenario> scenarios = {
            {},                                        // identity
            {{"preempt", {"hog"}, {}}},                //
            {{"preempt", {"cron"}, {}}},               //
            {{"preempt", {"hog"}, {1}}},               // absorbed
            {{"preempt", {"hog"}, {0}}},               //
            {{"preempt", {"hog", "cron"}, {}}},        //
            {{"preempt", {}, {}}},                     // the whole source
            {{"timer", {}, {}}},                       //
            {{"preempt", {}, {}}, {"timer", {}, {}}},  // all
            {{"preempt", {"nobody"}, {}}},             // not in the trace
        };
        const std::vector<int64_t> expected = {0, 20'000, 10'000, 0, 20'000, 30'000, 30'000, 100, 30'100, 0};
        CHECK(what_ifs.savings(scenarios) == expected);
        for (size_t i = 0; i < scenarios.size(); ++i) {
            CAPTURE(i);
            const replay::Saving one = what_ifs.bounded(scenarios[i]);
            CHECK(one.ns == expected[i]);
            CHECK(one.low_ns <= one.ns);
            CHECK(one.high_ns >= one.ns);
        }
        // removing all has the bounds of the replay
        const replay::Saving all = what_ifs.bounded(scenarios[8]);
        CHECK(all.low_ns == result.measured_ns - result.bounds_high_ns);
        CHECK(all.high_ns == result.measured_ns - result.bounds_low_ns);
    });
    CHECK(asked == 1);
}

TEST_CASE("each suggestion names its culprit and what it saves; overlaps are said") {
    const advice::Advice advice = advice_for(two_culprits());
    const auto* hog = find(advice, "process", "hog");
    const auto* cron = find(advice, "process", "cron");
    const auto* core = find(advice, "leave_core_free");
    REQUIRE(hog);
    REQUIRE(cron);
    REQUIRE(core);
    CHECK(hog->saves.ns == 20'000);
    CHECK(hog->stolen_ns == 25'000);
    CHECK(hog->events == 2);
    CHECK(hog->ranks == std::vector<int64_t>{0, 1});
    CHECK(hog->saves.low_ns > 0);
    CHECK(cron->saves.ns == 10'000);
    CHECK(core->saves.ns == 30'000);
    CHECK(advice.suggestions.front().kind == "leave_core_free");  // most saved first
    const auto at = [&](const advice::Suggestion* one) { return static_cast<size_t>(one - advice.suggestions.data()); };
    CHECK(hog->overlaps == std::vector<size_t>{at(core)});
    CHECK(core->overlaps.size() == 2);
    REQUIRE(advice.together);
    CHECK(advice.together->ns == 30'000);
    bool command = false;
    for (const auto& action : hog->actions)
        for (const auto& text : action.commands) command = command || text.find("pgrep -x hog") != std::string::npos;
    CHECK(command);
    // the timer saves 100 of 150,000 ns: below 0.5 %
    CHECK(!find(advice, "tickless"));
    REQUIRE(advice.largest_not_suggested);
    CHECK(advice.largest_not_suggested->kind == "tickless");
    CHECK(advice.largest_not_suggested->saves.ns == 100);
    CHECK(advice.why_not == "it is below 0.5 % of the run time");
}

TEST_CASE("nothing to gain is a result, with the largest candidate") {
    const advice::Advice advice = advice_for(two_culprits(), 0.5);
    CHECK(advice.suggestions.empty());
    CHECK(!advice.together);
    REQUIRE(advice.largest_not_suggested);
    CHECK(advice.largest_not_suggested->saves.ns == 30'000);
    CHECK(to_text(advice).find("Nothing to gain here") == 0);
}

TEST_CASE("a saving below its own uncertainty is not suggested") {
    // The bounds are at least 0.1 % of the run time wide to each side: 150 ns. The timer took less.
    test::TraceSpec spec = two_culprits();
    for (auto& record : spec.records[0])
        if (record.name == "os:timer" && record.kind == Kind::noise) record.ns = 50;
    const advice::Advice advice = advice_for(spec, 0);
    CHECK(!find(advice, "tickless"));
    REQUIRE(advice.largest_not_suggested);
    CHECK(advice.why_not == "its bounds include 0");
}

TEST_CASE("a job that waits for its own CPUs is told to get more of them") {
    test::TraceSpec spec(1);
    spec.accounts = {"os:throttle", "os-service:preempt_job"};
    spec.add(0, 0, Kind::enter, "main");
    noise(spec, 0, 5'000'000, "os-service:preempt_job", 2'000'000, "app");
    noise(spec, 0, 9'000'000, "os:throttle", 3'000'000, "");
    spec.add(0, 10'000'000, Kind::leave, "main");
    const advice::Advice advice = advice_for(spec);
    REQUIRE(find(advice, "own_cpu"));
    CHECK(find(advice, "own_cpu")->saves.ns == 2'000'000);
    REQUIRE(find(advice, "cpu_quota"));
    CHECK(find(advice, "cpu_quota")->saves.ns == 3'000'000);
    CHECK(find(advice, "cpu_quota")->overlaps.empty());
    CHECK(advice.together->ns == 5'000'000);
}

namespace {

// Rank 0 computes for 10 ms; hog has its CPU for 4 ms of that, and the other rank for 3 ms. Rank 1 waits for it from 1 ms on.
test::TraceSpec crowded(const std::string& rank_cpus) {
    test::TraceSpec spec(2);
    spec.accounts = {"os:preempt", "os-service:preempt_job"};
    if (!rank_cpus.empty()) spec.properties = {{"RANK_CPUS", rank_cpus}, {"HOSTS", "n1"}};
    spec.add(0, 0, Kind::enter, "main");
    noise(spec, 0, 5'000'000, "os:preempt", 4'000'000, "hog");
    noise(spec, 0, 9'000'000, "os-service:preempt_job", 3'000'000, "app");
    spec.add(0, 10'000'000, Kind::enter, "MPI_Send");
    auto& send = spec.add(0, 10'000'000, Kind::send);
    send.peer = 1;
    send.bytes = 8;
    spec.add(0, 10'005'000, Kind::leave, "MPI_Send");
    spec.add(0, 10'005'000, Kind::leave, "main");
    spec.add(1, 0, Kind::enter, "main");
    spec.add(1, 1'000'000, Kind::enter, "MPI_Recv");
    auto& recv = spec.add(1, 10'010'000, Kind::recv);
    recv.peer = 0;
    recv.bytes = 8;
    spec.add(1, 10'010'000, Kind::leave, "MPI_Recv");
    spec.add(1, 10'020'000, Kind::leave, "main");
    return spec;
}

}  // namespace

TEST_CASE("ranks that share a CPU because another program has the other: that goes with it") {
    const advice::Advice advice = advice_for(crowded("0-1:0-1"));
    const auto* hog = find(advice, "process", "hog");
    REQUIRE(hog);
    CHECK(hog->saves.ns == 7'000'000);
    CHECK(hog->saves.low_ns <= 4'000'000);  // what hog itself took is certain
    CHECK(hog->saves.low_ns > 3'900'000);
    CHECK(hog->saves.high_ns >= 7'000'000);
    REQUIRE(hog->follows.size() == 1);
    CHECK(hog->follows.front().source == "os-service:preempt_job");
    CHECK(!find(advice, "own_cpu"));
}

TEST_CASE("ranks that may use one CPU only share it whatever other programs do") {
    const advice::Advice advice = advice_for(crowded("0:0-1"));
    const auto* hog = find(advice, "process", "hog");
    REQUIRE(hog);
    CHECK(hog->saves.ns == 4'000'000);
    CHECK(hog->follows.empty());
    REQUIRE(find(advice, "own_cpu"));
    CHECK(find(advice, "own_cpu")->saves.ns == 3'000'000);
    bool told = false;
    for (const auto& line : find(advice, "own_cpu")->evidence) told = told || line == "CPUs that the ranks may use: 0";
    CHECK(told);
}

TEST_CASE("where it is not known what ranks may use, only the upper bound has their sharing") {
    const advice::Advice advice = advice_for(crowded(""));
    const auto* hog = find(advice, "process", "hog");
    REQUIRE(hog);
    CHECK(hog->saves.ns == 4'000'000);
    CHECK(hog->saves.high_ns >= 7'000'000);
    CHECK(find(advice, "own_cpu"));
}

TEST_CASE("helper threads that take microseconds are no ranks that share a CPU") {
    test::TraceSpec spec(1);
    spec.accounts = {"os:timer", "os-service:preempt_job"};
    spec.add(0, 0, Kind::enter, "main");
    noise(spec, 0, 10'000, "os:timer", 10, "");
    for (int64_t i = 1; i <= 10; ++i) noise(spec, 0, i * 100'000, "os-service:preempt_job", 50'000, "app");
    spec.add(0, 2'000'000, Kind::leave, "main");
    CHECK(advice_for(spec).suggestions.empty());
}

TEST_CASE("noise whose culprit was lost counts in proportion, and in the bounds as none or all") {
    test::TraceSpec spec(1);
    spec.accounts = {"os:preempt"};
    spec.add(0, 0, Kind::enter, "main");
    noise(spec, 0, 3'000'000, "os:preempt", 3'000'000, "hog");
    noise(spec, 0, 5'000'000, "os:preempt", 1'000'000, "cron");
    noise(spec, 0, 9'000'000, "os:preempt", 2'000'000, "");
    spec.add(0, 10'000'000, Kind::leave, "main");
    const advice::Advice advice = advice_for(spec);
    const auto* hog = find(advice, "process", "hog");
    REQUIRE(hog);
    CHECK(hog->saves.ns == 4'500'000);
    CHECK(hog->saves.low_ns <= 3'000'000);
    CHECK(hog->saves.high_ns >= 5'000'000);
    REQUIRE(find(advice, "process", "cron"));
    CHECK(find(advice, "process", "cron")->saves.ns == 1'500'000);
}

TEST_CASE("inside of MPI calls a rank may need its partner's CPU: the upper bound has that, and no more than is not computed") {
    // Both ranks compute 1 ms and send each other a large message until 11 ms. Of that time hog has the CPU of rank 1 for 6 ms.
    test::TraceSpec spec(2);
    spec.accounts = {"os:preempt"};
    for (size_t rank = 0; rank < 2; ++rank) {
        spec.add(rank, 0, Kind::enter, "main");
        spec.add(rank, 1'000'000, Kind::enter, "MPI_Sendrecv");
        auto& send = spec.add(rank, 1'000'000, Kind::send);
        send.peer = static_cast<int64_t>(1 - rank);
        send.bytes = 1 << 20;
        if (rank == 1) noise(spec, 1, 9'000'000, "os:preempt", 6'000'000, "hog");
        auto& recv = spec.add(rank, 11'000'000, Kind::recv);
        recv.peer = static_cast<int64_t>(1 - rank);
        recv.bytes = 1 << 20;
        spec.add(rank, 11'000'000, Kind::leave, "MPI_Sendrecv");
        spec.add(rank, 12'000'000, Kind::leave, "main");
    }
    const test::TemporaryDirectory directory;
    replay::replay(written(spec, directory), [&](const replay::Result&, replay::WhatIfs& what_ifs) {
        const replay::Saving saving = what_ifs.bounded({{"preempt", {"hog"}, {}}});
        CHECK(saving.high_ns <= saving.most_ns);
        CHECK(saving.most_ns >= 6'000'000);
        CHECK(saving.most_ns <= 10'000'000);  // of 12 ms each rank computes 2
        CHECK(what_ifs.bounded({{"preempt", {"nobody"}, {}}}).most_ns == 0);
    });
}

TEST_CASE("lists of CPUs, and whether each rank can have its own") {
    CHECK(advice::cpus_in("0-2,8") == std::set<int64_t>{0, 1, 2, 8});
    CHECK(advice::cpus_in("x,-3,2-1").empty());
    CHECK(advice::cpu_list({0, 1, 2, 8}) == "0-2,8");
    advice::Place place;
    place.hosts = {"n"};
    place.host_of = {"n", "n", "n"};
    CHECK(!advice::each_has_own(place));
    place.allowed = {{0, 1}, {0}, {1, 2}};  // 1, 0, 2
    CHECK(advice::each_has_own(place) == true);
    place.allowed = {{0, 1}, {0}, {1}};
    CHECK(advice::each_has_own(place) == false);
}

TEST_CASE("where ranks are confined to some CPUs of this machine, commands name them") {
    advice::Place place;
    place.ranks = 1;
    place.cpus = 4;
    place.rank_cpus = "0-1";
    place.other_cpus = "2-3";
    advice::Suggestion one;
    one.kind = "process";
    advice::describe(one, {"hog"}, place);
    CHECK(one.actions.front().commands == std::vector<std::string>{"for p in $(pgrep -x hog); do taskset -a -c -p 2-3 $p; done"});
    place.cpus = 1;
    place.other_cpus = "";
    advice::describe(one, {"hog"}, place);
    CHECK(one.actions.front().commands.front() == "kill -STOP $(pgrep -x hog)");
}

TEST_CASE("a trace without noise metrics is refused") {
    test::TraceSpec spec(1);
    spec.add(0, 0, Kind::enter, "main");
    spec.add(0, 100'000, Kind::leave, "main");
    CHECK_THROWS_WITH_AS(advice_for(spec), doctest::Contains("nothing to advise on"), replay::InputError);
}

TEST_CASE("names from outside are quoted in commands, and never reach the terminal raw") {
    CHECK(advice::shell_word("kworker/0:1") == "kworker/0:1");
    CHECK(advice::shell_word("a; rm -rf /") == "'a; rm -rf /'");
    CHECK(advice::shell_word("it's") == "'it'\\''s'");
    CHECK(advice::shell_word("-x") == "'-x'");
    test::TraceSpec spec = two_culprits();
    for (auto& records : spec.records)
        for (auto& record : records)
            if (record.culprit == "hog") record.culprit = "h\x1b[31m;x";
    const std::string text = to_text(advice_for(spec));
    CHECK(text.find('\x1b') == std::string::npos);
    CHECK(text.find("pgrep -x 'h\\x1b") != std::string::npos);
}

TEST_CASE("numbers of interrupts come from /proc/interrupts, where the name is of one") {
    const auto numbers = advice::interrupts_in(
        "           CPU0       CPU1\n  1:   9  0  IO-APIC   1-edge  i8042\n 24:  5 7 PCI-MSI 0-edge virtio0\n"
        " 25: 1 1 PCI-MSI 1-edge both\n 26: 1 1 PCI-MSI 2-edge both\nLOC: 1 2 Local timer interrupts\n");
    CHECK(numbers == std::map<std::string, int64_t>{{"i8042", 1}, {"virtio0", 24}});
}

TEST_CASE("the JSON has what its schema promises") {
    const auto json = to_json(advice_for(two_culprits()));
    CHECK(json["schema"] == "polter.advise/1");
    for (const auto& one : json["suggestions"]) {
        CHECK(one["saves"]["unit"] == "ns");
        CHECK(one["saves"]["samples"] == 1);
        CHECK(one["saves"]["interval"][0] <= one["saves"]["value"]);
        CHECK(one["saves"]["interval"][1] >= one["saves"]["value"]);
        CHECK(!one["actions"].empty());
        CHECK(!one["evidence"].empty());
    }
    CHECK(json["together"]["value"] == 30'000);
}
