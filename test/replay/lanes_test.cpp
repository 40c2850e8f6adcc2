// SPDX-License-Identifier: BSD-3-Clause
// The loops over lanes of every processor that this one can be: equal to what their declarations say, lane by lane.
#include "replay/scenario/lanes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace polter::replay;
using Vector = std::vector<int64_t>;

constexpr size_t lengths[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 18, 31, 33, 64, 258};

struct Values {
    std::mt19937_64 engine{7};
    Vector vector(size_t lanes) {
        Vector list(lanes);
        for (int64_t& value : list) value = one();
        return list;
    }
    // More than 32 bits, and of either sign.
    int64_t one() { return std::uniform_int_distribution<int64_t>(-(int64_t{1} << 58), int64_t{1} << 58)(engine); }
    Vector mask(size_t lanes) {
        Vector list(lanes);
        for (int64_t& value : list) value = engine() % 2 == 0 ? -1 : 0;
        return list;
    }
};

template <class Act>
void each(Act act) {
    Values values;
    REQUIRE(!lane_loops().empty());
    for (const LaneLoops& loops : lane_loops())
        for (const size_t lanes : lengths) {
            CAPTURE(loops.name);
            CAPTURE(lanes);
            act(loops, lanes, values);
        }
}

TEST_CASE("noise is removed in the lanes that remove it, and kept in the others") {
    each([](const LaneLoops& loops, size_t lanes, Values& values) {
        const Vector before = values.vector(lanes), mask = values.mask(lanes);
        const int64_t n = values.one();
        Vector removed = before, kept = before, removed_expected = before, kept_expected = before;
        for (size_t i = 0; i < lanes; ++i) (mask[i] ? removed_expected : kept_expected)[i] += n;
        loops.remove(removed.data(), mask.data(), n, lanes);
        loops.keep(kept.data(), mask.data(), n, lanes);
        CHECK(removed == removed_expected);
        CHECK(kept == kept_expected);
    });
}

TEST_CASE("the later of two times") {
    each([](const LaneLoops& loops, size_t lanes, Values& values) {
        const Vector before = values.vector(lanes), other = values.vector(lanes);
        const int64_t time = values.one();
        Vector raised = before, raised_to_time = before, raised_and_added = before, expected(lanes), added(lanes), at_time(lanes);
        for (size_t i = 0; i < lanes; ++i) {
            expected[i] = std::max(before[i], other[i]);
            added[i] = expected[i] + time;
            at_time[i] = std::max(before[i], time - other[i]);
        }
        loops.raise(raised.data(), other.data(), lanes);
        loops.raise_to_time(raised_to_time.data(), time, other.data(), lanes);
        loops.raise_and_add(raised_and_added.data(), other.data(), time, lanes);
        CHECK(raised == expected);
        CHECK(raised_and_added == added);
        CHECK(raised_to_time == at_time);
    });
}

TEST_CASE("the least of several, into a vector of its own and into that of the first") {
    each([](const LaneLoops& loops, size_t lanes, Values& values) {
        for (size_t count = 1; count <= 6; ++count) {
            CAPTURE(count);
            std::vector<Vector> delays;
            std::vector<LaneBound> bounds;
            for (size_t k = 0; k < count; ++k) delays.push_back(values.vector(lanes));
            for (const Vector& delay : delays) bounds.push_back({delay.data(), values.one()});
            Vector expected(lanes, INT64_MAX), least(lanes, -1);
            for (size_t i = 0; i < lanes; ++i)
                for (size_t k = 0; k < count; ++k) expected[i] = std::min(expected[i], delays[k][i] + bounds[k].residual);
            loops.least(least.data(), bounds.data(), count, lanes);
            CHECK(least == expected);
            loops.least(delays[0].data(), bounds.data(), count, lanes);
            CHECK(delays[0] == expected);
        }
    });
}

TEST_CASE("the best of them is used") {
    CHECK(std::string(best_lane_loops.name) == lane_loops().back().name);
    CHECK(std::string(lane_loops().front().name) == "plain");
}

}  // namespace
