// SPDX-License-Identifier: BSD-3-Clause
// Events that the first pass keeps for those behind it: the result is that of passes that all read the archive, whatever there is room for.
#include "replay/engine/reading/kept_events.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "../support/habits.hpp"
#include "../support/micro_parse.hpp"
#include "../support/process_group.hpp"
#include "../support/random_program.hpp"
#include "replay/testing.hpp"

using namespace polter;

namespace {

constexpr uint64_t nothing = 0, whole = uint64_t{1} << 30;

std::string answer(const std::string& trace, uint64_t keep_bytes, const replay::Hooks& hooks = {}, replay::Group* group = nullptr) {
    replay::Options options;
    options.trace = trace;
    options.keep_bytes = keep_bytes;
    options.group = group;
    options.attribution = group == nullptr;
    const replay::Result result = replay::replay_with(options, hooks);
    return replay::to_json(result).dump(1) + replay::model_to_json(result.model).dump(1);
}

uint64_t event_bytes(const std::string& trace) {
    uint64_t sum = 0;
    for (const auto& file : std::filesystem::recursive_directory_iterator(trace))
        if (file.path().extension() == ".evt") sum += file.file_size();
    return sum;
}

// How many limits give another answer than reading the archive in each pass: all whole, and such that the room ends within a location.
int differences(const test::TraceSpec& spec, const replay::Hooks& hooks = {}) {
    const test::TemporaryDirectory directory;
    const std::string trace = directory.path("t");
    test::write_trace(spec, trace);
    const std::string read = answer(trace, nothing);
    int count = 0;
    for (const uint64_t room : {whole, event_bytes(trace) / 2, event_bytes(trace) / 5, uint64_t{300}})
        count += answer(trace, room, hooks) != read;
    return count;
}

}  // namespace

TEST_CASE("what is kept comes back as it was") {
    std::mt19937_64 random(1);
    const auto number = [&] { return random() >> random() % 64; };
    const auto small = [&] { return static_cast<uint32_t>(number()); };
    const auto flag = [&] { return random() % 2 == 0; };
    for (const uint64_t room : {uint64_t{600}, uint64_t{20'000}, whole}) {
        std::vector<replay::Operation> operations;
        std::vector<replay::LeaveFacts> leaves;
        std::vector<replay::MetricFacts> metrics;
        std::vector<std::pair<uint64_t, uint64_t>> places;
        replay::KeptLocation kept;
        kept.allow(room);
        uint64_t ticks = 5, record = 0;
        replay::MetricFacts metric;
        for (int i = 0; i < 3000; ++i) {
            ticks = i % 100 == 99 ? ticks - ticks / 3 : ticks + (number() >> 20);
            record += i % 50 == 49 ? 3 : 1;
            places.emplace_back(ticks, record);
            if (i % 3 == 0) {
                replay::Operation& o = operations.emplace_back(replay::Operation{.kind = static_cast<replay::Operation::Kind>(i % 22)});
                o.mode = static_cast<replay::SendMode>(random() % 4);
                o.collective = static_cast<uint8_t>(small());
                o.posted_known = flag(), o.wildcard = flag(), o.any_source = flag(), o.synchronises = flag();
                o.comm = small(), o.peer = small(), o.tag = small(), o.partitioned = small();
                o.size = number(), o.request = number(), o.part = number(), o.whole = number();
                kept.operation(ticks, record, o);
            } else if (i % 3 == 1) {
                replay::LeaveFacts& facts = leaves.emplace_back();
                facts.polls = flag() ? small() : 0;
                if (facts.polls > 0) facts.last_poll = number(), facts.poll_gap = number();
                facts.names_comm = flag();
                facts.names_message = facts.names_comm && flag();
                if (facts.names_comm) facts.comm = small();
                if (facts.names_message) facts.any = 3, facts.source = small(), facts.tag = small(), facts.partitioned = small();
                kept.leave(ticks, record, small(), facts);
            } else {
                if (i % 30 == 2) {
                    metric.metric = small() - 1;
                    metric.types.assign(1 + random() % 20, OTF2_TYPE_UINT64);
                    metric.values.assign(metric.types.size(), {.unsigned_int = 0});
                }
                metric.culprit = small();
                metric.ago = number();
                for (auto& value : metric.values)
                    if (flag()) value.unsigned_int += number() - number();
                kept.metric(ticks, record, metric.metric, metric.types, metric.values.data(), metric.culprit, metric.ago);
                metrics.push_back(metric);
            }
        }
        kept.close(record);
        CHECK(kept.complete() == (room == whole));
        for (int again = 0; again < 2; ++again) {
            kept.rewind(0);
            size_t at = 0;
            for (; kept.more(); ++at) {
                const replay::KeptLocation::Head head = kept.next();
                REQUIRE(head.ticks == places[at].first);
                REQUIRE(head.record == places[at].second);
                if (at % 3 == 0) {
                    replay::Operation o{};
                    kept.operation(head.kind, o);
                    const replay::Operation& was = operations[at / 3];
                    REQUIRE(std::tuple(o.kind, o.mode, o.collective, o.posted_known, o.wildcard, o.any_source, o.synchronises, o.comm) ==
                            std::tuple(was.kind, was.mode, was.collective, was.posted_known, was.wildcard, was.any_source, was.synchronises,
                                       was.comm));
                    REQUIRE(std::tuple(o.peer, o.tag, o.partitioned, o.size, o.request, o.part, o.whole) ==
                            std::tuple(was.peer, was.tag, was.partitioned, was.size, was.request, was.part, was.whole));
                } else if (at % 3 == 1) {
                    kept.number();
                    const replay::LeaveFacts facts = kept.leave_facts(), &was = leaves[at / 3];
                    REQUIRE(std::tuple(facts.polls, facts.last_poll, facts.poll_gap, facts.names_comm, facts.names_message) ==
                            std::tuple(was.polls, was.last_poll, was.poll_gap, was.names_comm, was.names_message));
                    REQUIRE(std::tuple(facts.any, facts.comm, facts.source, facts.tag, facts.partitioned) ==
                            std::tuple(was.any, was.comm, was.source, was.tag, was.partitioned));
                } else {
                    const replay::MetricFacts &facts = kept.metric(head.kind), &was = metrics[at / 3];
                    REQUIRE(std::tuple(facts.metric, facts.culprit, facts.ago, facts.types) ==
                            std::tuple(was.metric, was.culprit, was.ago, was.types));
                    REQUIRE(std::equal(facts.values.begin(), facts.values.end(), was.values.begin(), was.values.end(),
                                       [](const auto& a, const auto& b) { return a.unsigned_int == b.unsigned_int; }));
                }
            }
            CHECK(at > 0);
            CHECK((at == places.size()) == (room == whole));
            CHECK(kept.behind() == places[at - 1].second);
            CHECK(kept.records() == places[at - 1].second);
        }
    }
}

TEST_CASE("random programs: the same answer, whatever is kept") {
    int lost = 0;
    for (uint64_t seed = 1; seed <= test::programs_of(24); ++seed) {
        CAPTURE(seed);
        test::TraceSpec trace = test::mixed_program(seed).trace;
        if (seed % 4 == 0) trace.records[seed % trace.ranks()].resize(trace.records[seed % trace.ranks()].size() / 2);
        CHECK(differences(trace) == 0);
        if (seed > 4) continue;
        replay::Hooks hooks;
        hooks.faults = {.lose_at_limit = true};
        lost += differences(trace, hooks);
    }
    CHECK(lost > 0);
}

TEST_CASE("recorders' habits, and the traces computed by hand") {
    for (const auto& habit : test::habits()) {
        CAPTURE(habit.name);
        test::TraceSpec trace = test::mixed_program(5).trace;
        habit.rewrite(trace);
        CHECK(differences(trace) == 0);
    }
    for (const auto& entry : std::filesystem::directory_iterator(POLTER_MICRO_TRACES)) {
        if (entry.path().extension() != ".txt") continue;
        CAPTURE(entry.path().filename().string());
        CHECK(differences(test::parse_micro(entry.path().string()).trace) == 0);
    }
}

TEST_CASE("several processes, each with room for a part of its locations") {
    for (uint64_t seed = 1; seed <= 8; ++seed) {
        CAPTURE(seed);
        const test::TemporaryDirectory directory;
        const std::string trace = directory.path("t");
        test::write_trace(test::mixed_program(seed).trace, trace);
        const auto together = [&](uint64_t keep_bytes) {
            return test::together(3, seed, [&](replay::Group& group) { return answer(trace, keep_bytes, {}, &group); });
        };
        const std::vector<std::string> read = together(nothing);
        CHECK(read[0].starts_with("{"));
        CHECK(together(whole) == read);
        CHECK(together(event_bytes(trace) / 6) == read);
    }
}
