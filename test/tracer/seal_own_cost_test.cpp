// SPDX-License-Identifier: BSD-3-Clause
// What the sealed trace says of the time that tracing itself took.
#include <doctest/doctest.h>

#include "../../tracer/seal/seal.hpp"
#include "seal_ranks.hpp"

using namespace seal_test;
using polter::seal::seal;

TEST_CASE("so many calls that tracing them shows are a warning with what they cost") {
    for (const uint64_t own_ns : {40'000'000ull, 60'000'000ull}) {
        Experiment experiment;
        write_rank(experiment.path, {.size = 1, .own_cost_ns = own_ns});
        const auto report = seal({experiment.path, "p"});
        if (own_ns < 50'000'000) {
            CHECK(report.warnings.empty());
        } else {
            REQUIRE(report.warnings.size() == 1);
            CHECK(report.warnings[0].find("tracing took") == 0);
            CHECK(report.warnings[0].find("0.06 s of") != std::string::npos);
        }
    }
}
