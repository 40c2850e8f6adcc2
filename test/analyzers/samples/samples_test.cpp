// SPDX-License-Identifier: BSD-3-Clause
// Statistics and histograms whose answers were computed by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "analyzers/samples/json.hpp"

using namespace polter::samples;

TEST_CASE("median, MAD, quantiles") {
    CHECK(median(std::vector<double>{4, 1, 3, 2}) == 2.5);
    CHECK(median(std::vector<int64_t>{7, 1, 3}) == 3);
    CHECK(median(std::vector<int64_t>{1, 4}) == 2);
    CHECK(mad({1, 1, 2, 2, 4, 6, 9}, 2) == 1);         // distances 1 1 0 0 2 4 7
    CHECK(mad({100, 110, 120, 100, 510}, 110) == 10);  // 10 0 10 10 400
    CHECK(quantile({1, 2, 3, 4}, 0.25) == 1.75);
    CHECK(quantile({1, 2, 3, 4}, 0) == 1);
    CHECK(quantile({1, 2, 3, 4}, 1) == 4);
    CHECK(quantile({5}, 0.3) == 5);
}

TEST_CASE("the interval of a median of ten has the second and the ninth: 97.9 % of the binomial distribution") {
    const auto interval = quantile_interval({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 0.5);
    CHECK(interval.low == 2);
    CHECK(interval.high == 9);
    const auto few = quantile_interval({1, 2, 3}, 0.5);  // too few for the level: the extremes
    CHECK(few.low == 1);
    CHECK(few.high == 3);
}

TEST_CASE("the interval of a quantile holds it as often as it says") {
    std::mt19937_64 random(11);
    std::exponential_distribution<double> draw(1);
    int inside = 0;
    constexpr int trials = 400;
    for (int t = 0; t < trials; ++t) {
        std::vector<double> values(200);
        for (double& value : values) value = draw(random);
        std::sort(values.begin(), values.end());
        const auto interval = quantile_interval(values, 0.9);
        const double truth = -std::log(0.1);
        inside += interval.low <= truth && truth <= interval.high;
    }
    CHECK(inside >= 0.93 * trials);
    CHECK(inside <= 0.995 * trials);  // an interval that holds everything says nothing
}

TEST_CASE("the bootstrap by block knows that samples of a block are not independent") {
    std::mt19937_64 random(5);
    std::normal_distribution<double> draw(0, 1);
    Blocks blocks, single;
    for (int b = 0; b < 20; ++b) {
        const double level = draw(random);
        blocks.push_back(std::vector<double>(50, level));
        for (int i = 0; i < 50; ++i) single.push_back({level});
    }
    const auto mean = [](const std::vector<double>& values) {
        double sum = 0;
        for (const double value : values) sum += value;
        return sum / static_cast<double>(values.size());
    };
    const auto by_block = bootstrap(blocks, mean, 1, 400), by_sample = bootstrap(single, mean, 1, 400);
    CHECK(by_block.high - by_block.low > 4 * (by_sample.high - by_sample.low));  // about the root of 50
    const auto again = bootstrap(blocks, mean, 1, 400);
    CHECK(again.low == by_block.low);
    CHECK(again.high == by_block.high);
    CHECK(bootstrap(blocks, mean, 2, 400).low != by_block.low);
    const auto difference = bootstrap_difference(blocks, blocks, mean, 1, 400);
    CHECK(difference.low < 0);
    CHECK(difference.high > 0);
}

TEST_CASE("bands and distances of distributions") {
    CHECK(dkw_band(1000) == doctest::Approx(0.0429469).epsilon(1e-5));
    CHECK(ks_distance({1, 2, 3}, {2, 3, 4}) == doctest::Approx(1.0 / 3));
    CHECK(ks_distance({1, 1, 1}, {1, 1}) == 0);
    CHECK(ks_distance({1, 2}, {3, 4}) == 1);
    CHECK(ks_critical(100, 100) == doctest::Approx(0.19206).epsilon(1e-4));
}

TEST_CASE("what is no sample is refused, with a reason") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    CHECK_THROWS_WITH_AS(median(std::vector<double>{}), doctest::Contains("no samples"), Error);
    CHECK_THROWS_WITH_AS(median(std::vector<double>{1, nan}), doctest::Contains("is no number"), Error);
    CHECK_THROWS_AS(mad({nan}, 0), Error);
    CHECK_THROWS_AS(quantile({}, 0.5), Error);
    CHECK_THROWS_AS(dkw_band(0), Error);
    CHECK_THROWS_AS(ks_distance({}, {1}), Error);
    CHECK_THROWS_AS(Histogram().add(nan), Error);
    CHECK_THROWS_AS(Histogram({50, 10, 100}), Error);
    Histogram other({50, 1e9, 500}), usual;
    CHECK_THROWS_AS(usual.merge(other), Error);
    CHECK_THROWS_AS(usual.add_bin(1000, 1), Error);
}

TEST_CASE("bins are those of the original program") {
    const Bins bins;
    CHECK(bins.per_e() == doctest::Approx(59.484).epsilon(1e-5));  // 1000 / ln(1 s / 50 ns)
    CHECK(bins.begin(0) == 0);
    CHECK(bins.begin(1) == doctest::Approx(50 * 1.01695).epsilon(1e-4));
    CHECK(bins.begin(1000) == doctest::Approx(1e9));
    CHECK(bins.bin(0) == 0);
    CHECK(bins.bin(50.8) == 0);
    CHECK(bins.bin(50.9) == 1);
    CHECK(bins.bin(1e9) == 999);
    for (uint32_t b = 0; b < bins.count; ++b) {
        CHECK(bins.bin(bins.begin(b)) == b);
        CHECK(bins.bin(bins.begin(b) * 0.999999 + bins.begin(b + 1) * 0.000001) == b);
        CHECK(bins.bin(bins.begin(b + 1) * 0.9999999) == b);
    }
}

TEST_CASE("a histogram's figures") {
    Histogram h;
    for (const double value : {-3.0, 100.0, 100.0, 100.0, 300.0, 2e9}) h.add(value);
    CHECK(h.samples() == 6);
    CHECK(h.clamped == 1);
    CHECK(h.above == 1);
    CHECK(h.least() == 0);
    CHECK(h.most() == 2e9);
    CHECK(h.mean() == doctest::Approx((600 + 2e9) / 6));
    double mass = 0;
    for (uint32_t b = 0; b < h.bins().count; ++b) mass += h.density(b) * (h.bins().begin(b + 1) - h.bins().begin(b));
    CHECK(mass == doctest::Approx(1));
    CHECK(h.cumulative(h.bins().bin(100)) == doctest::Approx(4.0 / 6));
    CHECK(h.cumulative(999) == 1);
    CHECK(h.quantile(0.5) == doctest::Approx(100).epsilon(0.02));

    Histogram moments;
    for (const double value : {100.0, 100.0, 100.0, 300.0}) moments.add(value);
    const Moments m = moments.moments(moments.least());
    CHECK(m.first == 50);                                      // exact: (0 + 0 + 0 + 200) / 4
    CHECK(m.second == doctest::Approx(10'000).epsilon(0.03));  // 200 squared / 4
    CHECK(m.third == doctest::Approx(2'000'000).epsilon(0.05));
}

TEST_CASE("the mode is that of the density, not of the fullest bin") {
    Histogram h;
    for (int i = 0; i < 100; ++i) h.add(1'000);    // a bin of 17 ns
    for (int i = 0; i < 110; ++i) h.add(100'000);  // a bin of 1.7 us
    CHECK(h.mode() == doctest::Approx(1'000).epsilon(0.02));
}

TEST_CASE("peaks: centres within a bin, shares exact") {
    std::mt19937_64 random(3);
    std::normal_distribution<double> draw(1, 0.02);
    Histogram h;
    for (const auto& [centre, count] : {std::pair{4'600.0, 5'000}, {5'700.0, 3'000}, {7'500.0, 2'000}})
        for (int i = 0; i < count; ++i) h.add(centre * draw(random));
    h.add(90'000);  // below 1 %: no peak
    const auto peaks = h.peaks();
    REQUIRE(peaks.size() == 3);
    for (size_t i = 0; i < 3; ++i) {
        const double truth[] = {4'600, 5'700, 7'500}, share[] = {0.5, 0.3, 0.2};
        CHECK(peaks[i].centre == doctest::Approx(truth[i]).epsilon(0.03));
        CHECK(peaks[i].share == doctest::Approx(share[i]).epsilon(0.01));
    }
    Histogram smooth;  // one wide hill is one peak
    std::normal_distribution<double> wide(10'000, 2'000);
    for (int i = 0; i < 100'000; ++i) smooth.add(wide(random));
    CHECK(smooth.peaks().size() == 1);
    Histogram equal;
    for (int i = 0; i < 10; ++i) equal.add(777);
    REQUIRE(equal.peaks().size() == 1);
    CHECK(equal.peaks().front().share == 1);
    CHECK(equal.peaks().front().centre == 777);
    CHECK(Histogram().peaks().empty());
}

TEST_CASE("a histogram is the same however its samples were distributed") {
    std::mt19937_64 random(9);
    std::lognormal_distribution<double> draw(8, 1);
    Histogram whole, parts[3];
    for (int i = 0; i < 3'000; ++i) {
        const double value = std::round(draw(random));
        whole.add(value);
        parts[i % 3].add(value);
    }
    Histogram sum;
    for (const Histogram& part : parts) sum.merge(part);
    CHECK(to_json(sum) == to_json(whole));
    const Histogram read = histogram_from(to_json(whole));
    CHECK(to_json(read) == to_json(whole));
    auto damaged = to_json(whole);
    damaged["samples"] = 1;
    CHECK_THROWS_AS(histogram_from(damaged), Error);
    damaged.erase("counts");
    CHECK_THROWS_AS(histogram_from(damaged), Error);
}

TEST_CASE("the form of a value") {
    const auto out = to_json(Quantity{1.5, "ns", Interval{1, 2}, 0.95, 7});
    CHECK(out.at("value") == 1.5);
    CHECK(out.at("unit") == "ns");
    CHECK(out.at("interval") == nlohmann::json({1.0, 2.0}));
    CHECK(out.at("level") == 0.95);
    CHECK(out.at("samples") == 7);
    CHECK(to_json(Quantity{std::nan(""), "ns"}).at("value").is_null());
    Series series{"latency", "ns", {}, {{1, 0, 0, 1}, {2, 0, 0, 0}, {3, 0, 0, 1}}};
    CHECK(series.blocks() == Blocks{{2}, {1, 3}});
    CHECK(series.values() == std::vector<double>{1, 2, 3});
}
