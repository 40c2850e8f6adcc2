// SPDX-License-Identifier: BSD-3-Clause
// What collectives tell where only counters say how much noise there was, and not when it hit.
#include <doctest/doctest.h>
#include <otf2/otf2.h>

#include "instances.hpp"
#include "replay/model/model.hpp"
#include "replay/trace/mpi_calls.hpp"

using namespace polter::replay;

TEST_CASE("with counters, a fence is made as a barrier of as many members is") {
    constexpr uint32_t members = 16;
    Structure fence = dissemination;
    fence.pattern.twice = true;
    const CostClass of_barrier{CostKind::collective_tail, true, false, OTF2_COLLECTIVE_OP_BARRIER, 0};
    const CostClass of_fence{CostKind::collective_tail, true, false, operation_fence, 0};
    for (const bool fault : {false, true}) {
        CAPTURE(fault);
        Model model(Faults{.fences_apart = fault, .hit_calls_as_fitted = true});
        std::mt19937_64 random(7);
        for (uint64_t call = 0; call < 24; ++call) {
            InstanceSample quiet = measured(members, call, 0);
            quiet.noise.assign(members, {});
            std::vector<Prediction> predicted;
            predict(dissemination, quiet, &predicted);
            for (uint32_t member = 0; member < members; ++member) quiet.leave[member] = predicted[member].leave;
            model.learn_instance(of_barrier, of_barrier, members, Waits::n_to_n, {0, call}, std::move(quiet));
            InstanceSample hit = measured(members, call, 0, fence);
            for (uint32_t i = 0; i < 4; ++i) {  // some of them all through the fence
                const auto member = random() % members;
                const int64_t begin = hit.enter[member];
                hit.noise[member].assign(1, {begin, begin + static_cast<int64_t>(random() % 200'000)});
            }
            predict(fence, hit, &predicted);
            for (uint32_t member = 0; member < members; ++member) hit.leave[member] = predicted[member].leave;
            model.learn_instance(of_fence, of_fence, members, Waits::n_to_n, {1, call}, std::move(hit));
        }
        model.freeze(false);
        const LearnedStructure* learned = model.structure(of_fence, members);
        REQUIRE(learned);
        const bool as_it_is = learned->structure && learned->structure->pattern == fence.pattern &&
                              std::abs(learned->structure->hop - fence.hop) < fence.hop / 20;
        CHECK(as_it_is == !fault);
    }
}

TEST_CASE("with counters, a fence is made as the barrier that fences are nearest to") {
    constexpr uint32_t members = 16;
    const Structure other{.pattern = {.up = Shape::binomial, .down = Shape::linear}, .hop = 8000, .own = 300};
    Structure fence = dissemination;
    fence.pattern.twice = true;
    const auto without_noise = [&](uint64_t call, const Structure& by) {
        InstanceSample sample = measured(members, call, 0);
        sample.noise.assign(members, {});
        std::vector<Prediction> predicted;
        predict(by, sample, &predicted);
        for (uint32_t member = 0; member < members; ++member) sample.leave[member] = predicted[member].leave;
        return sample;
    };
    for (const bool fault : {false, true}) {
        CAPTURE(fault);
        Model model(Faults{.first_barrier = fault});
        const auto learn = [&](uint8_t operation, uint64_t call, InstanceSample sample) {
            const CostClass of{CostKind::collective_tail, true, false, operation, 0};
            model.learn_instance(of, of, members, Waits::n_to_n, {operation, call}, std::move(sample));
        };
        std::mt19937_64 random(7);
        for (uint64_t call = 0; call < 24; ++call) {
            learn(operation_window_free, call, without_noise(call, other));
            learn(operation_finalize, call, without_noise(call, dissemination));
            InstanceSample hit = without_noise(call, fence);
            for (int64_t& leave : hit.leave) leave += static_cast<int64_t>(random() % 200'000);
            learn(operation_fence, call, std::move(hit));
        }
        model.freeze(false);
        const LearnedStructure* learned = model.structure({CostKind::collective_tail, true, false, operation_fence, 0}, members);
        REQUIRE(learned);
        REQUIRE(learned->structure);
        CHECK((learned->structure->pattern == fence.pattern) == !fault);
    }
}

TEST_CASE("with counters, calls that were all hit have the costs that others show, if noise explains the rest") {
    constexpr uint32_t members = 16;
    const Structure truth{.pattern = {.up = Shape::recursive_doubling}, .hop = 8000, .own = 300};
    const CostClass of_barrier{CostKind::collective_tail, true, false, OTF2_COLLECTIVE_OP_BARRIER, 0};
    const CostClass of{CostKind::collective_tail, true, false, OTF2_COLLECTIVE_OP_ALLREDUCE, 8};
    const auto learned = [&](int64_t noise, Faults faults) {
        Model model(faults);
        std::mt19937_64 random(7);
        for (uint64_t call = 0; call < 24; ++call) {
            InstanceSample quiet = measured(members, call, 0), hit = quiet;
            quiet.noise.assign(members, {});
            std::vector<Prediction> predicted;
            predict(dissemination, quiet, &predicted);
            for (uint32_t member = 0; member < members; ++member) quiet.leave[member] = predicted[member].leave;
            model.learn_instance(of_barrier, of_barrier, members, Waits::n_to_n, {0, call}, std::move(quiet));
            for (uint32_t member = 0; member < members; ++member) {
                const int64_t begin = hit.enter[member] + static_cast<int64_t>(random() % 40'000);
                hit.noise[member].assign(1, {begin, begin + 2'000 + static_cast<int64_t>(random() % 60'000)});
            }
            predict(truth, hit, &predicted);
            for (uint32_t member = 0; member < members; ++member) {
                hit.leave[member] = predicted[member].leave;
                hit.noise[member].assign(1, {hit.leave[member] - noise, hit.leave[member]});
            }
            model.learn_instance(of, of, members, Waits::n_to_n, {1, call}, std::move(hit));
        }
        model.freeze(false);
        const LearnedStructure* found = model.structure(of, members);
        REQUIRE(found);
        return found->structure && found->structure->pattern == truth.pattern && std::abs(found->structure->hop - truth.hop) < 100;
    };
    CHECK(learned(30'000, {}));
    CHECK(!learned(30'000, {.hit_calls_as_fitted = true}));
    CHECK(!learned(100, {}));  // there was not so much noise
}

TEST_CASE("with counters, rare waits tell whether a message is a rendezvous where all else is exact either way") {
    constexpr CollectiveKind prefix{.operation = OTF2_COLLECTIVE_OP_EXSCAN, .waits = Waits::prefix, .nonblocking = true, .data = 1034};
    std::vector<InstanceSample> samples;
    for (int i = 0; i < 24; ++i) {
        const bool late = i % 12 == 5;  // the second member, for whom the first one waits
        InstanceSample sample;
        sample.enter = {0, late ? 500'000 : 5'000};
        sample.resume = {200'000, late ? 700'000 : 205'000};
        sample.leave = {late ? 508'000 : 200'000, sample.resume[1]};
        sample.noise.resize(2);
        samples.push_back(std::move(sample));
    }
    CHECK(nearest(samples, prefix, Library::smpi, false, 0, 1).structure.any_rendezvous());
}
