// SPDX-License-Identifier: BSD-3-Clause
// A collective's messages are followed twice: while learning, for its leave times, and in the replay, in all scenarios. Both must agree.
#include <doctest/doctest.h>
#include <otf2/otf2.h>

#include <algorithm>
#include <random>
#include <vector>

#include "replay/base/pool.hpp"
#include "replay/model/algorithms/fair_link.hpp"
#include "replay/model/collective_execution.hpp"
#include "replay/model/predict_together.hpp"

namespace {

using namespace polter::replay;

// Members come apart, and noise hits some of them inside.
InstanceSample instance(uint32_t members, uint32_t root, std::mt19937_64& random) {
    InstanceSample sample;
    sample.root = root;
    sample.noise.resize(members);
    for (uint32_t i = 0; i < members; ++i) {
        sample.enter.push_back(static_cast<int64_t>(random() % 20'000));
        int64_t hit = sample.enter[i] + static_cast<int64_t>(random() % 30'000);
        for (uint64_t hits = random() % 3; hits > 0; --hits) {
            const auto length = static_cast<int64_t>(1 + random() % 9'000);
            sample.noise[i].push_back({hit, hit + length});
            hit += length + static_cast<int64_t>(random() % 5'000);
        }
    }
    return sample;
}

std::vector<int64_t> leaves(const Structure& structure, const InstanceSample& sample) {
    std::vector<Prediction> predicted;
    predict(structure, sample, &predicted);
    std::vector<int64_t> ends;
    for (const Prediction& member : predicted) ends.push_back(member.leave);
    return ends;
}

struct Ends {
    std::vector<int64_t> measured, approximated;  // by member
};

// As the replay follows it, with one lane, in which all noise is removed. `transfers`: of a fence.
Ends followed(const Structure& structure, const InstanceSample& sample, std::mt19937_64& random,
              const std::vector<MemberTransfer>& transfers = {}) {
    const auto members = static_cast<uint32_t>(sample.enter.size());
    const Lanes lanes{.count = 1, .estimates = 1, .low = 1, .high = 1, .all = 0, .masks = {{-1}}};
    LanePool pool(1);
    Instance instance;
    instance.begin(structure, members, sample.root, lanes, pool, nullptr, nullptr, sample.sizes);
    for (const MemberTransfer& one : transfers) {
        LaneVector time = pool.take();
        time[0] = one.begin;
        instance.add({one.from, one.to, one.begin, one.share, std::move(time), 0});
    }
    std::vector<uint32_t> order(members);
    for (uint32_t i = 0; i < members; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (const uint32_t member : order)
        instance.arrive({.number = member, .thread = member, .place = {}}, sample.enter[member], &sample.enter[member],
                        sample.noise[member]);
    Ends ends;
    for (uint32_t member = 0; member < members; ++member) {
        REQUIRE(instance.done(member));
        ends.measured.push_back(instance.measured_end(member));
        ends.approximated.push_back(*instance.approximated_end(member));
    }
    instance.clear();
    return ends;
}

struct Operation {
    uint8_t operation;
    Waits waits;
};

// Some member takes several messages in the order in which they come.
bool taken_as_they_come(const Structure& structure, uint32_t members, uint32_t root) {
    const auto& steps = schedule(structure.pattern, members, root, structure.any_rendezvous()).steps;
    return std::any_of(steps.begin(), steps.end(), [](const auto& of_member) {
        return std::any_of(of_member.begin(), of_member.end(), [](const Schedule::Step& step) { return step.together > 1; });
    });
}

}  // namespace

TEST_CASE("learning and the replay follow the messages of a collective to the same ends") {
    std::mt19937_64 random(1);
    size_t followed_by_link = 0;
    for (const auto [operation, waits] : {Operation{OTF2_COLLECTIVE_OP_ALLREDUCE, Waits::n_to_n},
                                          {OTF2_COLLECTIVE_OP_ALLTOALL, Waits::n_to_n},
                                          {OTF2_COLLECTIVE_OP_BCAST, Waits::one_to_n},
                                          {OTF2_COLLECTIVE_OP_GATHER, Waits::n_to_one},
                                          {OTF2_COLLECTIVE_OP_SCAN, Waits::prefix}})
        for (const uint32_t members : {2u, 3u, 5u, 8u})
            for (const Candidate& candidate : candidates({.operation = operation, .waits = waits, .data = 40'000}, members))
                for (const bool link : {false, true})
                    for (const int64_t eager_ppm : {int64_t{0}, int64_t{300'000}, Structure::all_eager}) {
                        const Structure structure{.pattern = candidate.pattern,
                                                  .hop = 8'000,
                                                  .own = 300,
                                                  .hop_data = 2'000,
                                                  .own_data = 4'000,
                                                  .eager_ppm = eager_ppm,
                                                  .link = link};
                        const uint32_t root = waits == Waits::one_to_n || waits == Waits::n_to_one ? members / 2 : 0;
                        const InstanceSample sample = instance(members, root, random);
                        InstanceSample quiet = sample;
                        for (auto& noise : quiet.noise) noise.clear();
                        const Ends ends = followed(structure, sample, random);
                        CAPTURE(to_string(candidate.pattern));
                        CAPTURE(members);
                        CAPTURE(link);
                        CAPTURE(eager_ppm);
                        CHECK(ends.measured == leaves(structure, sample));
                        const std::vector<int64_t> without = leaves(structure, quiet);
                        CHECK(ends.approximated == without);  // also where noise hit among messages that are taken as they come
                        CHECK(followed(structure, quiet, random).approximated == without);
                        followed_by_link += link && eager_ppm == 0;
                    }
    CHECK(followed_by_link > 20);
}

TEST_CASE("learning and the replay wait for the transfers of a fence alike") {
    std::mt19937_64 random(7);
    for (const Shape shape : {Shape::dissemination, Shape::everyone})
        for (const int64_t eager_ppm : {int64_t{0}, int64_t{4'000}, Structure::all_eager}) {
            const Structure fence{.pattern = {.up = shape, .twice = true},
                                  .hop = 8'000,
                                  .own = 300,
                                  .taking_data = 100'000,
                                  .hop_data = 1'000'000,
                                  .own_data = 5'000,
                                  .eager_ppm = eager_ppm};
            InstanceSample sample = instance(6, 0, random);
            std::vector<MemberTransfer> transfers;
            for (int i = 0; i < 12; ++i) {
                const auto from = static_cast<uint32_t>(random() % 6), to = (from + 1 + static_cast<uint32_t>(random() % 5)) % 6;
                const auto share = static_cast<double>(random() % 10'000) / BlockSizes::unit;
                transfers.push_back({from, to, sample.enter[from] - static_cast<int64_t>(random() % 9'000), share});
            }
            sample.transfers = awaited_transfers(transfers, 6);
            InstanceSample quiet = sample;
            for (auto& noise : quiet.noise) noise.clear();
            const Ends ends = followed(fence, sample, random, transfers);
            CAPTURE(to_string(fence.pattern));
            CAPTURE(eager_ppm);
            CHECK(ends.measured == leaves(fence, sample));
            CHECK(ends.approximated == leaves(fence, quiet));
            InstanceSample none = quiet;
            none.transfers.clear();
            CHECK(leaves(fence, quiet) != leaves(fence, none));
        }
}

TEST_CASE("learning and the replay follow v-forms to the same ends, whichever of the messages are long") {
    std::mt19937_64 random(5);
    size_t eager = 0, rendezvous = 0;
    for (const auto [operation, waits] : {Operation{OTF2_COLLECTIVE_OP_ALLGATHERV, Waits::n_to_n},
                                          {OTF2_COLLECTIVE_OP_REDUCE_SCATTER, Waits::n_to_n},
                                          {OTF2_COLLECTIVE_OP_GATHERV, Waits::n_to_one},
                                          {OTF2_COLLECTIVE_OP_SCATTERV, Waits::one_to_n}})
        for (const uint32_t members : {2u, 5u, 8u, 13u})
            for (const Candidate& candidate : candidates({.operation = operation, .waits = waits, .data = 40'000}, members))
                for (const bool link : {false, true})
                    for (const int64_t limit : {0, 8'000, 30'000}) {
                        const Structure structure{.pattern = candidate.pattern,
                                                  .hop = 8'000,
                                                  .own = 300,
                                                  .hop_data = 400'000,
                                                  .own_data = 700'000,
                                                  .eager_ppm = limit * 1'000'000 / static_cast<int64_t>(BlockSizes::unit),
                                                  .link = link};
                        const bool rooted = has_sizes_by_root(operation);
                        InstanceSample sample = instance(members, rooted ? members / 2 : 0, random);
                        std::vector<uint64_t> bytes(members);
                        for (uint64_t& part : bytes) part = random() % 16'000;
                        sample.sizes = BlockSizes(bytes, 0, sample.root);
                        CAPTURE(to_string(candidate.pattern));
                        CAPTURE(members);
                        CAPTURE(link);
                        CAPTURE(limit);
                        const Schedule& its = schedule(candidate.pattern, members, sample.root, true);
                        for (uint32_t message = 0; message < its.shares.size(); ++message)
                            ++(structure.rendezvous(sample.sizes.share(its, message)) ? rendezvous : eager);
                        const Ends ends = followed(structure, sample, random);
                        CHECK(ends.measured == leaves(structure, sample));
                        for (auto& noise : sample.noise) noise.clear();
                        CHECK(ends.approximated == leaves(structure, sample));
                    }
    CHECK(eager > 1'000);
    CHECK(rendezvous > 1'000);
}

TEST_CASE("samples that are followed together leave as each of them does alone") {
    std::mt19937_64 random(7);
    size_t by_link = 0, in_order = 0;
    const auto same = [](const Prediction& a, const Prediction& b) {
        return a.leave == b.leave && a.works == b.works && a.hops == b.hops && a.work_data == b.work_data && a.hop_data == b.hop_data;
    };
    for (const uint8_t operation : {OTF2_COLLECTIVE_OP_ALLREDUCE, OTF2_COLLECTIVE_OP_ALLTOALL, OTF2_COLLECTIVE_OP_BCAST,
                                    OTF2_COLLECTIVE_OP_GATHER, OTF2_COLLECTIVE_OP_REDUCE_SCATTER, OTF2_COLLECTIVE_OP_SCAN})
        for (const uint32_t members : {2u, 3u, 5u, 8u, 13u})
            for (const Candidate& candidate :
                 candidates({.operation = operation, .waits = collective_waits(operation), .data = 40'000}, members))
                for (const bool link : {false, true})
                    for (const int64_t eager_ppm : {int64_t{0}, int64_t{300'000}, Structure::all_eager}) {
                        const Structure plain{.pattern = candidate.pattern, .eager_ppm = eager_ppm, .link = link};
                        std::vector<InstanceSample> samples;
                        for (size_t i = random() % 20 + 1; i > 0; --i) {
                            samples.push_back(instance(members, static_cast<uint32_t>(random() % members), random));
                            for (auto& noise : samples.back().noise)
                                if (i % 3 == 0 || random() % 2) noise.clear();
                        }
                        REQUIRE(SamplesTogether::can_follow(samples));
                        SamplesTogether together(plain, samples);
                        Structure costly = plain;
                        costly.hop = static_cast<int64_t>(random() % 9'000);
                        costly.own = static_cast<int64_t>(random() % 3) * 400;
                        costly.call = static_cast<int64_t>(random() % 3) * 150;
                        costly.hop_data = static_cast<int64_t>(random() % 5'000);
                        costly.own_data = static_cast<int64_t>(random() % 9'000);
                        CAPTURE(to_string(candidate.pattern));
                        CAPTURE(members);
                        CAPTURE(link);
                        CAPTURE(eager_ppm);
                        for (const Structure& structure : {plain, costly}) {
                            std::vector<std::vector<Prediction>> predicted;
                            together.predict(structure, &predicted);
                            const int64_t* leave = together.leaves(structure).data();
                            for (size_t s = 0; s < samples.size(); ++s) {
                                std::vector<Prediction> alone;
                                predict(structure, samples[s], &alone);
                                CHECK(std::equal(alone.begin(), alone.end(), predicted[s].begin(), predicted[s].end(), same));
                                for (const Prediction& one : alone) REQUIRE(*leave++ == one.leave);
                                in_order += taken_as_they_come(structure, members, samples[s].root);
                            }
                            CHECK(leave == together.leaves(structure).data() + samples.size() * members);
                        }
                        by_link += link && eager_ppm == 0;
                    }
    CHECK(by_link > 20);
    CHECK(in_order > 20);
}

TEST_CASE("messages at once on one link each have an equal part of it") {
    FairLink link;
    const auto later = [&](std::initializer_list<std::pair<int64_t, int64_t>> messages) {
        link.start();
        for (const auto& [begin, length] : messages) link.add(begin, length);
        return link.later();
    };
    CHECK(later({}).empty());
    CHECK(later({{5, 10}}) == std::vector<int64_t>{0});
    CHECK(later({{0, 10}, {10, 10}}) == std::vector<int64_t>{0, 0});  // one after the other
    CHECK(later({{0, 10}, {0, 10}, {0, 10}}) == std::vector<int64_t>{20, 20, 20});
    // The second comes when half of the first is left: both need twice as long until the first is over at 15; then half of the second is
    // left.
    CHECK(later({{0, 10}, {5, 10}}) == std::vector<int64_t>{5, 5});
    CHECK(later({{5, 10}, {0, 10}}) == std::vector<int64_t>{5, 5});
    CHECK(later({{0, 4}, {0, 12}}) == std::vector<int64_t>{4, 4});  // the short one is over at 8, and 8 are left of the long one
    CHECK(later({{100, 0}, {100, 10}, {100, 10}}) == std::vector<int64_t>{0, 10, 10});  // one without data is not on the link
    // Whatever comes, the link is never idle while something is left: the last is over when all would be one after the other.
    std::mt19937_64 random(3);
    for (int round = 0; round < 200; ++round) {
        std::vector<std::pair<int64_t, int64_t>> messages(random() % 12 + 1);
        link.start();
        for (auto& [begin, length] : messages) {
            begin = static_cast<int64_t>(random() % 1000);
            length = static_cast<int64_t>(random() % 200 + 1);
            link.add(begin, length);
        }
        const std::vector<int64_t> by = link.later();
        int64_t last = 0;
        for (size_t i = 0; i < messages.size(); ++i) {
            CHECK(by[i] >= 0);
            last = std::max(last, messages[i].first + messages[i].second + by[i]);
        }
        std::sort(messages.begin(), messages.end());
        int64_t free = 0;
        for (const auto& [begin, length] : messages) free = std::max(free, begin) + length;
        CHECK(std::abs(last - free) <= 1);
    }
}

TEST_CASE("what lies on a way tells how much later a member leaves for other costs") {
    std::mt19937_64 random(11);
    const std::pair<int64_t Structure::*, double Prediction::*> costs[] = {{&Structure::own, &Prediction::works},
                                                                           {&Structure::hop, &Prediction::hops},
                                                                           {&Structure::own_data, &Prediction::work_data},
                                                                           {&Structure::hop_data, &Prediction::hop_data}};
    size_t all = 0, near = 0, shared = 0;
    for (const Pattern& pattern :
         {Pattern{.up = Shape::linear, .cargo_up = Cargo::parts}, Pattern{.down = Shape::linear_ascending, .cargo_down = Cargo::parts},
          Pattern{.up = Shape::everyone_by_number, .cargo_up = Cargo::parts}})
        for (const int64_t eager_ppm : {int64_t{0}, Structure::all_eager})
            for (int round = 0; round < 30; ++round) {
                InstanceSample sample = instance(8, static_cast<uint32_t>(random() % 8), random);
                for (auto& noise : sample.noise) noise.clear();
                const Structure plain{.pattern = pattern,
                                      .hop = 8'000,
                                      .own = 300,
                                      .hop_data = 20'000,
                                      .own_data = 20'000,
                                      .eager_ppm = eager_ppm,
                                      .link = true};
                std::vector<Prediction> ways, later;
                predict(plain, sample, &ways);
                for (const auto& [cost, weight] : costs) {
                    constexpr int64_t more = 80;
                    Structure other = plain;
                    other.*cost += more;
                    predict(other, sample, &later, false);
                    for (size_t i = 0; i < ways.size(); ++i) {
                        const auto expected = static_cast<double>(ways[i].leave) + ways[i].*weight * static_cast<double>(more);
                        ++all;
                        near += std::abs(static_cast<double>(later[i].leave) - expected) <= 12;  // lengths are whole ns
                        shared += weight == &Prediction::work_data && ways[i].*weight > 0.05;
                    }
                }
            }
    CHECK(shared > 500);
    CHECK(near * 100 > all * 95);  // in the others another message is the last, or the one that shares
}
