// SPDX-License-Identifier: BSD-3-Clause
// Every rule on a trace small enough to compute by hand.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "micro_parse.hpp"
#include "replay/passes.hpp"

namespace {

using namespace polter;

struct Seen {
    std::map<std::tuple<std::string, int64_t, int64_t>, int64_t> approximated;  // scenario, rank, measured → approximated (the last event)
};

void run(const std::string& path, bool one_class) {
    test::Micro micro = test::parse_micro(path);
    micro.trace.one_class = one_class;
    const test::TemporaryDirectory directory;
    test::write_trace(micro.trace, directory.path("t"));
    Seen seen;
    replay::Hooks hooks;
    hooks.observer = [&](const replay::Scenarios& scenarios, const replay::Thread& thread, int64_t time, const int64_t* delay) {
        const auto keep = [&](const std::string& name, size_t lane) { seen.approximated[{name, thread.rank, time}] = time - delay[lane]; };
        keep("none", 0);
        keep("all", scenarios.all());
        for (size_t i = 0; i < micro.trace.accounts.size(); ++i) keep(micro.trace.accounts[i], scenarios.alone_lane(i));
    };
    replay::Options options;
    options.trace = directory.path("t");
    const replay::Result result = replay::replay_with(options, hooks);
    for (const auto& event : micro.events) {
        CAPTURE(event.scenario);
        CAPTURE(event.rank);
        CAPTURE(event.time);
        const auto found = seen.approximated.find({event.scenario, event.rank, event.time});
        REQUIRE(found != seen.approximated.end());
        CHECK(found->second == event.approximated);
    }
    for (const auto& [scenario, total] : micro.totals) {
        CAPTURE(scenario);
        if (scenario == "all") {
            CHECK(result.accumulated_noise_ns == total);
            continue;
        }
        const auto source =
            std::find_if(result.sources.begin(), result.sources.end(), [&](const auto& s) { return "os:" + s.name == scenario; });
        REQUIRE(source != result.sources.end());
        CHECK(source->alone_ns == total);
    }
    if (micro.bounds) {
        CHECK(result.bounds_low_ns == micro.bounds->first);
        CHECK(result.bounds_high_ns == micro.bounds->second);
    }
    CHECK(result.bounds_low_ns <= result.approximated_ns);
    CHECK(result.approximated_ns <= result.bounds_high_ns);
    if (micro.conditional) CHECK(result.conditional == *micro.conditional);
    for (const std::string& expected : micro.warnings) {
        CAPTURE(expected);
        CHECK(std::any_of(result.warnings.begin(), result.warnings.end(),
                          [&](const auto& w) { return w.find(expected) != std::string::npos; }));
    }
}

}  // namespace

TEST_CASE("each micro trace gives what was computed by hand") {
    size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(POLTER_MICRO_TRACES)) {
        const std::string path = entry.path().string();
        if (!path.ends_with(".txt")) continue;
        ++files;
        SUBCASE(entry.path().filename().c_str()) {
            CAPTURE(path);
            run(path, false);
            run(path, true);  // however the writer arranged its metric classes
        }
    }
    CHECK(files >= 20);
}
