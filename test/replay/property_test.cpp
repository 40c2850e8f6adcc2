// SPDX-License-Identifier: BSD-3-Clause
// The six invariants on random programs, and for each a fault that the same question finds.
#include <doctest/doctest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/invariants.hpp"

namespace {

using namespace polter;

constexpr uint64_t programs = test::programs_of(60);

template <class Question>
int64_t ask(const replay::Faults& faults, Question question, bool locks = true) {
    int64_t violations = 0;
    for (uint64_t seed = 1; seed <= programs; ++seed) {
        test::ProgramOptions options = test::mixed_options(seed);
        options.locks = locks && seed % 8 == 7;
        const test::Program program = test::random_program(options);
        const test::TemporaryDirectory directory;
        test::write_trace(program.trace, directory.path("t"));
        const int64_t here = question(test::observe(directory.path("t"), program.orders, faults).violations);
        if (here > 0 && violations == 0) MESSAGE("first at seed " << seed);
        violations += here;
    }
    return violations;
}

}  // namespace

TEST_CASE("identity: with nothing removed nothing moves") {
    CHECK(ask({}, [](const test::Violations& v) { return v.identity; }) == 0);
    CHECK(ask({.residual_of_binding = true}, [](const test::Violations& v) { return v.identity; }) > 0);
}

TEST_CASE("causality: time runs forward and nothing overtakes what it depends on") {
    CHECK(ask({}, [](const test::Violations& v) { return v.causality; }) == 0);
    CHECK(ask({.drop_dependency = true}, [](const test::Violations& v) { return v.causality; }) > 0);
    CHECK(ask({.no_notices = true}, [](const test::Violations& v) { return v.causality; }) > 0);
}

// Not where it decides who has a lock first: that may be the worse order.
TEST_CASE("monotonicity: removing more never makes an event later") {
    CHECK(ask(
              {}, [](const test::Violations& v) { return v.monotonicity; }, false) == 0);
    CHECK(ask(
              {.negative_removal = true}, [](const test::Violations& v) { return v.monotonicity; }, false) > 0);
}

TEST_CASE("bounds: lower, estimate, upper, in this order") {
    CHECK(ask({}, [](const test::Violations& v) { return v.bounds; }) == 0);
    CHECK(ask({.swap_bounds = true}, [](const test::Violations& v) { return v.bounds; }) > 0);
}

TEST_CASE("additivity: the shares add up, for the program and for each rank") {
    CHECK(ask({}, [](const test::Violations& v) { return v.additivity; }) == 0);
    CHECK(ask({.round_shares = true}, [](const test::Violations& v) { return v.additivity; }) > 0);
}

TEST_CASE("margins: where it was paid adds up to each source's share") {
    CHECK(ask({}, [](const test::Violations& v) { return v.margins; }) == 0);
    CHECK(ask({.cells_alone = true}, [](const test::Violations& v) { return v.margins; }) > 0);
}

TEST_CASE("determinism: the order in which the ranks are read changes nothing") {
    const auto differences = [](const replay::Faults& faults) {
        int64_t count = 0;
        for (uint64_t seed = 1; seed <= programs; ++seed) {
            const test::Program program = test::random_program(test::mixed_options(seed));
            const test::TemporaryDirectory directory;
            test::write_trace(program.trace, directory.path("t"));
            const auto forward = test::observe(directory.path("t"), {}, faults),
                       backward = test::observe(directory.path("t"), {}, faults, {}, true);
            count += replay::to_json(forward.result) != replay::to_json(backward.result);
        }
        return count;
    };
    CHECK(differences({}) == 0);
    CHECK(differences({.first_sample = true}) > 0);
}

TEST_CASE("--remove \"\" is the measured timeline, and an unknown source is an error that lists the known ones") {
    const test::Program program = test::random_program(test::mixed_options(3));
    const test::TemporaryDirectory directory;
    test::write_trace(program.trace, directory.path("t"));
    const auto observed = test::observe(directory.path("t"), program.orders, {}, std::vector<std::string>{});
    CHECK(observed.result.accumulated_noise_ns == 0);
    CHECK(observed.result.approximated_ns == observed.result.measured_ns);
    CHECK(observed.result.measured_ns == program.end);
    for (const auto& rank : observed.result.per_rank) CHECK(rank.accumulated_noise_ns == 0);
    replay::Options options;
    options.trace = directory.path("t");
    options.remove = {"sourceX"};
    CHECK_THROWS_WITH_AS(replay::replay(options), doctest::Contains("source0"), replay::InputError);
}

TEST_CASE("removing one source by name is that source alone; removing all by name is all") {
    const test::Program program = test::random_program(test::mixed_options(7));
    const test::TemporaryDirectory directory;
    test::write_trace(program.trace, directory.path("t"));
    replay::Options options;
    options.trace = directory.path("t");
    const replay::Result all = replay::replay(options);
    std::vector<std::string> every;
    for (const auto& source : all.sources) {
        every.push_back(source.name);
        options.remove = {source.name};
        CHECK(replay::replay(options).accumulated_noise_ns == source.alone_ns);
    }
    options.remove = every;
    CHECK(replay::replay(options).accumulated_noise_ns == all.accumulated_noise_ns);
    options.remove = std::vector<std::string>(every.begin() + 1, every.end());
    if (every.size() > 1) CHECK(all.accumulated_noise_ns - replay::replay(options).accumulated_noise_ns == all.sources[0].without_ns);
}

TEST_CASE("more than eight sources: shares are sampled, still add up, and the error is stated") {
    test::ProgramOptions wanted = test::mixed_options(11);
    wanted.accounts = 11;
    wanted.steps = 60;
    const test::Program program = test::random_program(wanted);
    const test::TemporaryDirectory directory;
    test::write_trace(program.trace, directory.path("t"));
    const auto observed = test::observe(directory.path("t"), program.orders);
    CHECK(observed.violations.additivity == 0);
    CHECK(observed.violations.margins == 0);
    CHECK(observed.violations.identity == 0);
    bool stated = false;
    for (const auto& warning : observed.result.warnings) stated = stated || warning.text.find("standard error") != std::string::npos;
    CHECK(stated);
}

TEST_CASE("a start that did not wait for its post holds nobody up") {
    const auto flaws = [](const replay::Faults& faults) {
        int64_t count = 0;
        for (uint64_t seed = 3; seed <= programs; seed += 4) {
            const test::Program program = test::random_program(test::mixed_options(seed));
            const test::TemporaryDirectory directory;
            test::write_trace(program.trace, directory.path("t"));
            for (const bool reverse : {false, true})
                for (const replay::Warning& warning : test::observe(directory.path("t"), {}, faults, {}, reverse).result.warnings)
                    count +=
                        warning.text.find("have no send") != std::string::npos || warning.text.find("never received") != std::string::npos;
        }
        return count;
    };
    CHECK(flaws({}) == 0);
    CHECK(flaws({.hard_start = true}) > 0);
}

TEST_CASE("bounds: what the trace does not tell lies between them") {
    const auto missed = [](const replay::Faults& faults) {
        int64_t count = 0;
        for (uint64_t seed = 3; seed <= programs; seed += 4) {
            test::ProgramOptions wanted = test::mixed_options(seed);
            wanted.unrecorded = true;
            wanted.wildcards = false;
            const test::Program noisy = test::random_program(wanted);
            wanted.noise_every_ns = 0;
            const int64_t truth = test::random_program(wanted).end;
            const test::TemporaryDirectory directory;
            test::write_trace(noisy.trace, directory.path("t"));
            const replay::Result result = test::observe(directory.path("t"), {}, faults).result;
            count += truth < result.bounds_low_ns || truth > result.bounds_high_ns || !result.conditional;
        }
        return count;
    };
    CHECK(missed({}) == 0);
    CHECK(missed({.trust_unrecorded = true}) > 0);
}

// Not an invariant, but what it is all for: the same program without its noise. Mean error, as a share of the true accumulated noise.
namespace {

// Noise is counted at the next Enter or Leave.
test::TraceSpec with_counters(test::TraceSpec trace) {
    using Kind = test::Record::Kind;
    for (auto& records : trace.records) {
        std::vector<test::Record> counted, waiting;
        for (const test::Record& record : records) {
            if (record.kind == Kind::noise) {
                waiting.push_back(record);
                continue;
            }
            if (record.kind == Kind::enter || record.kind == Kind::leave)
                for (test::Record& noise : std::exchange(waiting, {})) {
                    noise.time = record.time;
                    counted.push_back(noise);
                }
            counted.push_back(record);
        }
        records = std::move(counted);
    }
    return trace;
}

std::vector<test::ProgramOptions> mixed(bool structured) {
    std::vector<test::ProgramOptions> all;
    for (uint64_t seed = 1; seed <= programs; ++seed) {
        const test::ProgramOptions options = test::mixed_options(seed);
        if (options.structured == structured) all.push_back(options);
    }
    return all;
}

// Collectives of so many that noise hits several of those who wait for each other.
std::vector<test::ProgramOptions> crowded() {
    std::vector<test::ProgramOptions> all;
    for (uint64_t seed = 1; seed <= test::programs_of(10); ++seed)
        all.push_back(
            {.seed = seed, .ranks = 16, .steps = 240, .accounts = 1, .noise_every_ns = 200'000, .noise_ns = 30'000, .structured = true});
    return all;
}

double mean_error(const std::vector<test::ProgramOptions>& all, replay::Faults faults = {}, bool counters = false) {
    double error = 0, truth = 0;
    for (test::ProgramOptions wanted : all) {
        wanted.wildcards = false;
        const test::Program noisy = test::random_program(wanted);
        wanted.noise_every_ns = 0;
        const test::Program quiet = test::random_program(wanted);
        if (wanted.structured && noisy.end > 2 * quiet.end) continue;  // more noise than program: what it does without cannot be learned
        const test::TemporaryDirectory directory;
        test::write_trace(counters ? with_counters(noisy.trace) : noisy.trace, directory.path("t"));
        replay::Options options;
        options.trace = directory.path("t");
        replay::Hooks hooks;
        hooks.faults = faults;
        const auto estimated = static_cast<double>(replay::replay_with(options, hooks).accumulated_noise_ns);
        error += std::abs(estimated - static_cast<double>(noisy.end - quiet.end));
        truth += static_cast<double>(noisy.end - quiet.end);
    }
    MESSAGE("mean error " << 100 * error / truth << " % of the true accumulated noise");
    return error / truth;
}

}  // namespace

TEST_CASE("the estimate is near the truth") {
    CHECK(mean_error(mixed(false)) <= 0.01);
}

TEST_CASE("noise inside collectives costs what their messages cost, once their structure is found") {
    CHECK(mean_error(mixed(true)) <= 0.01);
    CHECK(mean_error(mixed(true), {.no_structure = true}) > 0.05);
    CHECK(mean_error(mixed(true), {}, true) <= 0.04);
}

TEST_CASE("where only counters tell, a collective is delayed by all who were waited for") {
    const double counted = mean_error(crowded(), {}, true);
    CHECK(counted <= 0.05);
    CHECK(mean_error(crowded(), {.noise_of_one = true}, true) > 1.3 * counted);
    CHECK(mean_error(crowded(), {.counted_where_read = true}, true) > 1.3 * counted);
}
