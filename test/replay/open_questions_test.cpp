// SPDX-License-Identifier: BSD-3-Clause
// How much of a run an open question concerns and can change: the union of time intervals, and what follows for `conditional`.
#include "replay/engine/open_questions.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

namespace {

using namespace polter::replay;

constexpr int64_t first = 5'000'000'000, last = first + 4'096'000;  // parts of 1000 ns

TEST_CASE("what several ranks do at the same time counts once") {
    UnionOfTime time;
    CHECK(time.length() == 0);
    time.add(first, last, first + 1'000, first + 3'000);
    time.add(first, last, first + 1'000, first + 3'000);
    CHECK(time.length() == 2'000);
    time.add(first, last, first + 10'100, first + 10'200);
    CHECK(time.length() == 2'100);
    time.add(first, last, first - 500, first);  // outside
    time.add(first, last, last, last + 10);
    time.add(first, last, first + 20'000, first + 20'000);
    CHECK(time.length() == 2'100);
}

TEST_CASE("it is an upper limit of the union, and at most the run") {
    std::mt19937_64 engine{11};
    const auto draw = [&](int64_t most) { return static_cast<int64_t>(engine() % static_cast<uint64_t>(most)); };
    for (int round = 0; round < 50; ++round) {
        UnionOfTime time;
        std::vector<bool> covered(static_cast<size_t>(last - first));
        for (int i = 0; i < 40; ++i) {
            const int64_t begin = draw(last - first), end = std::min(last - first, begin + draw(200'000));
            time.add(first, last, first + begin, first + end);
            for (int64_t at = begin; at < end; ++at) covered[static_cast<size_t>(at)] = true;
        }
        const int64_t exact = std::count(covered.begin(), covered.end(), true);
        CHECK(time.length() >= exact);
        CHECK(time.length() <= std::min(last - first, exact + 80 * 1'000));  // two parts an interval are not whole
    }
}

TEST_CASE("processes together find what one finds") {
    UnionOfTime whole, half, other;
    for (int64_t i = 0; i < 300; ++i) {
        const int64_t begin = first + i * 13'331 % 4'000'000;
        whole.add(first, last, begin, begin + 700);
        (i % 2 ? half : other).add(first, last, begin, begin + 700);
    }
    half.merge(other.covered(), first, last);
    half.merge({}, first, last);
    CHECK(half.covered() == whole.covered());
}

TEST_CASE("what can change less than a thousandth of the run does not make it conditional") {
    Warning little = warning(Flaw::polling, 3, 0, "0 ns"), much = little;
    limit(little, {10'000'000, 999'999}, 1'000'000'000);
    limit(much, {10'000'000, 1'000'000}, 1'000'000'000);
    CHECK(any_with(Effect::conditional, {much}));
    CHECK_FALSE(any_with(Effect::conditional, {little}));
    CHECK(little.severity() == Severity::note);
    CHECK(much.severity() == kind_of(Flaw::polling).severity);
    CHECK_FALSE(little.text.starts_with("conditional"));
    CHECK(much.text.starts_with("conditional: 3 polling loops"));
    CHECK(much.text.ends_with("concerns 10.000 ms of the run and can change its length by at most 1.000 ms"));
    CHECK(much.brief.ends_with("at most 1.00 ms"));
}

}  // namespace
