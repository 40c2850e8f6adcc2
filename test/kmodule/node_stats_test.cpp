// SPDX-License-Identifier: BSD-3-Clause
// Histograms against the sorted values; sums by source and culprit; the books of the loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "loops.hpp"
#include "noise.h"
#include "output.hpp"
#include "summary.hpp"
#include "text.hpp"
#include "watch.hpp"

using namespace polter;

TEST_CASE("each value lies in its bin, whose bounds follow one another") {
    for (polter_u32 bin = 0; bin + 1 < POLTER_BINS; bin++) {
        const auto lower = polter_bin_lower(bin), upper = polter_bin_lower(bin + 1);
        REQUIRE(lower < upper);
        CHECK(polter_bin_of(lower) == bin);
        CHECK(polter_bin_of(upper - 1) == bin);
        CHECK(static_cast<double>(upper - lower) <= 0.25 * static_cast<double>(lower) + 1);
    }
    CHECK(polter_bin_lower(POLTER_BINS - 1) > 1'000'000'000'000u);  // a thousand seconds
    CHECK(polter_bin_of(~0ull) == POLTER_BINS - 1);
}

TEST_CASE("percentiles are within 12.5 % of the sorted values', the rest is exact") {
    std::mt19937_64 random(4711);
    const std::vector<std::function<double()>> sources = {
        [&] { return std::lognormal_distribution<>(8, 2)(random); },
        [&] { return std::uniform_real_distribution<>(0, 1e6)(random); },
        [&] { return std::exponential_distribution<>(1e-3)(random); },
        [&] { return random() % 100 ? 1500.0 : 3e9; },
        [&] { return static_cast<double>(random() % 5); },
    };
    for (std::size_t k = 0; k < sources.size(); k++)
        for (const std::size_t n : {1u, 2u, 10u, 99u, 1000u, 20000u}) {
            CAPTURE(k);
            CAPTURE(n);
            node::Stats stats, other;
            std::vector<std::uint64_t> values;
            for (std::size_t i = 0; i < n; i++) {
                values.push_back(static_cast<std::uint64_t>(sources[k]()));
                (i % 3 ? stats : other).add(values.back());
            }
            stats += other;
            std::sort(values.begin(), values.end());
            std::uint64_t total = 0;
            for (const auto v : values) total += v;
            CHECK(stats.count == n);
            CHECK(stats.total_ns == total);
            CHECK(stats.max_ns == values.back());
            CHECK(stats.mean_ns() == total / n);
            for (const double part : {0.01, 0.5, 0.9, 0.99, 1.0}) {
                CAPTURE(part);
                const auto rank = std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(part * static_cast<double>(n))));
                const auto exact = static_cast<double>(values[rank - 1]), found = static_cast<double>(stats.percentile_ns(part));
                CHECK(std::fabs(found - exact) <= 0.125 * exact);
            }
        }
    CHECK(node::Stats{}.percentile_ns(0.5) == 0);
}

TEST_CASE("a later state less an earlier one") {
    node::Stats early, late, part;
    for (const std::uint64_t ns : {100u, 5000u}) early.add(ns), late.add(ns);
    for (const std::uint64_t ns : {700u, 710u}) late.add(ns), part.add(ns);
    const auto since = late.since(early);
    CHECK(since.count == 2);
    CHECK(since.total_ns == 1410);
    CHECK(since.bin == part.bin);
    CHECK(since.max_ns >= 710);
    CHECK(since.max_ns < 5000);
    late.add(9000);
    CHECK(late.since(early).max_ns == 9000);
}

namespace {

node::Stats stats_of(std::initializer_list<std::uint64_t> values) {
    node::Stats s;
    for (const auto v : values) s.add(v);
    return s;
}

node::Observation example() {
    node::Observation o;
    o.cpus = {{0, 1000, 1'001'000, 0}, {1, 2000, 1'002'000, 10'000'000}};
    o.accounts_seen = (1u << POLTER_ACCOUNTS) - 1;
    o.entries = {
        {0, POLTER_TIMER, false, "local_timer", stats_of({1000, 2000})},
        {0, POLTER_TIMER, true, "local_timer", stats_of({3000})},
        {1, POLTER_TIMER, true, "local_timer", stats_of({4000})},
        {1, POLTER_SOFTIRQ, false, "RCU", stats_of({10})},
        {1, POLTER_SOFTIRQ, false, "SCHED", stats_of({100})},
        {0, POLTER_PREEMPT, false, "work:flush_it", stats_of({50'000})},
        {0, node::ran, true, "", stats_of({600'000})},
        {0, node::ran, false, "app", stats_of({200'000, 100'000})},
    };
    return o;
}

}  // namespace

TEST_CASE("an observation adds up by source, by culprit, by CPU") {
    const auto o = example();
    const auto all = node::sources_of(o);
    REQUIRE(all.size() == 4);
    CHECK(all[0].account == POLTER_TIMER);
    CHECK(all[0].all.count == 4);
    CHECK(all[0].all.total_ns == 10'000);
    CHECK(all[0].idle.count == 2);
    CHECK(all[0].idle.total_ns == 7000);
    CHECK(all[0].culprits.size() == 1);
    REQUIRE(all[1].culprits.size() == 2);
    CHECK(all[1].culprits[0].name == "SCHED");  // more time
    CHECK(all[3].account == node::ran);
    CHECK(all[3].all.total_ns == 300'000);  // without idle
    const auto first = node::sources_of(o, 0u);
    REQUIRE(first.size() == 3);
    CHECK(first[0].all.count == 3);
    CHECK(node::times_of(o).wall_ns == 2'000'000);
    CHECK(node::times_of(o).idle_ns == 600'000);
    CHECK(node::times_of(o, 1u).idle_ns == 0);
    CHECK(node::times_of(o, 1u).steal_ns == 10'000'000);

    const auto json = node::to_json(o, "test");
    CHECK(json["schema"] == "polter.noise/1");
    CHECK(json["sources"]["timer"]["count"] == 4);
    CHECK(json["sources"]["timer"]["histogram"].size() == 4);
    CHECK(json["sources"]["preempt"]["culprits"][0]["name"] == "work:flush_it");
    CHECK(json["per_cpu"][1]["sources"]["timer"]["total_ns"] == 4000);
    CHECK(json["ran"]["culprits"][0]["total_ns"] == 300'000);
    CHECK(json["warnings"].empty());
    const auto text = node::to_text(o, "test", {5, true, true});
    for (const char* part : {"timer", "local_timer", "RCU", "work:flush_it", "app", "By CPU", "idle 30.0 %", "70.0 %"}) {
        CAPTURE(part);
        CHECK(text.find(part) != std::string::npos);
    }
    CHECK(node::to_text(o, "test", {1, false, false}).find("(1 more)") != std::string::npos);
}

TEST_CASE("what happened between two readings") {
    const auto before = example();
    auto after = before;
    after.entries[0].stats.add(700);
    after.entries.push_back({1, POLTER_IRQ, false, "disk", stats_of({5})});
    after.cpus[0].end_ns += 500;
    const auto part = node::between(before, after);
    REQUIRE(part.entries.size() == 2);
    CHECK(part.entries[0].stats.count == 1);
    CHECK(part.entries[0].stats.total_ns == 700);
    CHECK(part.entries[1].culprit == "disk");
    CHECK(part.cpus[0].begin_ns == before.cpus[0].end_ns);
    CHECK(node::times_of(part).wall_ns == 500);
}

TEST_CASE("flaws are counted in words") {
    auto o = example();
    o.not_booked = 3;
    o.not_booked_ns = 77;
    o.unbalanced = 1;
    CHECK(node::warnings_of(o).size() == 2);
    CHECK(node::to_text(o, "test", {}).find("3 events (77 ns)") != std::string::npos);
}

TEST_CASE("durations have three digits") {
    CHECK(node::duration(0) == "0 ns");
    CHECK(node::duration(999) == "999 ns");
    CHECK(node::duration(1234) == "1.23 us");
    CHECK(node::duration(99'960) == "100 us");
    CHECK(node::duration(999'600) == "1.00 ms");
    CHECK(node::duration(12'300'000'000) == "12.3 s");
    CHECK(node::duration(123'456'000'000'000) == "123456 s");
}

namespace {

// Gives what it was told to, once.
struct Told : loops::Recorder {
    std::vector<loops::Event> next;
    std::string name() const override { return "told"; }
    bool moved() override { return !next.empty(); }
    void take(std::uint64_t, std::vector<loops::Event>& events) override {
        for (auto& e : next) events.push_back(e);
        next.clear();
    }
    std::uint64_t lost() const override { return 0; }
};

}  // namespace

TEST_CASE("events go to the detour in which they ended, as far as they lie in it; to nothing else") {
    loops::Result result;
    result.threshold_ns = 500;
    Told told;
    loops::Books books(result, told);
    const std::uint64_t t = books.begin();
    told.next = {
        {t - 5, 10, POLTER_TIMER, "aside"},       // ended before it watched
        {t + 50, 20, POLTER_TIMER, "below"},      // in a turn too short to be a detour
        {t + 1100, 300, POLTER_IRQ, "clipped"},   // began before the detour did: 100 of it lie in it
        {t + 1500, 250, POLTER_TIMER, "within"},  //
        {t + 2000, 100, POLTER_SOFTIRQ, "edge"},  // ends with it
        {t + 2001, 7, POLTER_SOFTIRQ, "beyond"},  // after it: in nobody's
    };
    books.sample(t + 1000, t + 2000);
    REQUIRE(result.samples.size() == 1);
    CHECK(result.samples[0].events == 3);
    CHECK(result.below_events == 1);
    CHECK(result.below_events_ns == 20);
    CHECK(result.aside_events == 2);
    CHECK(result.aside_events_ns == 17);
    CHECK(result.events[0].duration_ns == 100);
    result.samples[0].lost_ns = 990;
    result.samples[0].explained_ns = 450;
    const auto totals = loops::totals_of(result);
    CHECK(totals.disturbed == 1);
    CHECK(totals.unattributed_ns == 540);
    CHECK(totals.events.at({POLTER_TIMER, "within"}).total_ns == 250);
}

TEST_CASE("what is recorded beyond what a sample lost explains nothing") {
    struct Late : Told {
        void take(std::uint64_t until, std::vector<loops::Event>& events) override {
            events.push_back({until, 1'000'000'000, POLTER_PREEMPT, "unknown"});
        }
    } late;
    // Each event is longer than the quantum that it ends in.
    for (const auto kind : {loops::Kind::fwq, loops::Kind::ftq}) {
        const auto result = loops::run({kind, 0.02, 1'000'000, 0}, late);
        REQUIRE(!result.samples.empty());
        const auto totals = loops::totals_of(result);
        CHECK(totals.explained_ns == totals.lost_ns);
        CHECK(totals.unattributed_ns == 0);
        CHECK(result.beyond_ns > 0);
        std::uint64_t within = 0;
        for (const auto& s : result.samples) within += s.end_ns - s.begin_ns;
        std::uint64_t recorded = 0;
        for (const auto& e : result.events) recorded += e.duration_ns;
        CHECK(recorded <= within);  // as far as it lies in the samples
    }
}

TEST_CASE("a sample is explained by what was recorded in it, and by no more") {
    struct Small : Told {
        void take(std::uint64_t until, std::vector<loops::Event>& events) override { events.push_back({until, 50, POLTER_TIMER, "small"}); }
    } small;
    for (const auto kind : {loops::Kind::fwq, loops::Kind::ftq, loops::Kind::selfish}) {
        CAPTURE(loops::name_of(kind));
        const auto result = loops::run({kind, 0.05, 500'000, 0}, small);
        for (const auto& s : result.samples) {
            REQUIRE(s.events == 1);
            CHECK(s.explained_ns == std::min<std::uint64_t>(50, s.lost_ns));
        }
    }
}

TEST_CASE("a loop without events: all that it lost is unattributed") {
    for (const auto kind : {loops::Kind::fwq, loops::Kind::ftq, loops::Kind::selfish}) {
        const auto none = loops::no_recorder();
        const auto result = loops::run({kind, 0.05, 1'000'000, 0}, *none);
        const auto totals = loops::totals_of(result);
        CAPTURE(loops::name_of(kind));
        CHECK(totals.explained_ns == 0);
        CHECK(totals.unattributed_ns == totals.lost_ns);
        CHECK(totals.without_event == totals.disturbed);
        std::uint64_t last = result.begin_ns;
        for (const auto& s : result.samples) {
            CHECK(s.begin_ns >= last);
            CHECK(s.lost_ns <= s.end_ns - s.begin_ns);
            last = s.end_ns;
        }
        CHECK(last <= result.end_ns);
        const auto json = loops::to_json(result);
        CHECK(json["loop"] == loops::name_of(kind));
        CHECK(json["detours"].size() == totals.disturbed);
    }
}
