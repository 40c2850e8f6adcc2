// SPDX-License-Identifier: BSD-3-Clause
// How much the leave times of a few instances must say before a structure is believed.
#include <doctest/doctest.h>
#include <otf2/otf2.h>

#include <random>

#include "replay/model/model.hpp"

namespace {

using namespace polter::replay;

constexpr Structure dissemination{.pattern = {.up = Shape::dissemination}, .hop = 8000, .own = 300};

// One instance as it is measured: members come apart, noise hits some of them inside, and what they do takes up to `jitter` longer.
InstanceSample measured(uint32_t members, uint64_t seed, int64_t jitter, const Structure& by = dissemination,
                        const Partition* partition = nullptr) {
    std::mt19937_64 random(seed);
    InstanceSample sample;
    sample.partition = partition;
    sample.noise.resize(members);
    for (uint32_t i = 0; i < members; ++i) {
        sample.enter.push_back(static_cast<int64_t>(random() % 20000));
        const int64_t hit = sample.enter[i] + 200 + static_cast<int64_t>(random() % 30000);
        if (random() % 3 == 0) sample.noise[i].push_back({hit, hit + 9000});
    }
    std::vector<Prediction> predicted;
    predict(by, sample, &predicted);
    for (const Prediction& member : predicted)
        sample.leave.push_back(member.leave + (jitter > 0 ? static_cast<int64_t>(random() % static_cast<uint64_t>(jitter)) : 0));
    return sample;
}

constexpr CollectiveKind kind{.operation = operation_init, .waits = Waits::n_to_n};  // of which no MPI's rules speak

Explanation explanation(const std::vector<InstanceSample>& samples) {
    return explain(samples, Waits::n_to_n, true, nearest(samples, kind, Library::unknown, true, 0, 1));
}

}  // namespace

TEST_CASE("what is called once has a structure if that meets all leave times") {
    size_t found = 0;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        CAPTURE(seed);
        const Explanation once = explanation({measured(16, seed, 0)});
        if (!once.found) continue;
        ++found;
        CHECK(once.found->pattern == dissemination.pattern);
        CHECK(std::abs(once.found->hop - dissemination.hop) < 100);
        CHECK(std::abs(once.found->own - dissemination.own) < 30);
        CHECK(once.found->certain);
    }
    CHECK(found >= 18);  // costs are searched for from a few starts, and one instance may lead them astray
}

TEST_CASE("of what is called once nothing is believed that comes near only; of what is called often it is") {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        CAPTURE(seed);
        const Explanation once = explanation({measured(16, seed, 1500)});
        CHECK(once.constant_error > 1500);
        CHECK(!once.found);
        CHECK(!once.likeliest);
        std::vector<InstanceSample> often;
        for (uint64_t i = 0; i < 8; ++i) often.push_back(measured(16, seed * 100 + i, 1500));
        const Explanation many = explanation(often);
        REQUIRE(many.found);
        CHECK(many.found->pattern == dissemination.pattern);
    }
}

TEST_CASE("a creation of communicators follows its groups, which differ from call to call") {
    const Structure split{.pattern = {.up = Shape::split, .down = Shape::binomial}, .hop = 8000, .own = 300};
    const std::vector<const Partition*> partitions = {interned({{0, 1, 2, 3}, {4, 5, 6, 7}}), interned({{0, 2, 4, 6}, {1, 3, 5, 7}}),
                                                      interned({{0, 7}, {1, 6}, {2, 5}, {3, 4}})};
    const CollectiveKind creation{.operation = OTF2_COLLECTIVE_OP_CREATE_HANDLE, .waits = Waits::n_to_n};
    std::vector<InstanceSample> known, unknown;
    for (uint64_t i = 0; i < partitions.size(); ++i) {
        known.push_back(measured(8, i + 1, 0, split, partitions[i]));
        unknown.push_back(known.back());
        unknown.back().partition = nullptr;
    }
    const auto found = [&](const std::vector<InstanceSample>& samples) {
        return explain(samples, Waits::n_to_n, true, nearest(samples, creation, Library::unknown, true, 0, 1)).found;
    };
    const auto by_groups = found(known), without = found(unknown);
    REQUIRE(by_groups);
    CHECK(by_groups->pattern == split.pattern);
    CHECK(by_groups->error < 100);
    CHECK((!without || without->error > 10 * by_groups->error + 100));
}

TEST_CASE("which tree broadcasts a few bytes depends on the size of a group") {
    const Structure chains{.pattern = {.up = Shape::split, .down = Shape::few_bytes_smpi}, .hop = 8000, .own = 300};
    const CollectiveKind creation{.operation = OTF2_COLLECTIVE_OP_CREATE_HANDLE, .waits = Waits::n_to_n};
    std::vector<InstanceSample> samples;
    for (const Partition& groups : {Partition{{0, 2, 4}, {1, 3, 5}}, Partition{{0, 1, 2}, {3, 4, 5}}, Partition{{0, 3, 5}, {1, 2, 4}}})
        samples.push_back(measured(6, samples.size() + 1, 0, chains, interned(groups)));
    const auto found = explain(samples, Waits::n_to_n, true, nearest(samples, creation, Library::unknown, true, 0, 1)).found;
    REQUIRE(found);
    CHECK(found->pattern.down != Shape::binomial);
    CHECK(found->error < 100);
}

TEST_CASE("sizes tell the classes of a collective apart, unless members do not agree on them") {
    const auto learned = [](bool agree) {
        Model model;
        for (const uint64_t size : {uint64_t{0}, uint64_t{64}, uint64_t{4096}}) {
            const CostClass of{CostKind::collective_tail, true, false, OTF2_COLLECTIVE_OP_GATHER | 0x100, size};
            for (uint64_t i = 0; i < 4; ++i)
                model.learn_instance(of, of, 16, Waits::n_to_one, size + i, measured(16, size + i, 0), size == 0 && !agree);
        }
        model.freeze();
        return model.learned().structures;
    };
    CHECK(learned(true).size() == 3);
    REQUIRE(learned(false).size() == 1);
    CHECK(learned(false).front().of.size == 0);
    CHECK(learned(false).front().instances == 12);
}

TEST_CASE("a handful of leave times says nothing, unless costs or algorithm are known from elsewhere") {
    const Explanation few = explanation({measured(8, 1, 0)});
    CHECK(!few.found);
    CHECK(!few.likeliest);
    const std::vector<InstanceSample> one{measured(8, 1, 0)};
    const Nearest borrowed = borrow(one, kind, Library::unknown, true, {{dissemination, 0}}, 0, 1);
    const Explanation by_costs = explain(one, Waits::n_to_n, true, {}, borrowed);
    REQUIRE(by_costs.found);
    CHECK(by_costs.found->pattern == dissemination.pattern);
    constexpr CollectiveKind barrier{.operation = 0, .waits = Waits::n_to_n};
    const Explanation by_rule = explain(one, Waits::n_to_n, true, nearest(one, barrier, Library::mpich, true, 0, 1));
    REQUIRE(by_rule.found);
    CHECK(by_rule.found->pattern == dissemination.pattern);
}
