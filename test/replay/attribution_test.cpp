// SPDX-License-Identifier: BSD-3-Clause
// Attribution on random programs: margins that add up in every dimension, costs that are what putting one event back alone costs, and
// for each a fault that the same question finds.
#include <doctest/doctest.h>
#include <otf2/otf2.h>

#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "replay/model/model_file.hpp"
#include "replay/testing.hpp"
#include "support/micro_parse.hpp"
#include "support/random_program.hpp"

namespace {

using namespace polter;

constexpr uint64_t attributed_programs = test::programs_of(40);

replay::Result attribute(const test::TraceSpec& trace, replay::Faults faults = {}, bool reverse_order = false, bool by_origin = true,
                         uint32_t windows = 10) {
    const test::TemporaryDirectory directory;
    test::write_trace(trace, directory.path("t"));
    replay::Options options;
    options.trace = directory.path("t");
    options.attribution = by_origin;
    options.costliest = 1'000;
    options.windows = windows;
    replay::Hooks hooks;
    hooks.faults = faults;
    hooks.reverse_order = reverse_order;
    return replay::replay_with(options, hooks);
}

using Cells = std::map<std::tuple<std::string, std::string, std::string, int64_t>, int64_t>;

Cells cells(const replay::Result& result) {
    Cells sums;
    for (const auto& row : result.attribution.rows) sums[{row.source, row.where, row.caller, row.window}] += row.ns;
    return sums;
}

// Each noise event of the trace becomes a source of its own. Their number.
size_t name_each_event(test::TraceSpec& trace) {
    trace.accounts.clear();
    for (auto& records : trace.records)
        for (test::Record& record : records)
            if (record.kind == test::Record::Kind::noise) {
                record.name = "os:event" + std::to_string(trace.accounts.size());
                trace.accounts.push_back(record.name);
            }
    return trace.accounts.size();
}

struct Costs {
    int64_t events = 0, wrong = 0, of_cost = 0;
};

// "Without" of a source that is one event is what it adds to the run in which all else is gone already: its cost.
Costs compare_costs(bool structured, uint64_t first, uint64_t count, replay::Faults faults = {}, bool tell = false) {
    Costs costs;
    for (uint64_t seed = first; seed < first + count; ++seed) {
        test::ProgramOptions options;
        options.seed = seed;
        options.ranks = 2 + seed % 4;
        options.steps = structured ? 60 : 4 + seed % 8;
        options.noise_every_ns = structured ? 900'000 : 60'000;
        options.noise_ns = 20'000;
        options.structured = structured;
        options.windows = seed % 3 == 0;
        test::Program program = test::random_program(options);
        const size_t events = name_each_event(program.trace);
        if (events == 0 || events > 24) continue;
        const replay::Result result = attribute(program.trace, faults);
        std::map<std::string, int64_t> cost;
        for (const auto& noise : result.costs->costliest) {
            cost[noise.source] = std::max(cost[noise.source], noise.cost_ns);
            CHECK(noise.cost_ns <= noise.duration_ns);
        }
        for (const auto& source : result.sources) {
            ++costs.events;
            costs.of_cost += source.without_ns > 0;
            // Messages that are taken as they come may come in another order with the event than without: too much by the taking of those.
            const int64_t taking = structured ? static_cast<int64_t>(options.ranks - 1) * 300 : 0;
            if (cost[source.name] >= source.without_ns && cost[source.name] - source.without_ns <= taking) continue;
            if (tell && costs.wrong < 5)
                MESSAGE("seed " << seed << ": " << source.name << " costs " << cost[source.name] << ", put back alone "
                                << source.without_ns);
            ++costs.wrong;
        }
    }
    return costs;
}

}  // namespace

TEST_CASE("the table by origin has the margins of the table by place, and those the shares") {
    for (uint64_t seed = 1; seed <= attributed_programs; ++seed) {
        CAPTURE(seed);
        const test::Program program = test::random_program(test::mixed_options(seed));
        const replay::Result plain = attribute(program.trace, {}, false, false), result = attribute(program.trace);
        CHECK(cells(plain) == cells(result));
        std::map<std::string, int64_t> by_source;
        int64_t all = 0;
        for (const auto& row : result.attribution.rows) {
            CHECK(row.ns != 0);
            CHECK(!row.culprit.empty());
            CHECK(row.rank >= 0);
            CHECK(row.rank < result.ranks);
            CHECK(row.window >= 0);
            CHECK(row.window < result.attribution.windows);
            by_source[row.source] += row.ns;
            all += row.ns;
        }
        for (const auto& source : result.sources) CHECK(by_source[source.name] == source.share_ns);
        CHECK(all == result.accumulated_noise_ns);
    }
}

using Whose = std::map<std::tuple<std::string, std::string, int64_t>, int64_t>;

Whose whose(const replay::Result& result) {
    Whose sums;
    for (const auto& row : result.attribution.rows) sums[{row.source, row.culprit, row.rank}] += row.ns;
    std::erase_if(sums, [](const auto& entry) { return entry.second == 0; });
    return sums;
}

TEST_CASE("whose noise it was does not depend on how many windows are shown") {
    const auto differences = [](const test::TraceSpec& trace, replay::Faults faults) {
        const Whose one = whose(attribute(trace, faults, false, true, 1));
        int count = 0;
        for (const uint32_t windows : {2U, 3U, 10U, 100U}) count += whose(attribute(trace, faults, false, true, windows)) != one;
        return count;
    };
    int apart = 0;
    for (uint64_t seed = 1; seed <= attributed_programs; ++seed) {
        CAPTURE(seed);
        const test::TraceSpec trace = test::random_program(test::mixed_options(seed)).trace;
        CHECK(differences(trace, {}) == 0);
        if (seed <= 4) apart += differences(trace, {.windows_apart = true});
    }
    CHECK(apart > 0);
}

TEST_CASE("noise that hit in one window and is paid in another, by hand") {
    const test::Micro micro = test::parse_micro(POLTER_MICRO_TRACES "/paid_later.txt");
    const auto paid = [&](const replay::Faults& faults) {
        std::map<std::tuple<std::string, int64_t, std::string, int64_t>, int64_t> rows;
        for (const auto& row : attribute(micro.trace, faults, false, true, micro.windows).attribution.rows)
            rows[{row.culprit, row.rank, row.where, row.window}] += row.ns;
        return rows;
    };
    const decltype(paid({})) expected = {{{"early", 0, "MPI_Recv", 3}, 50}, {{"late", 1, "main", 4}, 10}};
    CHECK(paid({}) == expected);
    CHECK(paid({.windows_apart = true}) != expected);
}

TEST_CASE("what became of the noise adds up, for each rank and for all") {
    for (uint64_t seed = 1; seed <= attributed_programs; ++seed) {
        CAPTURE(seed);
        const test::Program program = test::random_program(test::mixed_options(seed));
        const replay::Result result = attribute(program.trace);
        const replay::Propagation& sum = result.costs->propagation;
        CHECK(sum.local == sum.waiting + sum.dropped + sum.absorbed_downstream + sum.reached);
        CHECK(sum.absorbed_downstream >= 0);
        CHECK(sum.reached == result.accumulated_noise_ns);
        REQUIRE(sum.ranks.size() == result.per_rank.size());
        for (size_t rank = 0; rank < sum.ranks.size(); ++rank) {
            const replay::RankBalance& balance = sum.ranks[rank];
            CHECK(balance.local == result.per_rank[rank].local_noise_ns);
            CHECK(balance.local == balance.waiting + balance.dropped + balance.counted);
            CHECK(balance.waiting >= 0);
            CHECK(balance.dropped >= 0);
            CHECK(balance.accumulated == result.per_rank[rank].accumulated_noise_ns);
            CHECK(balance.accumulated == balance.counted + balance.imported - balance.lost);
        }
        const replay::PathResult &before = result.costs->before, &after = result.costs->after;
        CHECK(before.length_ns <= result.measured_ns);
        CHECK(before.length_ns >= result.measured_ns - 2'000);  // ranks begin at slightly different times
        CHECK(after.length_ns <= result.approximated_ns);
        CHECK(after.length_ns >= result.approximated_ns - 2'000);
        for (const auto& place : before.by_place) CHECK(place.ns > 0);
    }
}

TEST_CASE("an event costs what the run takes longer if it alone is put back") {
    for (const bool structured : {false, true}) {
        CAPTURE(structured);
        const Costs costs = compare_costs(structured, 1, 60, {}, true);
        MESSAGE(costs.events << " events, " << costs.of_cost << " of them with a cost, " << costs.wrong << " wrong");
        CHECK(costs.of_cost > 50);
        CHECK(costs.wrong == 0);
    }
    CHECK(compare_costs(false, 1, 20, {.measured_slack = true}).wrong > 0);
    CHECK(compare_costs(false, 1, 20, {.dropped_edge = true}).wrong > 0);
}

TEST_CASE("what was absorbed on the critical path is not among what propagated") {
    const test::Micro micro = test::parse_micro(POLTER_MICRO_TRACES "/absorbed_downstream.txt");
    const auto late = [&](const replay::Faults& faults) {
        int64_t sum = 0;
        for (const auto& row : attribute(micro.trace, faults, false, true, micro.windows).attribution.rows)
            if (row.culprit == "late") sum += row.ns;
        return sum;
    };
    CHECK(late({}) == 10);
    CHECK(late({.keep_losses = true}) > 20);
}

// Two ranks in a barrier by dissemination: each works 10 to send, the message is under way for 100, and each works 10 to take it. Rank 0
// comes at 0, rank 1 at 50. Noise of 20 (daemon) hits rank 1 while it sends: the message leaves at 80 instead of 60, is there at 180
// instead of 160, and noise of 5 (tick) hits rank 0 while it takes it: it leaves at 195 instead of 170. Noise of 20 while rank 0 waited
// is absorbed. Rank 1 has its message at 110, after its own noise, and leaves at 120 either way.
TEST_CASE("inside a collective: where it was paid, who made it, what each event cost, by hand") {
    test::TraceSpec spec(2);
    spec.accounts = {"os:preempt", "os:timer"};
    const auto noise = [&](size_t rank, int64_t end, const char* source, const char* culprit, int64_t ns) {
        test::Record& record = spec.add(rank, end, test::Record::Kind::noise, source);
        record.culprit = culprit;
        record.ns = ns;
    };
    using Kind = test::Record::Kind;
    spec.add(0, 0, Kind::enter, "main");
    spec.add(0, 0, Kind::enter, "MPI_Barrier");
    noise(0, 40, "os:preempt", "cron", 20);
    noise(0, 187, "os:timer", "tick", 5);
    spec.add(0, 195, Kind::collective_end, "");
    spec.add(0, 195, Kind::leave, "MPI_Barrier");
    spec.add(0, 205, Kind::leave, "main");
    spec.add(1, 0, Kind::enter, "main");
    spec.add(1, 50, Kind::enter, "MPI_Barrier");
    noise(1, 72, "os:preempt", "daemon", 20);
    spec.add(1, 120, Kind::collective_end, "");
    spec.add(1, 120, Kind::leave, "MPI_Barrier");
    spec.add(1, 130, Kind::leave, "main");

    const test::TemporaryDirectory directory;
    test::write_trace(spec, directory.path("t"));
    replay::Learned learned;
    const replay::CostClass barrier{replay::CostKind::collective_tail, true, false, OTF2_COLLECTIVE_OP_BARRIER, 0};
    learned.structures.push_back(
        {barrier, barrier, 2, 30, replay::Structure{.pattern = {.up = replay::Shape::dissemination}, .hop = 100, .own = 10, .certain = true}});
    replay::write_model(learned, directory.path("m.json"));
    replay::Options options;
    options.trace = directory.path("t");
    options.use_model = directory.path("m.json");
    options.attribution = true;
    options.windows = 1;
    const replay::Result result = replay::replay(options);
    CHECK(result.accumulated_noise_ns == 25);
    CHECK(result.approximated_ns == 180);
    CHECK(result.per_rank[1].accumulated_noise_ns == 0);
    std::map<std::tuple<std::string, std::string, int64_t, std::string>, int64_t> rows;
    for (const auto& row : result.attribution.rows) rows[{row.source, row.culprit, row.rank, row.where}] += row.ns;
    CHECK(rows == decltype(rows){{{"preempt", "daemon", 1, "MPI_Barrier"}, 20}, {{"timer", "tick", 0, "MPI_Barrier"}, 5}});
    REQUIRE(result.costs);
    std::map<std::pair<std::string, int64_t>, int64_t> costs;
    for (const auto& event : result.costs->costliest) costs[{event.culprit, event.at_ns}] = event.cost_ns;
    CHECK(costs == decltype(costs){{{"daemon", 52}, 20}, {{"tick", 182}, 5}});
    CHECK(result.costs->propagation.waiting == 20);
    CHECK(result.costs->propagation.reached == 25);
    CHECK(result.costs->propagation.absorbed_downstream == 0);
    CHECK(result.costs->before.hops == 1);
    CHECK(result.costs->before.length_ns == 205);
    CHECK(result.costs->after.length_ns == 180);
    // Without its messages, and where own noise counts in full, rank 1 would be thought to have been delayed by its own.
    replay::Hooks hooks;
    hooks.faults.no_structure = hooks.faults.own_noise_whole = true;
    options.use_model.clear();
    CHECK(replay::replay_with(options, hooks).per_rank[1].accumulated_noise_ns != 0);
}

TEST_CASE("the order in which the ranks are read changes nothing") {
    for (uint64_t seed = 1; seed <= attributed_programs; ++seed) {
        CAPTURE(seed);
        const test::Program program = test::random_program(test::mixed_options(seed));
        nlohmann::json forward = replay::to_json(attribute(program.trace)), backward = replay::to_json(attribute(program.trace, {}, true));
        for (nlohmann::json* json : {&forward, &backward}) {
            json->erase("trace");            // a temporary directory
            json->erase("temporary_bytes");  // numbers of nodes are as long as they are
        }
        CHECK(forward == backward);
    }
}
