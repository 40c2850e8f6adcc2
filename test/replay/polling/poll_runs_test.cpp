// SPDX-License-Identifier: BSD-3-Clause
// Failing polls in a row that the recorder made one call of: random programs with polling loops, each poll recorded alone and as the tracer
// merges them, have the same answer to the nanosecond.
#include <doctest/doctest.h>

#include <random>

#include "../support/trace_spec.hpp"
#include "replay/testing.hpp"

namespace {

using namespace polter;
using Kind = test::Record::Kind;

constexpr int64_t most_gap_ns = 10'000;  // as in tracer/write/location.hpp

// Rank 1 polls for each message of rank 0, quickly or with work between its polls; noise hits both.
test::TraceSpec polling_program(uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](int64_t low, int64_t high) {
        return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
    };
    test::TraceSpec trace(2);
    trace.accounts = {"os:timer"};
    const bool probes = seed % 2 == 0;
    const char* const poll = probes ? "MPI_Iprobe" : "MPI_Test";
    int64_t sender = 100, poller = 50;
    trace.add(0, 0, Kind::enter, "main");
    trace.add(1, 0, Kind::enter, "main");
    for (uint64_t message = 1; message <= 12; ++message) {
        if (!probes) {
            trace.add(1, poller, Kind::enter, "MPI_Irecv");
            test::Record& posted = trace.add(1, poller, Kind::irecv_request);
            posted.request = message;
            posted.tag = 7;
            posted.posted = true;
            trace.add(1, poller += 100, Kind::leave, "MPI_Irecv");
        }
        sender = std::max(sender, poller) + draw(20'000, 200'000);
        if (draw(0, 1)) {
            const int64_t stolen = draw(1'000, 15'000);
            trace.add(0, sender, Kind::noise, "os:timer").ns = stolen;
        }
        const int64_t sent = sender += 10;
        trace.add(0, sent, Kind::enter, "MPI_Send");
        test::Record& send = trace.add(0, sent, Kind::send);
        send.peer = 1;
        send.tag = 7;
        send.bytes = 8;
        trace.add(0, sender += 500, Kind::leave, "MPI_Send");
        const int64_t arrived = sent + 2'000;
        const int64_t pause = draw(0, 3) == 0 ? draw(30'000, 40'000) : draw(10, 9'000);
        while (true) {
            poller += pause + draw(0, pause / 20);
            if (draw(0, 5) == 0) trace.add(1, poller - 2, Kind::noise, "os:timer").ns = draw(1, pause);
            trace.add(1, poller, Kind::enter, poll);
            const bool found = poller >= arrived;
            if (!found && draw(0, 9) == 0) {  // noise in the poll
                trace.add(1, poller += 3'000, Kind::noise, "os:timer").ns = 2'900;
            }
            poller += draw(200, 400);
            test::Record record;
            record.time = poller;
            record.request = message;
            record.kind = found ? Kind::irecv : Kind::request_test;
            record.tag = 7;
            record.bytes = found ? 8 : 0;
            if (!probes) trace.records[1].push_back(record);
            test::Record& leave = trace.add(1, poller, Kind::leave, poll);
            if (!found) continue;
            if (probes) {
                leave.tag = 7;
                leave.posted = true;
                trace.add(1, poller += 20, Kind::enter, "MPI_Recv");
                test::Record& received = trace.add(1, poller += 300, Kind::recv);
                received.tag = 7;
                received.bytes = 8;
                trace.add(1, poller, Kind::leave, "MPI_Recv");
            }
            break;
        }
    }
    const int64_t end = std::max(sender, poller) + 1'000;
    trace.add(0, end, Kind::leave, "main");
    trace.add(1, end, Kind::leave, "main");
    return trace;
}

// As the tracer does: Enter of the first, Leave of the last, nothing between; noise and longer gaps end it. Returns how many it merged.
size_t merge_polls(test::TraceSpec& trace) {
    size_t merged = 0;
    std::vector<test::Record> out;
    bool open = false;  // the last of `out` is the Leave of a failing poll
    const std::vector<test::Record> records = trace.records[1];
    for (size_t i = 0; i < records.size(); ++i) {
        const bool polls = records[i].kind == Kind::enter && (records[i].name == "MPI_Test" || records[i].name == "MPI_Iprobe");
        size_t leave = i;
        bool plain = polls;
        while (polls && records[leave].kind != Kind::leave) {
            plain = plain && records[leave].kind != Kind::noise && records[leave].kind != Kind::irecv;
            ++leave;
        }
        const bool failed = plain && !records[leave].posted;
        if (failed && open && records[i].time - out.back().time <= most_gap_ns) {
            test::Record& run = out.back();
            run.polls = std::max(run.polls, 1u) + 1;
            run.last_poll = static_cast<uint64_t>(records[leave].time - records[i].time);
            run.poll_gap = std::max(run.poll_gap, static_cast<uint64_t>(records[i].time - run.time));
            run.time = records[leave].time;
            ++merged;
            i = leave;
            continue;
        }
        open = false;
        if (!polls) {
            out.push_back(records[i]);
            continue;
        }
        open = !records[leave].posted && std::none_of(records.begin() + static_cast<long>(i), records.begin() + static_cast<long>(leave),
                                                      [](const test::Record& r) { return r.kind == Kind::irecv; });
        for (; i < leave; ++i) out.push_back(records[i]);
        out.push_back(records[leave]);
        out.back().last_poll = 0;
    }
    trace.records[1] = out;
    return merged;
}

std::vector<int64_t> answer(const test::TraceSpec& trace, const replay::Faults& faults) {
    const test::TemporaryDirectory directory;
    test::write_trace(trace, directory.path("t"));
    replay::Options options;
    options.trace = directory.path("t");
    replay::Hooks hooks;
    hooks.faults = faults;
    const replay::Result result = replay::replay_with(options, hooks);
    std::vector<int64_t> out = {result.approximated_ns, result.bounds_low_ns, result.bounds_high_ns, result.conditional};
    for (const auto& rank : result.per_rank) out.push_back(rank.accumulated_noise_ns);
    return out;
}

}  // namespace

TEST_CASE("polls in a row have one answer, recorded one by one or as one call") {
    size_t merged = 0, differ = 0;
    for (uint64_t seed = 1; seed <= 60; ++seed) {
        CAPTURE(seed);
        const test::TraceSpec each = polling_program(seed);
        test::TraceSpec runs = each;
        merged += merge_polls(runs);
        const std::vector<int64_t> expected = answer(each, {});
        CHECK(answer(runs, {}) == expected);
        differ += answer(runs, {.runs_are_polls = true}) != expected;
    }
    CHECK(merged > 600);
    CHECK(differ > 5);
}
