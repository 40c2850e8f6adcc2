// SPDX-License-Identifier: BSD-3-Clause
// Memory is bounded by ranks and messages in flight, never by the number of events.
#include <doctest/doctest.h>

#include "replay/engine/postings.hpp"
#include "support/invariants.hpp"

using namespace polter;

namespace {

// A producer that never waits, and a consumer that is `lag` messages behind it in measured time.
size_t matches_alive(int64_t messages, int64_t lag, replay::Faults faults = {}, replay::CostReport* costs = nullptr) {
    test::TraceSpec spec(2);
    spec.accounts = {"os:timer"};
    constexpr int64_t period = 1'000;
    for (int64_t i = 0; i < messages; ++i) {
        const int64_t sent = i * period, received = (i + lag) * period;
        spec.add(0, sent, test::Record::Kind::enter, "MPI_Send");
        spec.add(0, sent, test::Record::Kind::send).peer = 1;
        spec.add(0, sent + 100, test::Record::Kind::leave, "MPI_Send");
        spec.add(1, received, test::Record::Kind::enter, "MPI_Recv");
        spec.add(1, received + 100, test::Record::Kind::recv).peer = 0;
        spec.add(1, received + 100, test::Record::Kind::leave, "MPI_Recv");
    }
    const test::TemporaryDirectory directory;
    test::write_trace(spec, directory.path("t"));
    size_t alive = 0;
    replay::Hooks hooks;
    hooks.faults = faults;
    hooks.most_matches = &alive;
    replay::Options options;
    options.trace = directory.path("t");
    options.attribution = costs != nullptr;
    const replay::Result result = replay::replay_with(options, hooks);
    CHECK(result.events == messages * 6 + 2);
    if (costs) *costs = *result.costs;
    return alive;
}

}  // namespace

TEST_CASE("a one-way producer is not run ahead of") {
    const size_t few = matches_alive(20'000, 3), many = matches_alive(200'000, 3);
    MESSAGE(few << " messages alive at most with 20,000, " << many << " with 200,000");
    CHECK(many <= 2 * few + 64);
    CHECK(many < 5'000);
    CHECK(matches_alive(200'000, 3, {.no_window = true}) > 100'000);  // the same question finds an engine that runs ahead
}

TEST_CASE("what receives were posted for is remembered up to a limit") {
    constexpr size_t most = 8'000;  // of two threads
    replay::Postings postings(2, most);
    CHECK(postings.empty());
    for (uint64_t posting = 1; posting <= 2'000; ++posting) postings.learn(1, posting, {0, 3, posting % 2 == 0 ? 7u : 8u});
    REQUIRE(postings.find(1, 2));
    CHECK(*postings.find(1, 2) == replay::PostedFor{0, 3, 7});
    CHECK(*postings.find(1, 900) == replay::PostedFor{0, 3, 7});
    CHECK(postings.find(1, 1'001) == nullptr);
    CHECK(postings.find(0, 2) == nullptr);
}

TEST_CASE("what is really in flight is kept") {
    CHECK(matches_alive(50'000, 10'000) >= 10'000);
}

TEST_CASE("the backward pass holds what is in flight, not the trace") {
    replay::CostReport few, many, late;
    matches_alive(10'000, 3, {}, &few);
    matches_alive(100'000, 3, {}, &many);
    matches_alive(20'000, 10'000, {}, &late);
    MESSAGE(few.most_open << " events open at most with 10,000 messages, " << many.most_open << " with 100,000, in "
                          << many.spilled_bytes / 100'000 << " bytes a message");
    CHECK(many.spilled_bytes > 5 * few.spilled_bytes);
    CHECK(many.most_open <= 2 * few.most_open + 64);
    CHECK(late.most_open > 9'000);  // the same question finds what is in flight
}

// A receive whose message does not exist, at the beginning; everything sent to that rank would pile up until the trace's end.
TEST_CASE("a wait for what does not exist does not hold memory for ever") {
    test::TraceSpec spec(2);
    spec.accounts = {"os:timer"};
    spec.add(1, 0, test::Record::Kind::enter, "MPI_Recv");
    auto& lost = spec.add(1, 10, test::Record::Kind::recv);
    lost.peer = 0;
    lost.tag = 99;
    spec.add(1, 10, test::Record::Kind::leave, "MPI_Recv");
    constexpr int64_t messages = 100'000;
    for (int64_t i = 1; i <= messages; ++i) {
        spec.add(0, i * 1000, test::Record::Kind::enter, "MPI_Send");
        spec.add(0, i * 1000, test::Record::Kind::send).peer = 1;
        spec.add(0, i * 1000 + 100, test::Record::Kind::leave, "MPI_Send");
        spec.add(1, i * 1000 + 200, test::Record::Kind::enter, "MPI_Recv");
        spec.add(1, i * 1000 + 300, test::Record::Kind::recv).peer = 0;
        spec.add(1, i * 1000 + 300, test::Record::Kind::leave, "MPI_Recv");
    }
    const test::TemporaryDirectory directory;
    test::write_trace(spec, directory.path("t"));
    size_t alive = 0;
    replay::Hooks hooks;
    hooks.most_matches = &alive;
    hooks.most_in_flight = 5'000;
    replay::Options options;
    options.trace = directory.path("t");
    const replay::Result result = replay::replay_with(options, hooks);
    CHECK(alive < 20'000);
    bool told = false;
    for (const auto& warning : result.warnings) told = told || warning.text.find("1 receives or probes have no send") != std::string::npos;
    CHECK(told);
    hooks.most_in_flight = 0;
    replay::replay_with(options, hooks);
    CHECK(alive > 90'000);  // below the default limit it is kept: the same question finds that
}
