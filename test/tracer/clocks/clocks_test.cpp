// SPDX-License-Identifier: BSD-3-Clause
// The correction of clocks, against clocks whose truth is known.
#include <doctest/doctest.h>

#include <algorithm>

#include "simulation.hpp"

using namespace polter::clocks;

namespace {

int64_t median(std::vector<int64_t> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

}  // namespace

TEST_CASE("1000 runs: the true offset is within the bound, and no message is reversed") {
    std::vector<int64_t> errors, rivals, rtts;
    int outside = 0, outside_local = 0, reversed = 0, breaks = 0;
    for (uint64_t seed = 1; seed <= 1000; ++seed) {
        std::mt19937_64 draw(seed);
        std::uniform_real_distribution<double> unit(0, 1);
        Setup setup;
        setup.seconds = std::pow(10, -1 + 3.7 * unit(draw));  // 0.1 s to 8 min
        setup.rate = 2e-4 * (unit(draw) - 0.5);
        setup.bend = unit(draw) < 0.5 ? 0 : 1e-9 * unit(draw);
        setup.messages = unit(draw) < 0.3 ? 0 : static_cast<int>(400 * unit(draw));
        Simulation run(setup, seed);
        run.run();
        const Correction correction = run.corrected();
        breaks += static_cast<int>(correction.breaks.size());
        reversed += run.reversed(correction);
        for (int i = 0; i < 20; ++i) {
            const int64_t at = static_cast<int64_t>(run.unit() * static_cast<double>(run.over));
            const int64_t error = std::abs(run.error(correction, at));
            outside += error > correction.error_ns;
            outside_local += error > correction.error_at(run.own(at));
            if (setup.bend == 0) {
                errors.push_back(error);
                rivals.push_back(std::abs(run.rival_error(at)));
                rtts.push_back(run.least_rtt());
            }
        }
    }
    MESSAGE("median error " << median(errors) << " ns, by the rival's rule " << median(rivals) << " ns, least RTT " << median(rtts)
                            << " ns");
    CHECK(outside == 0);
    CHECK(outside_local == 0);
    CHECK(reversed == 0);
    CHECK(breaks == 0);
    CHECK(20 * median(errors) <= median(rtts));
    CHECK(median(errors) < median(rivals));
}

TEST_CASE("100 ppm over ten minutes") {
    for (const double rate : {-1e-4, 1e-4}) {
        std::vector<int64_t> errors;
        for (uint64_t seed = 1; seed <= 50; ++seed) {
            Simulation run({.seconds = 600, .rate = rate, .messages = 1000}, seed);
            run.run();
            const Correction correction = run.corrected();
            for (int i = 0; i <= 50; ++i) {
                const int64_t error = std::abs(run.error(correction, run.over / 50 * i));
                CHECK(error <= correction.error_ns);
                errors.push_back(error);
            }
            CHECK(run.reversed(correction) == 0);
        }
        MESSAGE("median " << median(errors) << " ns, largest " << *std::max_element(errors.begin(), errors.end()) << " ns");
        CHECK(*std::max_element(errors.begin(), errors.end()) <= 2000);
    }
}

TEST_CASE("exchanges go on while they narrow the interval, and no longer") {
    const auto exchanges = [](double factor) {
        Narrowing interval;
        int count = 0;
        for (double way = 1e5; !interval.enough(); way *= factor, ++count)
            interval.add(0, 5'000'000 + static_cast<int64_t>(way), 2 * static_cast<int64_t>(way));
        return count;
    };
    CHECK(exchanges(1) == Narrowing::least);
    CHECK(exchanges(0.99) < Narrowing::most);
    CHECK(exchanges(0.9) == Narrowing::most);
    // Of slow ones no more than take 5 ms together, one that was slow by chance set aside.
    const auto slow = [](int64_t way, int64_t chance) {
        Narrowing interval;
        int count = 0;
        for (; !interval.enough(); ++count) interval.add(0, way, count == 1 ? chance : 2 * way);
        return count;
    };
    CHECK(slow(450'000, 900'000) == 6);
    CHECK(slow(2'000'000, 4'000'000) == Narrowing::least_slow);
    CHECK(slow(20'000, 9'000'000) == Narrowing::least);
}

TEST_CASE("without exchanges, messages alone bound the offset") {
    Simulation run({.seconds = 5, .rate = 3e-5, .pings = false, .messages = 2000}, 7);
    run.run();
    const Correction correction = run.corrected();
    for (int i = 0; i <= 50; ++i) CHECK(std::abs(run.error(correction, run.over / 50 * i)) <= correction.error_ns);
    CHECK(correction.error_ns < 60'000);
    CHECK(run.reversed(correction) == 0);
}

TEST_CASE("a step is found, its size and time are told, and no message is reversed") {
    for (const double step : {2e5, 5e6, 1e9, -5e6}) {
        CAPTURE(step);
        Simulation run({.seconds = 20, .rate = 2e-5, .messages = 1000, .step_at = 0.4, .step_ns = step}, 11);
        run.run();
        const Correction correction = run.corrected();
        REQUIRE(correction.breaks.size() == 1);
        const Break& one = correction.breaks.front();
        // The own clock went forward, so its offset from the reference went back.
        CHECK(std::abs(static_cast<double>(one.step_ns) + step) < 1e5);
        CHECK(std::abs(static_cast<double>(one.step_ns) + step) <= static_cast<double>(one.step_error_ns));
        const int64_t at = static_cast<int64_t>(0.4 * static_cast<double>(run.length_ns()));
        CHECK(one.from <= run.own(at));
        CHECK(one.to >= run.own(at + 1) - std::abs(static_cast<int64_t>(step)));
        if (step > 0) {  // a clock that went back gave some times twice
            CHECK(run.reversed(correction) == 0);
            for (int i = 0; i <= 200; ++i) {
                const int64_t when = run.over / 200 * i;
                CHECK(std::abs(run.error(correction, when)) <= correction.error_at(run.own(when)));
            }
        }
    }
}

TEST_CASE("a clock that is slewed for a while has two changes of its rate and no step") {
    // 500 ppm more from a third of the run on.
    Simulation before({.seconds = 30, .rate = 0, .messages = 3000}, 3);
    before.run();
    Constraints constraints(before.own(0), before.own(before.over));
    const int64_t from = before.length_ns() / 3;
    const auto slewed = [&](int64_t at) { return before.own(at) + (at > from ? (at - from) / 2000 : 0); };
    std::mt19937_64 draw(5);
    for (int i = 0; i < 4000; ++i) {
        const int64_t at = static_cast<int64_t>(before.unit() * static_cast<double>(before.length_ns()));
        const int64_t later = at + 12'000 + static_cast<int64_t>(40'000 * -std::log(1 - before.unit()));
        if (i % 2)
            constraints.to_reference(slewed(at), before.reference(later));
        else
            constraints.from_reference(before.reference(at), slewed(later));
    }
    const Correction correction = fit(constraints, slewed(0), slewed(before.over));
    REQUIRE(correction.breaks.size() == 1);
    CHECK(correction.breaks.front().step_ns == 0);
    CHECK(correction.breaks.front().rate_change < -4e-4);
    for (int i = 0; i <= 100; ++i) {
        const int64_t at = before.length_ns() / 100 * i;
        CHECK(std::abs(slewed(at) + correction.at(slewed(at)) - before.reference(at)) <= correction.error_at(slewed(at)));
    }
}

TEST_CASE("corrected times never go back") {
    for (const double step : {2e5, 5e6}) {
        Simulation run({.seconds = 5, .rate = -9e-5, .bend = 1e-9, .messages = 500, .step_at = 0.5, .step_ns = step}, 13);
        run.run();
        const Correction correction = run.corrected();
        for (size_t i = 0; i + 1 < correction.knots.size(); ++i) {
            const Knot &a = correction.knots[i], &b = correction.knots[i + 1];
            CHECK(b.time > a.time);
            CHECK(b.time + b.offset >= a.time + a.offset);
        }
    }
}

TEST_CASE("memory does not grow with the messages, and the hull keeps what it needs") {
    Constraints constraints(0, 1'000'000'000);
    std::mt19937_64 draw(1);
    std::vector<Point> all;
    for (int i = 0; i < 1'000'000; ++i) {
        const auto time = static_cast<int64_t>(draw() % 1'000'000'000);
        const Point point{time, time / 10'000 + static_cast<int64_t>(draw() % 100'000), true};
        constraints.add(point);
        constraints.add({point.time, point.offset - 150'000, false});
        if (i % 100 == 0) all.push_back(point);
    }
    CHECK(constraints.count() == 2'000'000);
    CHECK(constraints.points().size() < 20'000);
    const Correction correction = fit(constraints, 0, 1'000'000'000);
    for (const Point& point : all) CHECK(correction.at(point.time) <= point.offset);
}

TEST_CASE("one direction alone gives no bound") {
    Constraints constraints(0, 1000);
    constraints.to_reference(10, 500);
    const Correction correction = fit(constraints, 0, 1000);
    CHECK(correction.error_ns > 1'000'000'000'000);
}
