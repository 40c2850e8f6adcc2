// SPDX-License-Identifier: BSD-3-Clause
// Injected noise: cases computed by hand, what every prediction keeps, and random programs whose noisy run is known.
#include <doctest/doctest.h>
#include <otf2/otf2.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "replay/scenario/injection.hpp"
#include "replay/testing.hpp"
#include "support/random_program.hpp"
#include "support/trace_spec.hpp"

namespace {

using namespace polter;
using Json = nlohmann::json;
using Kind = test::Record::Kind;

replay::Injected under(const test::TraceSpec& spec, const Json& sources, replay::Faults faults) {
    const test::TemporaryDirectory directory;
    test::write_trace(spec, directory.path("t"));
    std::ofstream(directory.path("noise.json")) << Json{{"schema", "polter.inject/1"}, {"sources", sources}};
    replay::Options options;
    options.trace = directory.path("t");
    options.inject = directory.path("noise.json");
    replay::Hooks hooks;
    hooks.faults = faults;
    const replay::Result result = replay::replay_with(options, hooks);
    CHECK(result.accumulated_noise_ns == 0);  // what was measured stays as it is
    REQUIRE(result.injected);
    return *result.injected;
}

Json event(int rank, int64_t time, int64_t duration) {
    return {{"rank", rank}, {"time_ns", time}, {"duration_ns", duration}};
}
Json source(const std::string& name, std::initializer_list<Json> events) {
    return {{"name", name}, {"events", std::vector<Json>(events)}};
}
replay::Injected under(const test::TraceSpec& spec, std::initializer_list<Json> sources, replay::Faults faults = {}) {
    return under(spec, Json(std::vector<Json>(sources)), faults);
}

test::TraceSpec computing() {
    test::TraceSpec spec(1);
    spec.add(0, 1000, Kind::enter, "main");
    spec.add(0, 1100, Kind::leave, "main");
    return spec;
}

// Rank 1 sends at 100; rank 0 waits for it from 10 on, has it at 110 (10 after it was sent), and ends at 120.
test::TraceSpec late_sender() {
    test::TraceSpec spec(2);
    spec.add(0, 0, Kind::enter, "main");
    spec.add(0, 10, Kind::enter, "MPI_Recv");
    spec.add(0, 110, Kind::recv).peer = 1;
    spec.add(0, 110, Kind::leave, "MPI_Recv");
    spec.add(0, 120, Kind::leave, "main");
    spec.add(1, 0, Kind::enter, "main");
    spec.add(1, 100, Kind::enter, "MPI_Send");
    spec.add(1, 100, Kind::send).peer = 0;
    spec.add(1, 101, Kind::leave, "MPI_Send");
    spec.add(1, 101, Kind::leave, "main");
    return spec;
}

}  // namespace

TEST_CASE("computing takes as much longer as is stolen from it; times count from the trace's beginning") {
    CHECK(under(computing(), {source("a", {event(0, 50, 10)})}).predicted_ns == 110);
    CHECK(under(computing(), {source("a", {event(0, 50, 10), event(0, 55, 10)})}).predicted_ns == 120);   // one after the other
    CHECK(under(computing(), {source("a", {event(0, 95, 10), event(0, 107, 10)})}).predicted_ns == 120);  // in the time of the new run
    CHECK(under(computing(), {source("a", {event(0, 100, 10)})}).predicted_ns == 100);                    // it had ended
}

TEST_CASE("a periodic source hits in the time of the new run") {
    Json tick = {{"name", "tick"}, {"period_ns", 30}, {"duration_ns", 5}, {"phase_ns", 10}};
    // At 10, 40, 70 and 100, 5 each: 10 + 25 + 25 + 25 + 15 of work between them.
    CHECK(under(computing(), {tick}).predicted_ns == 120);
    tick["ranks"] = {0};
    CHECK(under(computing(), {tick}).predicted_ns == 120);
}

TEST_CASE("noise while waiting is absorbed, but for what lasts beyond") {
    CHECK(under(late_sender(), {source("a", {event(0, 20, 50)})}).predicted_ns == 120);
    // Until 120. The message was under way until 110: no receive has shown that any of that was own work. At 120 the call ends; 10 follow.
    CHECK(under(late_sender(), {source("a", {event(0, 90, 30)})}).predicted_ns == 130);
    CHECK(under(late_sender(), {source("a", {event(0, 20, 50)})}, {.no_absorption = true}).predicted_ns > 120);
}

TEST_CASE("a late sender makes its receiver late, whether it was hit before the send or in it") {
    const replay::Injected before = under(late_sender(), {source("a", {event(1, 50, 30)})});
    CHECK(before.predicted_ns == 150);
    CHECK(before.per_rank[0].added_ns == 30);
    CHECK(before.per_rank[0].local_noise_ns == 0);
    CHECK(before.per_rank[1].local_noise_ns == 30);
    CHECK(under(late_sender(), {source("a", {event(1, 100, 20)})}).predicted_ns == 140);
}

TEST_CASE("injected noise that hits nothing is told") {
    const auto warning = [](std::initializer_list<Json> sources) {
        std::string lines;
        for (const replay::Warning& line : under(computing(), sources).warnings) lines += line.text;
        return lines;
    };
    CHECK(warning({source("a", {event(0, 50, 10), event(0, 109, 1)})}) == "");  // the first makes room for the second
    CHECK(warning({source("a", {event(0, 50, 10), event(0, 110, 1), event(0, 5000, 1)})}).find("source a: 2 of 3 injected events") !=
          std::string::npos);
    const Json tick = {{"name", "tick"}, {"period_ns", 1000}, {"duration_ns", 5}, {"phase_ns", 100}};
    CHECK(warning({tick}).find("tick: the run ends before") != std::string::npos);
    test::TraceSpec later = late_sender();  // rank 1 begins at 50
    for (test::Record& record : later.records[1]) record.time = std::max<int64_t>(record.time, 50);
    CHECK(under(later, {source("a", {event(1, 10, 20)})}).warnings.size() == 1);
    CHECK(under(later, {source("a", {event(1, 10, 60)})}).warnings.empty());
}

TEST_CASE("a collective ends for all when the last has come") {
    test::TraceSpec spec(2);
    for (size_t rank = 0; rank < 2; ++rank) {
        spec.add(rank, 0, Kind::enter, "main");
        spec.add(rank, 50 + 40 * static_cast<int64_t>(rank), Kind::enter, "MPI_Barrier");
        spec.add(rank, 100, Kind::collective_end);
        spec.add(rank, 100, Kind::leave, "MPI_Barrier");
        spec.add(rank, 100, Kind::leave, "main");
    }
    CHECK(under(spec, {source("a", {event(0, 10, 30)})}).predicted_ns == 100);  // it comes at 80 instead of 50: the other at 90
    CHECK(under(spec, {source("a", {event(0, 10, 60)})}).predicted_ns == 120);
    CHECK(under(spec, {source("a", {event(1, 10, 30)})}).predicted_ns == 130);
}

// Nobody is ever late, so "6000 after the last" says all there is to say of these alltoalls.
TEST_CASE("in a quiet trace injected noise inside a collective delays others too, the likeliest way") {
    constexpr int64_t phase = 20'000, begins = 10'000, takes = 6'000;
    constexpr int phases = 12;
    test::TraceSpec spec(4);
    for (size_t rank = 0; rank < spec.ranks(); ++rank) {
        spec.add(rank, 0, Kind::enter, "main");
        for (int i = 0; i < phases; ++i) {
            spec.add(rank, i * phase + begins, Kind::enter, "MPI_Alltoall");
            test::Record& end = spec.add(rank, i * phase + begins + takes, Kind::collective_end);
            end.operation = OTF2_COLLECTIVE_OP_ALLTOALL;
            end.bytes = 800;
            spec.add(rank, i * phase + begins + takes, Kind::leave, "MPI_Alltoall");
        }
        spec.add(rank, phases * phase, Kind::leave, "main");
    }
    // In the last one, so that nothing behind it brings the ranks together; and while rank 0 still sends, as in the linear exchange that
    // MPIs use for so few members it only waits afterwards.
    const Json noise = Json::array({source("a", {event(0, (phases - 1) * phase + begins + 150, 4'500)})});
    const auto others = [](const replay::Injected& injected) {
        int64_t most = 0;
        for (size_t rank = 1; rank < injected.per_rank.size(); ++rank) most = std::max(most, injected.per_rank[rank].added_ns);
        return most;
    };
    const replay::Injected likely = under(spec, noise, {});
    CHECK(others(likely) > 0);
    CHECK(likely.conditional);
    REQUIRE(likely.warnings.size() == 1);
    CHECK(likely.warnings[0].text.find("alltoall") != std::string::npos);
    CHECK(likely.bounds_low_ns <= phases * phase + 4'500);
    CHECK(likely.bounds_high_ns >= likely.predicted_ns);
    const replay::Injected nobody_else = under(spec, noise, {.no_structure = true});
    CHECK(others(nobody_else) == 0);
    CHECK_FALSE(nobody_else.conditional);
    CHECK(under(spec, Json::array({source("a", {event(0, 100, 0)})}), {}).added_ns == 0);
}

TEST_CASE("shares add up; alone and without are what they say") {
    // b's noise on rank 0 lies in the wait for the message; where a makes the message later, still.
    const replay::Injected both =
        under(late_sender(), {source("a", {event(1, 50, 30)}), source("b", {event(0, 20, 50), event(0, 142, 4)})});
    CHECK(both.added_ns == 34);
    CHECK(both.sources[0].alone_ns == 30);
    CHECK(both.sources[1].alone_ns == 0);
    CHECK(both.sources[0].without_ns == 34);
    CHECK(both.sources[1].without_ns == 4);
    CHECK(both.sources[0].share_ns + both.sources[1].share_ns == 34);
    CHECK(both.sources[0].share_ns == 32);
    CHECK(both.sources[1].local.max == 54);
}

TEST_CASE("a file that is wrong is refused with what is wrong in it") {
    const auto refused = [](const std::string& text, const char* what) {
        const test::TemporaryDirectory directory;
        test::write_trace(computing(), directory.path("t"));
        std::ofstream(directory.path("noise.json")) << text;
        replay::Options options;
        options.trace = directory.path("t");
        options.inject = directory.path("noise.json");
        CAPTURE(text);
        CHECK_THROWS_WITH_AS(replay::replay(options), doctest::Contains(what), replay::InputError);
    };
    const auto with = [](const std::string& each) { return R"({"schema":"polter.inject/1","sources":[)" + each + "]}"; };
    refused("{", "is no JSON (line 1, column 2)");
    refused("{\n  \"schema\": nothing}", "is no JSON (line 2, column 14)");
    refused("[1e999]", "cannot be read");
    refused("[]", "must be an object");
    refused(R"({"schema":"polter.inject/2","sources":[]})", "polter.inject/1");
    refused(with(""), "at least one");
    refused(with("3"), "must be an object");
    refused(with(R"({"period_ns":10,"duration_ns":1})"), "needs a \"name\"");
    refused(with(R"({"name":"a","period_ns":10})"), "lacks \"duration_ns\"");
    refused(with(R"({"name":"a","period_ns":10,"duration_ns":10})"), "no time to the program");
    refused(with(R"({"name":"a","period_ns":10,"duration_ns":1.5})"), "must be an integer");
    refused(with(R"({"name":"a","period_ns":10,"duration_ns":-1})"), "must be an integer");
    refused(with(R"({"name":"a","period":10,"duration_ns":1})"), "unknown key \"period\"");
    refused(with(R"({"name":"a","period_ns":10,"duration_ns":1,"ranks":[1]})"), "ranks 0 to 0");
    refused(with(R"({"name":"a","period_ns":10,"duration_ns":1,"ranks":[-1]})"), "numbers of ranks");
    refused(with(R"({"name":"a","arrival":"often","period_ns":10,"duration_ns":1})"), "\"periodic\" or \"random\"");
    refused(with(R"({"name":"a","events":[{"rank":4,"time_ns":0,"duration_ns":1}]})"), "hits rank 4");
    refused(with(R"({"name":"a","events":[{"rank":0,"time_ns":0}]})"), "source 0, event 0: lacks \"duration_ns\"");
    refused(with(R"({"name":"a","events":[]})"), "\"events\" must be a list of at least one");
    refused(with(R"({"name":"a","period_ns":10,"duration_ns":1},{"name":"a","period_ns":10,"duration_ns":1})"), "given twice");
    refused(with(R"({"name":"a","period_ns":10,"duration_ns":6},{"name":"b","period_ns":10,"duration_ns":6})"), "120 %");
    refused(with(R"({"name":"a","events":[{"rank":0,"time_ns":0,"duration_ns":99999999999999999999}]})"), "must be an integer");
}

TEST_CASE("random arrivals: mean distance and duration are those asked for, the first to ask") {
    std::vector<replay::InjectedSource> sources(1);
    sources[0].arrival = replay::InjectedSource::Arrival::random;
    sources[0].period = 10'000;
    sources[0].duration = 500;
    replay::InjectedClock idle(sources, 1, 3, 0), working(sources, 1, 3, 0), other(sources, 1, 4, 0);
    constexpr int64_t horizon = 1'000'000'000;
    idle.finish(horizon, 0);
    other.finish(horizon, 0);
    CHECK(static_cast<double>(idle.noise_ns()[0]) / horizon == doctest::Approx(0.05).epsilon(0.03));
    CHECK(idle.noise_ns()[0] != other.noise_ns()[0]);
    int64_t now = 0;
    while (now < horizon) now = working.finish(now, 777);
    CHECK(static_cast<double>(working.noise_ns()[0]) == doctest::Approx(static_cast<double>(idle.noise_ns()[0])).epsilon(0.001));
}

// The program's noisy run, predicted from its quiet one: mean error as a share of what the noise truly cost.
namespace {

double mean_error(bool structured, replay::Faults faults = {}) {
    double error = 0, truth = 0;
    for (uint64_t seed = 1; seed <= 14; ++seed) {
        test::ProgramOptions wanted;
        wanted.seed = seed;
        wanted.ranks = 2 + seed % 7;
        wanted.steps = structured ? 160 : 40;
        wanted.accounts = 2;
        wanted.wildcards = false;
        wanted.structured = structured;
        const test::Program noisy = test::random_program(wanted);
        wanted.noise_every_ns = 0;
        const test::Program quiet = test::random_program(wanted);
        std::map<std::string, Json> events;
        for (size_t rank = 0; rank < noisy.trace.ranks(); ++rank)
            for (const test::Record& record : noisy.trace.records[rank])
                if (record.kind == Kind::noise)
                    events.emplace(record.name, Json::array())
                        .first->second.push_back(
                            event(static_cast<int>(rank), record.time - static_cast<int64_t>(record.ago) - record.ns, record.ns));
        Json sources = Json::array();
        for (const auto& [name, list] : events) sources.push_back({{"name", name}, {"events", list}});
        const replay::Injected injected = under(quiet.trace, sources, faults);
        int64_t sum = 0;
        for (const auto& each : injected.sources) {
            sum += each.share_ns;
            CHECK(each.alone_ns <= injected.added_ns);
            CHECK(each.alone_ns >= 0);
        }
        CHECK(sum == injected.added_ns);
        CHECK(injected.bounds_low_ns <= injected.predicted_ns);
        CHECK(injected.predicted_ns <= injected.bounds_high_ns);
        for (const auto& rank : injected.per_rank) CHECK(rank.added_ns >= 0);
        error += std::abs(static_cast<double>(injected.predicted_ns - noisy.end));
        truth += static_cast<double>(noisy.end - quiet.end);
    }
    MESSAGE(std::string(structured ? "collectives of messages: " : "")
            << "mean error " << 100 * error / truth << " % of the noise's true cost");
    return error / truth;
}

}  // namespace

TEST_CASE("the prediction is near the truth") {
    CHECK(mean_error(false) <= 0.02);
    CHECK(mean_error(false, {.no_absorption = true}) > 0.05);
}

TEST_CASE("noise inside collectives costs what their messages cost") {
    CHECK(mean_error(true) <= 0.02);
    CHECK(mean_error(true, {.no_structure = true}) > 0.04);
}
