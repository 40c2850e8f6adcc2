// SPDX-License-Identifier: BSD-3-Clause
// Traces that other tools wrote: they load, every rank's events are read, nothing moves.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "support/invariants.hpp"

namespace fs = std::filesystem;
using namespace polter;

namespace {

struct Foreign {
    const char* name;
    int64_t ranks, events;
    std::vector<const char*> warnings;  // that it must give
};

// Ranks and events as the writers' own definitions count them.
const Foreign traces[] = {
    {"pipit-ping-pong-otf2", 2, 120, {"no noise metrics"}},
    {"pipit-ping-pong-otf2-papi", 2, 204, {"no noise metrics"}},
    {"scorep-lulesh-8", 8, 196352, {"no noise metrics"}},
    {"scorep-npb-lu-W", 2, 117669, {"no noise metrics"}},
    {"sstmacro-otf2_test_traces", 10, 22180, {"no noise metrics"}},
    {"tau-npb-lu-W", 2, 156866, {"no noise metrics", "no record of what they were"}},  // 6 metric records are TAU's own
};

}  // namespace

TEST_CASE("traces of Score-P and TAU") {
    for (const Foreign& foreign : traces) {
        CAPTURE(foreign.name);
        const fs::path path = fs::path(POLTER_FOREIGN_TRACES) / foreign.name;
        REQUIRE(fs::exists(path));
        for (const bool reverse : {false, true}) {
            const auto observed = test::observe(path.string(), {}, {}, std::vector<std::string>{}, reverse);
            CHECK(observed.violations.identity == 0);
            CHECK(observed.violations.causality == 0);
            CHECK(observed.result.ranks == foreign.ranks);
            CHECK(observed.result.events == foreign.events);
            CHECK(observed.result.accumulated_noise_ns == 0);
            CHECK(observed.result.measured_ns > 0);
            for (const char* warning : foreign.warnings) {
                CAPTURE(warning);
                bool given = false;
                for (const auto& line : observed.result.warnings) given = given || line.text.find(warning) != std::string::npos;
                CHECK(given);
            }
            for (const auto& line : observed.result.warnings) CHECK(line.text.find("received in the trace") == std::string::npos);
        }
    }
}

int main(int argc, char** argv) {
    if (!fs::exists(POLTER_FOREIGN_TRACES)) {
        std::printf("SKIP: no foreign traces at %s\n", POLTER_FOREIGN_TRACES);
        return 77;
    }
    return doctest::Context(argc, argv).run();
}
