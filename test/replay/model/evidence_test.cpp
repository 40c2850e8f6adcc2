// SPDX-License-Identifier: BSD-3-Clause
// Which instances count, and what few of them say.
#include <doctest/doctest.h>
#include <otf2/otf2.h>

#include <algorithm>
#include <numeric>

#include "instances.hpp"
#include "replay/model/algorithms/decisions.hpp"
#include "replay/model/model.hpp"
#include "replay/model/set_ups.hpp"

using namespace polter::replay;

TEST_CASE("eager messages to one member share its link, and leave times tell") {
    const Pattern all{.up = Shape::everyone_by_number};
    constexpr CollectiveKind sized{.operation = OTF2_COLLECTIVE_OP_ALLREDUCE, .waits = Waits::n_to_n, .data = 8192};
    Structure truth{.pattern = all, .hop = 20'000, .own = 300, .own_data = 6'000, .link = true};
    std::vector<InstanceSample> samples;
    for (uint64_t seed = 1; seed <= 24; ++seed) samples.push_back(measured(8, seed, 0, truth));
    const auto found = explain(samples, Waits::n_to_n, true, nearest(samples, sized, Library::unknown, true, 0, 1)).found;
    REQUIRE(found);
    CHECK(found->pattern == all);
    CHECK(found->link);
    CHECK(found->own_data > 2'000);
    CHECK(found->error < 200);
    // All at once: seven come to each member, the last one sent 2100 after the call began. Alone it would be there after 22100.
    InstanceSample together;
    together.enter.assign(8, 0);
    together.noise.resize(8);
    std::vector<Prediction> predicted;
    predict(truth, together, &predicted);
    CHECK(predicted[7].leave > 20'300 + 6 * 6'000);
    CollectiveKind apart = sized;
    apart.links_apart = true;
    const auto other = explain(samples, Waits::n_to_n, true, nearest(samples, apart, Library::unknown, true, 0, 1)).found;
    CHECK((!other || other->error > 5 * found->error));
}

TEST_CASE("who always comes just before a message that takes long waited for it") {
    const Structure truth{.pattern = {.down = Shape::chain}, .hop = 59'000, .own = 300};
    constexpr CollectiveKind prefix{.operation = OTF2_COLLECTIVE_OP_SCAN, .waits = Waits::prefix, .data = 140};
    std::vector<InstanceSample> samples;
    for (int64_t i = 0; i < 24; ++i) {
        InstanceSample sample;
        sample.enter = {0, 58'900 + 7 * (i % 5)};
        sample.noise.resize(2);
        std::vector<Prediction> predicted;
        predict(truth, sample, &predicted);
        for (const Prediction& one : predicted) sample.leave.push_back(one.leave);
        samples.push_back(sample);
    }
    const Nearest best = nearest(samples, prefix, Library::unknown, true, 0, 1);
    CHECK(best.error < 5);
    CHECK(std::abs(best.structure.hop + 2 * best.structure.own - 59'600) < 300);
    CHECK(explain(samples, Waits::prefix, true, best).found);
}

TEST_CASE("where most calls find all messages there, the few that wait tell how long these are under way") {
    const Structure truth{.pattern = {.up = Shape::linear, .cargo_up = Cargo::parts}, .hop = 80'000, .own = 1'000, .call = 200};
    std::vector<InstanceSample> samples;
    for (int64_t i = 0; i < 32; ++i) {
        InstanceSample sample;
        sample.enter = {i % 8 == 5 ? 60'000 + 500 * i : 110'000 + 900 * i, 700 * (i % 9), 1'100 * (i % 7), 20'000 + 300 * (i % 4)};
        sample.noise.resize(4);
        std::vector<Prediction> predicted;
        predict(truth, sample, &predicted);
        for (const Prediction& one : predicted) sample.leave.push_back(one.leave);
        samples.push_back(sample);
    }
    CollectiveKind gather{.operation = OTF2_COLLECTIVE_OP_GATHER, .waits = Waits::n_to_one, .data = 8};
    const auto found = [&] {
        return explain(samples, Waits::n_to_one, true, nearest(samples, gather, Library::unknown, true, 0, 1)).found;
    };

    const auto by_few = found();
    REQUIRE(by_few);
    CHECK(by_few->pattern == truth.pattern);
    CHECK(std::abs(by_few->hop - truth.hop) < 500);
    CHECK(std::abs(by_few->own - truth.own) < 50);
    CHECK(std::abs(by_few->call - truth.call) < 50);
    gather.usual_calls_tell = true;
    const auto by_most = found();
    CHECK((!by_most || std::abs(by_most->hop - truth.hop) > 10'000));
}

TEST_CASE("an instance that sets something up says nothing of an algorithm") {
    std::vector<InstanceSample> samples;
    for (uint64_t seed = 1; seed <= 12; ++seed) samples.push_back(measured(8, seed, 0));
    for (int64_t& leave : samples[3].leave) leave += 5'000'000;
    samples[3].ordinal = 7;
    CHECK(!explanation(samples).found);
    std::vector<InstanceSample> taken = take_set_ups(&samples, {});
    REQUIRE(taken.size() == 1);
    CHECK(taken[0].ordinal == 7);
    CHECK(samples.size() == 11);
    CHECK(explain_set_ups(taken, kind, Library::unknown, true, {{dissemination, 0}}, dissemination) == std::nullopt);  // far too long
    CHECK(explanation(samples).found);
    // Noise may have been the reason; and where several take long they are another kind of call.
    samples.push_back(measured(8, 13, 0));
    for (int64_t& leave : samples.back().leave) leave += 5'000'000;
    samples.back().noise[2].push_back({60'000, 5'060'000});
    CHECK(take_set_ups(&samples, {}).empty());
    CHECK(samples.size() == 12);
    samples.back().noise[2].clear();
    for (int64_t& leave : samples[0].leave) leave += 5'000'000;
    CHECK(take_set_ups(&samples, {}).empty());
    CHECK(samples.size() == 12);
}

TEST_CASE("a first call that finds out who shares a host is known by its messages") {
    Structure set_up = dissemination;
    set_up.pattern.set_up = SetUp::first;
    std::vector<InstanceSample> samples;
    for (uint64_t seed = 1; seed <= 12; ++seed) samples.push_back(measured(32, seed, 0));
    InstanceSample first = measured(32, 13, 0, set_up);
    first.ordinal = 13;
    // Whether it is among those that are looked at, or not.
    samples.push_back(first);
    CHECK(take_set_ups(&samples, {first}).size() == 1);
    const std::vector<InstanceSample> taken = take_set_ups(&samples, {first});
    REQUIRE(taken.size() == 1);
    const auto found = explain_set_ups(taken, kind, Library::unknown, true, {{dissemination, 0}}, dissemination);
    REQUIRE(found);
    CHECK(found->pattern == set_up.pattern);
    CHECK(std::abs(found->hop - dissemination.hop) < dissemination.hop / 20);
    // Of few members it is not believed: three or four leave times fit anything.
    const InstanceSample of_four = measured(4, 1, 0, set_up);
    CHECK(!explain_set_ups({of_four}, kind, Library::unknown, true, {{dissemination, 0}}, dissemination));
    // Alone it is suspected where it takes as long as so many messages.
    const int64_t way = dissemination.hop + 2 * dissemination.own;
    CHECK(may_set_up({first}, way).size() == 1);
    CHECK(may_set_up({first}, 2 * way).empty());
    CHECK(may_set_up({samples[0]}, way).empty());
}

TEST_CASE("a broadcast that finds out who shares a host does so after what was gathered for it") {
    Structure set_up{.pattern = {.up = Shape::linear, .down = Shape::binomial}, .hop = 10'000, .own = 1'000};
    const Structure usual = set_up;
    set_up.pattern.set_up = SetUp::between;
    // The member at the root comes late: until then nobody else can begin to ask.
    InstanceSample first = measured(32, 13, 0, set_up);
    first.enter[0] += 300'000;
    std::vector<Prediction> predicted;
    predict(set_up, first, &predicted);
    for (size_t i = 0; i < predicted.size(); ++i) first.leave[i] = predicted[i].leave;
    const auto found = explain_set_ups({first}, kind, Library::unknown, true, {{usual, 0}}, usual);
    REQUIRE(found);
    CHECK(found->pattern == set_up.pattern);
    // Noise that takes far longer than the set-up does not speak against it.
    first.noise[0].push_back({first.enter[0] + 50'000, first.enter[0] + 5'050'000});
    predict(set_up, first, &predicted);
    for (size_t i = 0; i < predicted.size(); ++i) first.leave[i] = predicted[i].leave;
    const auto hit = explain_set_ups({first}, kind, Library::unknown, true, {{usual, 0}}, usual);
    REQUIRE(hit);
    CHECK(hit->pattern == set_up.pattern);
}

TEST_CASE("calls of many to one over the root's link share it, though few say so") {
    const Structure truth{.pattern = {.up = Shape::linear}, .hop = 12'000, .own = 300, .own_data = 8'000, .eager_ppm = 0, .link = true};
    constexpr CollectiveKind reduce{.operation = OTF2_COLLECTIVE_OP_REDUCE, .waits = Waits::n_to_one, .data = 65'536};
    std::vector<InstanceSample> samples;
    for (uint64_t seed = 1; seed <= 2; ++seed) samples.push_back(measured(64, seed, 0, truth));
    const Nearest best = nearest(samples, reduce, Library::smpi, true, 0, 1);
    CHECK(best.structure.pattern == truth.pattern);
    CHECK(best.error < 100);
    CHECK(best.structure.link);
    CHECK(best.structure.own_data > truth.own_data / 4);
}

TEST_CASE("what a root's link takes of many long messages to it is found, though all of them end at about the same time") {
    const Structure truth{.pattern = {.up = Shape::linear}, .hop = 20'200, .own = 500, .own_data = 5'300, .eager_ppm = 0, .link = true};
    constexpr CollectiveKind reduction{.operation = OTF2_COLLECTIVE_OP_REDUCE, .waits = Waits::n_to_one, .data = 4096};
    std::vector<InstanceSample> samples;
    for (uint64_t seed = 1; seed <= 16; ++seed) {
        InstanceSample sample = measured(64, seed, 0, truth);
        std::mt19937_64 random(seed);
        for (int64_t& enter : sample.enter) enter = 250'000 + static_cast<int64_t>(random() % 70'000);
        sample.root = static_cast<uint32_t>(20 + seed);
        sample.noise.assign(64, {});
        std::vector<Prediction> predicted;
        predict(truth, sample, &predicted);
        for (size_t i = 0; i < predicted.size(); ++i) sample.leave[i] = predicted[i].leave;
        samples.push_back(std::move(sample));
    }
    const Nearest found = nearest(samples, reduction, Library::smpi, true, 0, 1);
    CHECK(found.error < 1'000);
    CHECK(std::abs(found.structure.own_data - truth.own_data) < truth.own_data / 3);
}

TEST_CASE("work and flight are told apart though ways have nearly as many of both") {
    const Structure truth{.pattern = {.up = Shape::ring_twice_rest, .cargo_up = Cargo::parts}, .hop = 16'000, .own = 500};
    constexpr CollectiveKind allreduce{.operation = OTF2_COLLECTIVE_OP_ALLREDUCE, .waits = Waits::n_to_n, .data = 64};
    std::vector<InstanceSample> samples;
    for (uint64_t seed = 1; seed <= 24; ++seed) samples.push_back(measured(33, seed, 0, truth));
    const Nearest best = nearest(samples, allreduce, Library::unknown, true, 0, 1);
    CHECK(best.structure.pattern == truth.pattern);
    CHECK(best.error < 300);
    CHECK(std::abs(best.structure.own - truth.own) < 100);
}

TEST_CASE("where only the root waits, and once, an algorithm of an MPI is believed by costs known from elsewhere") {
    const Structure linear{.pattern = {.up = Shape::linear, .cargo_up = Cargo::parts}, .hop = 20'000, .own = 900};
    constexpr CollectiveKind gather{.operation = OTF2_COLLECTIVE_OP_GATHER, .waits = Waits::n_to_one, .data = 8 * 64};
    std::vector<InstanceSample> once{measured(16, 4, 0, linear)};
    once[0].noise.assign(16, {});
    std::vector<Prediction> predicted;
    predict(linear, once[0], &predicted);
    for (size_t i = 0; i < predicted.size(); ++i) once[0].leave[i] = predicted[i].leave;
    const std::vector<Reference> known{{.structure = {.pattern = dissemination.pattern, .hop = 19'000, .own = 1'000}, .data = 64}};
    const auto believed = [&](const std::vector<Reference>& costs) {
        const Nearest best = nearest(once, gather, Library::smpi, true, 0, 1);
        return explain(once, Waits::n_to_one, true, best, borrow(once, gather, Library::smpi, true, costs, 0, 1)).found;
    };
    REQUIRE(believed(known));
    CHECK(believed(known)->pattern == linear.pattern);
    CHECK(!believed({}));
    CHECK(!believed({{.structure = {.pattern = dissemination.pattern, .hop = 500, .own = 100}, .data = 64}}));  // it would have been faster
}

TEST_CASE("calls that found all their messages there leave the algorithm open; known costs, where they agree, tell it") {
    const Structure truth{.pattern = {.up = Shape::linear, .cargo_up = Cargo::parts}, .hop = 80'000, .own = 1'000};
    constexpr CollectiveKind gather{.operation = OTF2_COLLECTIVE_OP_GATHER, .waits = Waits::n_to_one, .data = 32};
    const auto believed = [&](int64_t lead, int64_t known_flight) {
        std::vector<InstanceSample> samples;
        for (int64_t i = 0; i < 32; ++i) {
            InstanceSample sample;
            sample.enter = {20'000 + lead + 900 * (i % 11), 700 * (i % 9), 1'100 * (i % 7), 20'000 - 300 * (i % 4)};
            sample.noise.resize(4);
            std::vector<Prediction> predicted;
            predict(truth, sample, &predicted);
            for (const Prediction& one : predicted) sample.leave.push_back(one.leave);
            samples.push_back(sample);
        }
        const std::vector<Reference> known{{.structure = {.pattern = dissemination.pattern, .hop = known_flight, .own = 1'000}, .data = 0}};
        const Nearest borrowed = known_flight > 0 ? borrow(samples, gather, Library::smpi, true, known, 0, 1) : Nearest();
        return explain(samples, Waits::n_to_one, true, nearest(samples, gather, Library::smpi, true, 0, 1), borrowed).found;
    };
    REQUIRE(believed(85'000, 80'000));
    CHECK(believed(85'000, 80'000)->pattern.up == Shape::linear);
    CHECK(std::abs(believed(85'000, 80'000)->hop - 80'000) < 2'000);
    const auto unknown = believed(85'000, 0);
    CHECK((!unknown || unknown->hop < 40'000));  // nothing says how long messages are under way
    const auto longer = believed(85'000, 200'000);
    CHECK((!longer || longer->hop < 90'000));  // by that the calls would have waited
}

TEST_CASE("where many send in no time, what the root's leave times say is not lost among theirs") {
    // The root takes 500 for each message and mostly comes first: it leaves so long after its own coming, whenever the last one came. The
    // call itself costs everybody 75, which no algorithm has.
    constexpr uint32_t members = 60;
    const Structure linear{.pattern = {.up = Shape::linear, .cargo_up = Cargo::parts}, .hop = 2500, .own = 500};
    const auto calls = [&](bool root_is_last, int64_t call) {
        std::vector<InstanceSample> samples;
        std::vector<Prediction> predicted;
        for (uint64_t seed = 1; seed <= 16; ++seed) {
            InstanceSample sample = measured(members, seed, 0, linear);
            for (auto& noise : sample.noise) noise.clear();
            for (int64_t& enter : sample.enter) enter /= 4;
            sample.enter[0] = root_is_last ? 40'000 : 0;
            sample.enter[1] = 6'000 + 1'000 * static_cast<int64_t>(seed);
            predict(linear, sample, &predicted);
            for (uint32_t i = 0; i < members; ++i) sample.leave[i] = predicted[i].leave + call;
            samples.push_back(sample);
        }
        return samples;
    };
    const auto believed = [&](const std::vector<InstanceSample>& samples, Library library) {
        Nearest best{.decided = library == Library::smpi, .structure = linear};
        best.error = best.score = static_cast<double>(samples.front().leave[1] - samples.front().enter[1] - linear.own);  // the call
        return explain(samples, Waits::n_to_one, true, best).found.has_value();
    };
    const std::vector<InstanceSample> early = calls(false, 75);
    CHECK(plain_error(early, Waits::n_to_one, true) < 75);  // 59 of 60 send, and these a constant meets
    CHECK(believed(early, Library::smpi));
    CHECK(!believed(early, Library::unknown));
    CHECK(believed(calls(false, 4'000), Library::smpi));  // however much that is: it is as much in each call
    CHECK(!believed(calls(true, 75), Library::smpi));     // a constant does as well
}

TEST_CASE("of an exchange in which pairs have sizes of their own, costs come from all sizes that were seen") {
    constexpr uint32_t members = 16;
    constexpr uint64_t large = 60'000;
    const Structure pairwise{.pattern = {.up = Shape::pairwise, .cargo_up = Cargo::parts}, .hop = 3000, .own = 300, .hop_data = 9'000'000};
    const CostClass of{CostKind::collective_tail, true, false, OTF2_COLLECTIVE_OP_ALLTOALLV, 0};
    std::vector<uint64_t> calls(12);
    std::iota(calls.begin(), calls.end(), 0);
    std::sort(calls.begin(), calls.end(),  // as they are kept: most of them are not looked at
              [](uint64_t a, uint64_t b) {
                  return mix(CallNumber{0, a}.ordinal()) < mix(CallNumber{0, b}.ordinal());
              });
    Model model;
    for (size_t i = 0; i < calls.size(); ++i) {
        InstanceSample sample = measured(members, i, 0);
        const std::vector<uint64_t> parts(members, i < 6 ? 1 : large);
        sample.sizes = BlockSizes::of_pairs(parts, parts);
        std::vector<Prediction> predicted;
        predict(pairwise, sample, &predicted);
        for (uint32_t member = 0; member < members; ++member) sample.leave[member] = predicted[member].leave;
        model.learn_instance(of, of, members, Waits::n_to_n, {0, calls[i]}, std::move(sample));
    }
    model.freeze();
    const LearnedStructure* learned = model.structure(of, members);
    REQUIRE(learned);
    REQUIRE(learned->structure);
    const double share = static_cast<double>(large) / BlockSizes::unit / members;
    const auto takes = [&](const Structure& structure) { return structure.flight(share) + 2 * structure.work(share); };
    CHECK(takes(*learned->structure) == doctest::Approx(takes(pairwise)).epsilon(0.1));
}

TEST_CASE("what copying a fence's transfers takes is told from their flight, which is over before") {
    constexpr uint32_t members = 8;
    const Structure fence{.pattern = {.up = Shape::dissemination, .twice = true}, .hop = 8000, .own = 300, .taking_data = 100'000};
    std::mt19937_64 random(5);
    std::vector<InstanceSample> samples;
    for (uint64_t seed = 1; seed <= 12; ++seed) {
        InstanceSample sample = measured(members, seed, 0, fence);
        std::vector<MemberTransfer> transfers;
        for (uint32_t from = 0; from < members; ++from)
            transfers.push_back({from, (from + 1) % members, sample.enter[from] - 20'000,
                                 static_cast<double>(seed % 2 == 0 ? 1'000 : 1'000 + random() % 60'000) / BlockSizes::unit});
        sample.transfers = awaited_transfers(transfers, members);
        std::vector<Prediction> predicted;
        predict(fence, sample, &predicted);
        for (uint32_t i = 0; i < members; ++i) sample.leave[i] = predicted[i].leave;
        samples.push_back(std::move(sample));
    }
    Structure start = fence;
    start.taking_data = 0;
    const Fit found = fit_from({start}, samples, true, 2, 0);
    CHECK(found.error < 30);
    CHECK(found.structure.taking_data == doctest::Approx(fence.taking_data).epsilon(0.05));
    CHECK(found.structure.hop_data == 0);
}

TEST_CASE("where noise kept messages apart, they share links as other collectives do") {
    constexpr uint32_t members = 12;
    const Structure shorter{.pattern = {.up = Shape::everyone_above}, .hop = 20'000, .own = 300, .own_data = 6'000, .link = true};
    Structure longer = shorter;  // whoever sends them takes as long for each as the link does
    longer.own = 13'000;
    longer.own_data = 12'000;
    const CostClass of_shorter{CostKind::collective_tail, true, false, OTF2_COLLECTIVE_OP_SCAN, 8192};
    const CostClass of_longer{CostKind::collective_tail, true, false, OTF2_COLLECTIVE_OP_SCAN, 16384};
    for (const bool fault : {false, true}) {
        CAPTURE(fault);
        Model model(Faults{.links_only_shown = fault});
        for (uint64_t call = 0; call < 24; ++call) {
            model.learn_instance(of_shorter, of_shorter, members, Waits::prefix, {0, call}, measured(members, call, 0, shorter));
            InstanceSample late = measured(members, call, 0, longer);  // member 0 comes when the others' messages are long there
            late.enter[0] += 1'000'000;
            std::vector<Prediction> predicted;
            predict(longer, late, &predicted);
            for (uint32_t member = 0; member < members; ++member) late.leave[member] = predicted[member].leave;
            model.learn_instance(of_longer, of_longer, members, Waits::prefix, {1, call}, std::move(late));
        }
        model.freeze();
        const LearnedStructure* learned = model.structure(of_longer, members);
        REQUIRE(learned);
        REQUIRE(learned->structure);
        CHECK(learned->structure->link == !fault);
        CHECK(learned->structure->link_elsewhere == !fault);
        if (!fault) CHECK(learned->structure->own_data == doctest::Approx(longer.own_data).epsilon(0.1));
    }
}

TEST_CASE("what a call costs beside its message is known where others tell what a message costs") {
    const Structure truth{.pattern = {.up = Shape::linear, .cargo_up = Cargo::parts}, .hop = 2800, .own = 1000, .call = 400};
    constexpr CollectiveKind gather{.operation = OTF2_COLLECTIVE_OP_GATHER, .waits = Waits::n_to_one, .data = 128};
    std::vector<InstanceSample> samples;
    for (uint64_t seed = 1; seed <= 9; ++seed) samples.push_back(measured(32, seed, 0, truth));
    CHECK(nearest(samples, gather, Library::smpi, true, 0, 1).error > 50);  // the root takes a message in less time than sending takes
    const Structure other{.pattern = {.up = Shape::dissemination}, .hop = 2800, .own = 1000};
    const Nearest found = borrow(samples, gather, Library::smpi, true, {{other, 0}}, 0, 1);
    CHECK(found.error < 20);
    CHECK(found.structure.call == 400);
}

TEST_CASE("a long call whose data explains its time does not set anything up") {
    constexpr uint32_t members = 53;
    const Structure truth{.pattern = {Shape::linear, Shape::linear_ascending, false, Cargo::all, Cargo::parts},
                          .hop = 11'800,
                          .own = 400,
                          .own_data = 7'600,
                          .eager_ppm = 18'868,
                          .link = true};
    const CostClass of{CostKind::collective_tail, true, false, OTF2_COLLECTIVE_OP_REDUCE_SCATTER_BLOCK, 65'508};
    Model model;
    for (int64_t i = 0; i < 40; ++i) model.learn({CostKind::receive_after_send, true, false, 0, 8}, 3600, Model::clean);
    InstanceSample sample = measured(members, 1, 0, truth);
    CHECK(may_set_up({sample}, 3600).size() == 1);  // as long as that
    model.learn_instance(of, of, members, Waits::n_to_n, {0, 0}, std::move(sample));
    model.freeze();
    const LearnedStructure* learned = model.structure(of, members);
    REQUIRE(learned);
    CHECK(!learned->set_up);
    REQUIRE(learned->structure);
    CHECK(learned->structure->pattern == truth.pattern);
}

TEST_CASE("a single call of messages that take far too long has set something up") {
    constexpr uint32_t members = 32;
    Structure truth{.pattern = {.down = Shape::quaternomial}, .hop = 54'000, .own = 700, .eager_ppm = 0, .link = true};
    truth.pattern.set_up = SetUp::first;
    const CostClass of{CostKind::collective_tail, true, false, OTF2_COLLECTIVE_OP_BCAST, 2'048};
    // All come before the messages of the set-up have gone around.
    InstanceSample sample;
    sample.root = 28;
    std::mt19937_64 random(1);
    for (uint32_t i = 0; i < members; ++i) sample.enter.push_back(static_cast<int64_t>(random() % 600'000));
    sample.noise.resize(members);
    std::vector<Prediction> predicted;
    predict(truth, sample, &predicted);
    for (const Prediction& one : predicted) sample.leave.push_back(one.leave + static_cast<int64_t>(random() % 4'000));
    const auto sets_up = [&](Faults faults) {
        Model model(faults);
        for (int64_t i = 0; i < 40; ++i) model.learn({CostKind::receive_after_send, true, false, 0, 1'034}, 52'780, Model::clean);
        model.learn_instance(of, of, members, Waits::one_to_n, {0, 0}, InstanceSample(sample));
        model.freeze();
        return model.structure(of, members)->set_up.has_value();
    };
    CHECK(sets_up({}));
    CHECK(!sets_up({.set_ups_in_long_messages = true}));
}

TEST_CASE("creating a window tells all where each one's memory is; a simulated run ends by a barrier") {
    const auto made_of = [](uint8_t operation, Library library, uint32_t members) {
        return decided(library, {.operation = operation, .waits = Waits::n_to_n}, members);
    };
    CHECK(made_of(operation_window, Library::mpich, 19) == std::vector<Pattern>{{.up = Shape::bruck}});
    CHECK(made_of(operation_window, Library::open_mpi, 24) == std::vector<Pattern>{{.up = Shape::doubling_all}});
    CHECK(made_of(operation_window, Library::smpi, 24) == std::vector<Pattern>{{.up = Shape::everyone_by_number}});
    CHECK(made_of(operation_finalize, Library::smpi, 24) == made_of(OTF2_COLLECTIVE_OP_BARRIER, Library::smpi, 24));
    CHECK(made_of(operation_finalize, Library::unknown, 24) == made_of(OTF2_COLLECTIVE_OP_BARRIER, Library::unknown, 24));
    CHECK(made_of(operation_finalize, Library::mpich, 24).empty());
}

TEST_CASE("of algorithms that are all right to a hundredth of a message's time, one that an MPI is known to use is taken") {
    // The last came late, so hardly anything tells in what order the others' messages reached it; its call costs 400 besides.
    InstanceSample sample;
    sample.enter = {42'813, 31'030, 400, 25'776, 28'321, 5'154, 26'276, 31'530};
    sample.leave = {50'213, 51'422, 51'922, 52'422, 52'922, 53'422, 53'922, 54'422};
    sample.noise.resize(sample.enter.size());
    constexpr CollectiveKind barrier{.operation = operation_finalize, .waits = Waits::n_to_n};
    const Structure other{.pattern = {.up = Shape::dissemination}, .hop = 3744, .own = 530};
    const Nearest found = borrow({sample}, barrier, Library::unknown, true, {{other, 0}}, 0, 1);
    CHECK(found.decided);
    CHECK(found.structure.pattern == decided(Library::smpi, barrier, 8).front());
    CHECK(found.error < 50);
}
