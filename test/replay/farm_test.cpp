// SPDX-License-Identifier: BSD-3-Clause
// Task farms: work that is assigned to the first to ask first. The invariants that hold for them, on random farms whose truth is known, and
// for each a fault that the same question finds.
//
// Two invariants of the replay do not hold for a farm, event by event, and are not asked for. *Monotonicity*: with less noise the work is
// assigned in another order, which may be a worse one (Graham, "Bounds on multiprocessing timing anomalies", 1969). And a worker's own
// time may run backward where it hears from the master: what follows went to the first to ask.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "replay/testing.hpp"
#include "support/farm_program.hpp"
#include "support/process_group.hpp"

namespace {

using namespace polter;
using Form = test::FarmOptions::Form;

constexpr uint64_t farms = test::programs_of(70);

test::FarmOptions options_of(uint64_t seed) {
    test::FarmOptions options;
    options.seed = seed;
    options.form = static_cast<Form>(seed % test::FarmOptions::forms);
    options.workers = 2 + seed % 9;
    options.tasks = options.workers * (4 + seed % 7);
    options.accounts = 1 + seed % 3;
    options.noise_every_ns = seed % 3 == 0 ? 60'000 : 200'000;
    options.noise_ns = seed % 2 == 0 ? 60'000 : 15'000;
    options.noisy_rank = seed % 4 == 1 ? 1 : -1;
    return options;
}

bool is_farm(Form form) {
    return form != Form::prefetch;
}

struct Watched {
    replay::Result result;
    int64_t moved = 0;     // events of the scenario that removes nothing that are not where they were measured
    int64_t backward = 0;  // in any lane: time of a rank, a message that ends before it begins, more work assigned than asked for
};

Watched see(const std::string& trace, const test::FarmProgram& farm, replay::Faults faults = {}, bool attribution = false) {
    Watched seen;
    std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> at;  // rank, measured: approximated times in lanes
    std::map<int64_t, std::vector<int64_t>> last;
    replay::Hooks hooks;
    hooks.faults = faults;
    hooks.observer = [&](const replay::Scenarios& scenarios, const replay::Thread& thread, int64_t time, const int64_t* delay) {
        std::vector<int64_t> now;
        for (size_t lane = 0; lane < scenarios.lanes().count; ++lane) now.push_back(time - delay[lane]);
        seen.moved += now[0] != time;
        std::vector<int64_t>& before = last[thread.rank];
        if (!farm.restarts.contains({thread.rank, time}))
            for (size_t lane = 0; lane < before.size(); ++lane) seen.backward += now[lane] < before[lane];
        before = now;
        at[{thread.rank, time}] = std::move(now);
    };
    replay::Options options;
    options.trace = trace;
    options.attribution = attribution;
    seen.result = replay::replay_with(options, hooks);
    for (const auto& order : farm.program.orders) {
        const auto &first = at.at({order.first_rank, order.first}), &second = at.at({order.second_rank, order.second});
        for (size_t lane = 0; lane < first.size(); ++lane) seen.backward += second[lane] < first[lane];
    }
    for (const auto& one : farm.farms)
        for (size_t lane = 0; lane < at.begin()->second.size(); ++lane) {
            std::vector<int64_t> asked, taken;
            for (const auto& [rank, time] : one.asked) asked.push_back(at.at({rank, time})[lane]);
            for (const int64_t time : one.taken) taken.push_back(at.at({static_cast<int64_t>(one.master), time})[lane]);
            std::sort(asked.begin(), asked.end());
            for (size_t i = 0; i < taken.size(); ++i) seen.backward += taken[i] < asked[i];
        }
    return seen;
}

Watched see(const test::FarmProgram& farm, replay::Faults faults = {}, bool attribution = false) {
    const test::TemporaryDirectory directory;
    test::write_trace(farm.program.trace, directory.path("t"));
    return see(directory.path("t"), farm, faults, attribution);
}

// Summed over all farms, or over as many whose master picks and is the only one that is hit: what the estimate is wrong by, and what the
// noise cost.
std::pair<int64_t, int64_t> wrong_by(replay::Faults faults, bool picking_master_alone = false) {
    int64_t wrong = 0, cost = 0;
    for (uint64_t seed = 1; seed <= farms; ++seed) {
        test::FarmOptions options = options_of(seed);
        if (picking_master_alone) {
            options.form = Form::waitany;
            options.noisy_rank = 0;
            options.noise_ns = 60'000;
        }
        if (!is_farm(options.form)) continue;
        const test::FarmProgram farm = test::farm_program(options);
        const Watched seen = see(farm, faults);
        wrong += std::abs(seen.result.approximated_ns - farm.truth);
        cost += std::abs(farm.program.end - farm.truth);
    }
    return {wrong, cost};
}

}  // namespace

TEST_CASE("a farm's estimate is its time without noise") {
    const auto [wrong, cost] = wrong_by({});
    MESSAGE("wrong by " << wrong << " of " << cost << " ns");
    CHECK(wrong * 50 < cost);
    for (const replay::Faults& faults : {replay::Faults{.tasks_as_measured = true}, replay::Faults{.keep_place = true}}) {
        const auto [broken, same] = wrong_by(faults);
        MESSAGE("broken: wrong by " << broken << " of " << same << " ns");
        CHECK(broken * 50 >= same);
    }
}

TEST_CASE("which of those that are there a wait for any takes says nothing of who asked first") {
    const auto [wrong, cost] = wrong_by({}, true);
    const auto [broken, same] = wrong_by({.as_picked = true}, true);
    MESSAGE("wrong by " << wrong << " of " << cost << " ns, broken: " << broken);
    CHECK(wrong * 20 < cost);
    CHECK(broken * 20 >= same);
}

TEST_CASE("identity, causality, additivity, margins, bounds of the whole") {
    for (uint64_t seed = 1; seed <= farms; ++seed) {
        CAPTURE(seed);
        const test::FarmProgram farm = test::farm_program(options_of(seed));
        const Watched seen = see(farm);
        CHECK(seen.moved == 0);
        CHECK(seen.backward == 0);
        const replay::Result& result = seen.result;
        CHECK(result.conditional);
        CHECK(result.bounds_low_ns <= result.approximated_ns);
        CHECK(result.approximated_ns <= result.bounds_high_ns);
        int64_t sum = 0;
        std::map<std::string, int64_t> paid;
        for (const auto& row : result.attribution.rows) paid[row.source] += row.ns;
        for (const auto& source : result.sources) {
            sum += source.share_ns;
            CHECK(paid[source.name] == source.share_ns);
        }
        CHECK(sum == result.accumulated_noise_ns);
        const bool told = std::any_of(result.warnings.begin(), result.warnings.end(),
                                      [](const auto& w) { return w.text.find("requests for work") != std::string::npos; });
        CHECK(told == is_farm(options_of(seed).form));
    }
}

TEST_CASE("the same questions find a broken exchange") {
    int64_t unclamped = 0, backward = 0;
    for (uint64_t seed = 1; seed <= farms; ++seed) {
        test::FarmOptions options = options_of(seed);
        options.jitter_ns = 20'000;
        const test::FarmProgram farm = test::farm_program(options);
        CHECK(see(farm).moved == 0);
        try {
            see(farm, {.as_asked = true});
        } catch (const std::logic_error&) {  // the timeline moves though nothing was removed
            ++unclamped;
        }
        backward += see(farm, {.drop_dependency = true}).backward;
    }
    CHECK(unclamped > 0);
    CHECK(backward > 0);
}

TEST_CASE("workers that work on while they wait for an answer are no farm") {
    test::FarmOptions options = options_of(6);
    options.form = Form::prefetch;
    const test::FarmProgram farm = test::farm_program(options);
    const test::TemporaryDirectory directory;
    test::write_trace(farm.program.trace, directory.path("t"));
    const auto text = [&](replay::Faults faults) { return replay::to_json(see(directory.path("t"), farm, faults).result).dump(); };
    CHECK(text({}) == text({.tasks_as_measured = true}));
}

TEST_CASE("with the event graph too: the same estimate, and a table that adds up to it") {
    for (uint64_t seed = 1; seed <= farms; seed += 3) {
        CAPTURE(seed);
        const test::FarmProgram farm = test::farm_program(options_of(seed));
        const Watched seen = see(farm, {}, true);
        CHECK(seen.result.accumulated_noise_ns == see(farm).result.accumulated_noise_ns);
        REQUIRE(seen.result.costs);
        std::map<std::string, int64_t> paid;
        for (const auto& row : seen.result.attribution.rows) paid[row.source] += row.ns;
        for (const auto& source : seen.result.sources) CHECK(paid[source.name] == source.share_ns);
    }
}

TEST_CASE("what keeps the measured order says so: the timeline that is written, injected noise") {
    test::FarmOptions wanted = options_of(9);
    wanted.form = Form::results;
    const test::FarmProgram farm = test::farm_program(wanted);
    const test::TemporaryDirectory directory;
    test::write_trace(farm.program.trace, directory.path("t"));
    std::ofstream(directory.path("noise.json")) << R"({"schema":"polter.inject/1","sources":[
        {"name":"tick","period_ns":40000,"duration_ns":900,"seed":5}]})";
    replay::Options options;
    options.trace = directory.path("t");
    options.inject = directory.path("noise.json");
    options.write_approximated = directory.path("written");
    const replay::Result result = replay::replay(options);
    for (const char* wanted_words : {"keeps the measured order in which work was assigned", "injected noise keeps the measured order"})
        CHECK(std::any_of(result.warnings.begin(), result.warnings.end(),
                          [&](const auto& w) { return w.text.find(wanted_words) != std::string::npos; }));
    const replay::Result kept = see(directory.path("t"), farm, {.tasks_as_measured = true}).result;
    REQUIRE(kept.approximated_ns != result.approximated_ns);
    options = {};
    options.trace = directory.path("written");
    CHECK(replay::replay(options).measured_ns == kept.approximated_ns);
    CHECK(result.injected->added_ns > 0);
}

TEST_CASE("memory: however many tasks, no more messages than workers") {
    const auto messages = [](size_t tasks) {
        test::FarmOptions wanted = options_of(7);
        wanted.tasks = tasks;
        const test::FarmProgram farm = test::farm_program(wanted);
        const test::TemporaryDirectory directory;
        test::write_trace(farm.program.trace, directory.path("t"));
        replay::Hooks hooks;
        size_t most = 0;
        hooks.most_matches = &most;
        replay::Options options;
        options.trace = directory.path("t");
        replay::replay_with(options, hooks);
        return most;
    };
    CHECK(messages(100) == messages(10'000));
}

TEST_CASE("a request that never comes is counted, and the others are served") {
    for (uint64_t seed = 1; seed <= 14; ++seed) {
        CAPTURE(seed);
        test::FarmProgram farm = test::farm_program(options_of(seed));
        auto& records = farm.program.trace.records[2];
        const auto sent = std::find_if(records.begin() + static_cast<std::ptrdiff_t>(records.size() / 2), records.end(),
                                       [](const test::Record& r) { return r.kind == test::Record::Kind::send; });
        REQUIRE(sent != records.end());
        sent->tag = 99;
        const test::TemporaryDirectory directory;
        test::write_trace(farm.program.trace, directory.path("t"));
        replay::Options options;
        options.trace = directory.path("t");
        const replay::Result result = replay::replay(options);
        CHECK(std::any_of(result.warnings.begin(), result.warnings.end(),
                          [](const auto& w) { return w.text.find("have no send in the trace") != std::string::npos; }));
        const std::string alone = replay::to_json(result).dump(1);
        for (const std::string& one : test::together(2, seed, [&](replay::Group& group) {
                 replay::Options shared = options;
                 shared.group = &group;
                 return replay::to_json(replay::replay(shared)).dump(1);
             }))
            CHECK(one == alone);
    }
}

TEST_CASE("determinism: the order of reading and the number of processes change nothing") {
    for (uint64_t seed = 1; seed <= farms; seed += 2) {
        CAPTURE(seed);
        const test::FarmProgram farm = test::farm_program(options_of(seed));
        const test::TemporaryDirectory directory;
        test::write_trace(farm.program.trace, directory.path("t"));
        replay::Options options;
        options.trace = directory.path("t");
        options.attribution = seed % 4 == 1;  // of several processes the first alone has it
        replay::Hooks backward;
        backward.reverse_order = true;
        const auto text = [](replay::Result result) {
            if (result.costs) result.costs->spilled_bytes = 0;
            return replay::to_json(result).dump(1);
        };
        const std::string alone = text(replay::replay(options));
        CHECK(alone == text(replay::replay_with(options, backward)));
        for (const int processes : {2, 3})
            for (const std::string& one : test::together(processes, seed, [&](replay::Group& group) {
                     replay::Options shared = options;
                     shared.group = &group;
                     const std::string found = text(replay::replay(shared));
                     return shared.attribution && group.rank() > 0 ? alone : found;
                 }))
                CHECK(one == alone);
    }
}
