// SPDX-License-Identifier: BSD-3-Clause
// Calls that began after all had been sent and posted: which of them found their messages there, and what the others tell of transfers.
#include "replay/model/wait_samples.hpp"

#include <doctest/doctest.h>

#include <random>
#include <thread>
#include <tuple>

#include "replay/base/indexed_map.hpp"
#include "replay/model/algorithms/candidates.hpp"
#include "replay/model/algorithms/schedule.hpp"
#include "replay/model/collective_algorithm.hpp"
#include "replay/model/message_costs.hpp"
#include "replay/model/model.hpp"
#include "replay/trace/mpi_calls.hpp"

namespace {

using namespace polter::replay;

constexpr int64_t transfer = 80'000, own = 700;

// A call that began `after` the send, whose posting came `posted` later than the send: its message is under way for `transfer`, from the
// send or from the posting on.
WaitSamples::Sample call(int64_t after, int64_t posted, bool from_posting) {
    const int64_t arrival = transfer + (from_posting ? posted : 0), end = std::max(after + own, arrival);
    return {
        .slack = after - posted, .took = {end - after, end - after}, .since_send = {end, end}, .since_both = {end - posted, end - posted}};
}

WaitSamples calls(bool from_posting) {
    WaitSamples samples;
    for (const int64_t after : {50'000, 55'000, 60'000, 65'000, 70'000, 75'000})
        for (const int64_t posted : {0, 15'000, 30'000, 45'000}) samples.add(call(after, posted, from_posting), true);
    for (const int64_t after : {300'000, 500'000}) samples.add(call(after, 0, from_posting), true);
    return samples;
}

}  // namespace

TEST_CASE("calls that waited tell how long messages are under way, if they agree") {
    CHECK(calls(false).transfers(false, own).agreed().from == transfer);
    CHECK(calls(true).transfers(true, own).agreed().from == transfer);
    CHECK(calls(false).transfers(true, own).count() == 0);
    CHECK(calls(true).transfers(false, own).count() == 0);
}

TEST_CASE("whether transfers begin with the send or with the posting is told by what explains the calls' ends") {
    for (const int64_t known : {int64_t{0}, transfer}) {
        CHECK(calls(false).evidence(known, own).eager > 0);
        CHECK(calls(false).evidence(known, own).late == 0);
        CHECK(calls(true).evidence(known, own).late > 0);
        CHECK(calls(true).evidence(known, own).eager == 0);
    }
    CHECK(calls(true).evidence(4 * transfer, own).late == 0);  // other calls say that such messages take much longer
}

TEST_CASE("where noise leaves most calls open, the few tell that only one of both explains") {
    const auto evidence = [](bool from_posting, int exact, bool few_tell) {
        WaitSamples samples;
        for (int i = 0; i < 60; ++i) {
            WaitSamples::Sample open = call(50'000, 1'000, from_posting);
            for (TimeRange* range : {&open.took, &open.since_send, &open.since_both}) range->least -= 3'000 + 100 * i;
            samples.add(open, true);
        }
        for (int i = 0; i < exact; ++i) samples.add(call(50'000, 20'000 + 1'000 * i, from_posting), true);
        return samples.evidence(transfer, own, few_tell);
    };
    CHECK(evidence(true, 3, true).late > 0);
    CHECK(evidence(true, 3, false).late == 0);
    CHECK(evidence(false, 3, true).eager > 0);
    CHECK(evidence(false, 3, true).late == 0);
    CHECK(evidence(true, 2, true).late == 0);  // by chance
}

TEST_CASE("one message that a call awaited tells less than many that were under way") {
    const auto cost = [](Faults faults) {
        constexpr CostClass message{CostKind::receive_after_send, false, false, 0, 4096}, wait{CostKind::wait_own, true, false, 0, 2};
        Model model(faults);
        model.learn_between(message, 45'000, 110'000, Model::clean);
        model.learn({CostKind::wait_own, true, false, 0, 0}, own / 2, Model::clean);
        for (int64_t after = 40'000; after < 60'000; after += 1'000) model.learn_wait(wait, message, call(after, 0, false), true);
        model.freeze();
        return model.cost(message).mid;
    };
    CHECK(cost({}) == transfer);
    CHECK(cost({.awaited_tell_alone = true}) < transfer);
}

TEST_CASE("what noise leaves open of a size the sizes beside it tell, within what its calls allow") {
    const auto cost = [](int64_t least, int64_t most, Faults faults) {
        const auto message = [](uint64_t bytes) { return CostClass{CostKind::receive_after_send, false, false, 0, bytes}; };
        Model model(faults);
        model.learn(message(1'000), 80'000, Model::clean);
        model.learn(message(3'000), 84'000, Model::clean);
        model.learn_between(message(2'000), least, most, Model::clean);
        model.learn_between({CostKind::send_own, false, false, 0, 2'000}, 700, 1'700, Model::clean);  // of another kind
        model.freeze(true);
        return model.cost(message(2'000)).mid;
    };
    CHECK(cost(50'000, 90'000, {}) == 82'000);
    CHECK(cost(50'000, 90'000, {.sizes_tell_nothing = true}) == 50'000);
    CHECK(cost(50'000, 70'000, {}) == 70'000);
    CHECK(cost(83'500, 99'000, {}) == 83'500);
}

TEST_CASE("a coarse clock shows a cost as the steps beside it: their mean tells it, and none of a fine clock's times is moved") {
    const auto cost = [](int64_t step, Faults faults) {
        constexpr CostClass message{CostKind::receive_after_send, false, false, 0, 4096};
        Model model(faults);
        model.clock_step_ns = step;
        for (int i = 0; i < 10; ++i) model.learn(message, i < 6 ? 4'000 : 5'000, Model::clean);
        model.learn(message, 19'000, Model::clean);
        model.freeze();
        return model.cost(message).mid;
    };
    CHECK(cost(1'000, {}) == 4'400);
    CHECK(cost(1'000, {.usual_step_is_cost = true}) == 4'000);
    CHECK(cost(1, {}) == 4'000);
}

TEST_CASE("a call's own cost comes from calls that began later than messages are under way") {
    CHECK(calls(false).own(transfer).agreed().from == own);
    CHECK(calls(false).own(transfer).count() == 2);
    CHECK(calls(false).own(1'000'000).count() == 0);
    CHECK(calls(false).least_taken() == own);
}

TEST_CASE("calls that all waited are told by shorter calls for other messages") {
    WaitSamples all_waited;
    for (int i = 0; i < 8; ++i) all_waited.add(call(1000, 0, false), true);
    CHECK(all_waited.transfers(false, all_waited.least_taken()).count() == 0);
    CHECK(all_waited.transfers(false, own).agreed().from == transfer);
}

TEST_CASE("samples add up in any order") {
    WaitSamples one = calls(false), other = calls(true);
    one.merge(calls(true));
    other.merge(calls(false));
    CHECK(one.count() == other.count());
    CHECK(one.transfers(false, own).count() == other.transfers(false, other.least_taken()).count());
    CHECK(one.since_both().agreed().from == other.since_both().agreed().from);
    CHECK(one.own(transfer).agreed().to == other.own(transfer).agreed().to);
}

TEST_CASE("a fence goes through its messages twice") {
    const Structure once{.pattern = {.up = Shape::dissemination}, .hop = 1000, .own = 0};
    Structure twice = once;
    twice.pattern.twice = true;
    InstanceSample sample;
    sample.enter = {0, 0, 0, 400};
    sample.noise.resize(4);
    std::vector<Prediction> first, both;
    predict(once, sample, &first);
    predict(twice, sample, &both);
    // Each round brings what rank i - 1, then i - 2, had before; rank 3 is late by 400. After one time rank 2 is last, after two rank 1.
    const int64_t after_one[] = {2000, 2000, 2400, 2000}, after_two[] = {4000, 4400, 4000, 4000};
    for (size_t i = 0; i < 4; ++i) {
        CHECK(first[i].leave == after_one[i]);
        CHECK(both[i].leave == after_two[i]);
    }
    CHECK(to_string(twice.pattern) == to_string(once.pattern) + ", all of it twice");
}

TEST_CASE("a fence waits for what its members have begun before it goes through its messages again") {
    constexpr double unit = BlockSizes::unit, kib = 1024 / unit;
    // Member 0 puts 2 KiB to member 1 and 8 KiB to member 2, one after the other; both end when their link has carried 10 KiB.
    const std::vector<MemberTransfer> transfers{{0, 1, 100, 2 * kib}, {0, 2, 150, 8 * kib}};
    InstanceSample sample;
    sample.transfers = awaited_transfers(transfers, 4);
    REQUIRE(sample.transfers.size() == 4);
    CHECK(sample.transfers[0].awaited.size() == 2);
    CHECK(sample.transfers[0].taken == 0);
    CHECK(sample.transfers[1].taken == 1);
    CHECK(sample.transfers[3].awaited.empty());
    sample.enter = {200, 200, 200, 200};
    sample.noise.resize(4);
    Structure fence{.pattern = {.up = Shape::dissemination, .twice = true}, .hop = 1000, .hop_data = 1024 * 1000};  // 1000 a KiB
    std::vector<Prediction> predicted;
    predict(fence, sample, &predicted);
    // Short ones: who puts them does not wait. Member 2 goes on last, at 150 + 1000 + 8000; member 0 hears of that after a round.
    const int64_t from_2[] = {1, 2, 0, 1};
    for (size_t i = 0; i < 4; ++i) CHECK(predicted[i].leave == 150 + 1000 + 8'000 + from_2[i] * 1000);
    fence.eager_ppm = 0;
    predict(fence, sample, &predicted);
    // Member 0 goes on last, at 100 + 1000 + 10 000: members 1 and 2 hear of that after a round, member 3 after two.
    const int64_t rounds[] = {0, 1, 1, 2};
    for (size_t i = 0; i < 4; ++i) CHECK(predicted[i].leave == 100 + 1000 + 10'000 + rounds[i] * 1000);
    CHECK(predicted[0].hop_data == doctest::Approx(10 * kib));
    // Longer ones than 4 KiB take 5000 more.
    fence.eager_ppm = std::llround(4 * kib * 1e6);
    fence.own_data = 5000;
    predict(fence, sample, &predicted);
    const int64_t from_both[] = {1, 2, 1, 2};  // members 0 and 2
    for (size_t i = 0; i < 4; ++i) CHECK(predicted[i].leave == 150 + 5000 + 1000 + 8'000 + from_both[i] * 1000);
    CHECK(predicted[0].work_data == 1);
    // What noise hits meanwhile is lost in waiting.
    sample.noise[3] = {{5000, 9000}};
    predict(fence, sample, &predicted);
    CHECK(predicted[3].leave == 150 + 5000 + 1000 + 8'000 + 2 * 1000);
    CHECK(awaited_transfers({}, 4).empty());
    // Copies: taking 1 KiB takes 50 more.
    sample.noise[3].clear();
    fence.taking_data = 1024 * 50;
    CHECK(fence.taking(0, 0) == fence.own);
    predict(fence, sample, &predicted);
    const int64_t after_2[] = {1000, 2000, 600, 1600};  // member 0, which takes nothing, goes on 400 before it
    for (size_t i = 0; i < 4; ++i) CHECK(predicted[i].leave == 150 + 5000 + 1000 + 8'000 + 8 * 50 + after_2[i]);
}

TEST_CASE("each message of a fence is sent once and received once, by whom its sender means") {
    for (const uint32_t members : {2u, 3u, 4u, 7u, 16u})
        for (const Candidate& candidate : candidates({.operation = operation_fence, .waits = Waits::n_to_n}, members, Library::unknown)) {
            CAPTURE(to_string(candidate.pattern));
            CAPTURE(members);
            CHECK(candidate.pattern.twice);
            const Schedule& found = schedule(candidate.pattern, members, 0, false);
            std::vector<std::pair<int64_t, int64_t>> to(found.shares.size(), {-1, -1}), from = to;  // place, peer
            for (uint32_t place = 0; place < members; ++place)
                for (const Schedule::Step& step : found.steps[place]) {
                    if (step.kind == Schedule::Kind::transfers) continue;
                    auto& end = (step.kind == Schedule::Kind::send ? from : to)[step.message];
                    CHECK(end.first == -1);
                    end = {place, step.peer};
                }
            for (size_t message = 0; message < to.size(); ++message) {
                CHECK(from[message].first == to[message].second);
                CHECK(from[message].second == to[message].first);
            }
            const auto waits = [](const Schedule::Step& step) { return step.kind == Schedule::Kind::transfers; };
            for (const auto& steps : found.steps) CHECK(std::count_if(steps.begin(), steps.end(), waits) == 1);
        }
}

// ---- what a message costs its two calls where not all of that was seen --------------------------------------------------------------

namespace {

constexpr CostClass message{CostKind::receive_after_send, false, true, 0, 10'240}, waitall{CostKind::wait_own, true, false, 0, 2};

// Synchronous messages of 10 KiB whose receives were always posted first, and of 64 KiB whose sends always were.
MessageCosts seen_from_one_side(Faults faults) {
    Model model(faults);
    for (int i = 0; i < 8; ++i) {
        model.learn(message, 50'000, Model::clean);
        model.learn({CostKind::receive_after_post, false, true, 0, 65'536}, 214'000, Model::clean);
    }
    model.freeze();
    return receive_costs(model, message);
}

// Calls that all began while their messages were under way; calls that only post receives took 400.
Model all_waited(Faults faults) {
    Model model(faults);
    model.learn({CostKind::wait_own, true, false, 0, 0}, 400, Model::clean);
    for (const int64_t after : {20'000, 30'000, 40'000, 44'000}) {
        const TimeRange took{50'000 - after, 50'000 - after}, since{50'000, 50'000};
        model.learn_wait(waitall, message, {.slack = after, .took = took, .since_send = since, .since_both = since}, true);
    }
    model.freeze();
    return model;
}

}  // namespace

TEST_CASE("what the other side of a transfer costs counts more than what other sizes cost") {
    CHECK(seen_from_one_side({}).after_post.mid == 50'000);
    CHECK(seen_from_one_side({.extrapolate = true}).after_post.mid == 214'000);
}

TEST_CASE("what was seen of a size counts more than what was seen of others, from whichever side") {
    constexpr CostClass small{CostKind::receive_after_post, false, true, 0, 4137}, large{CostKind::send_after_post, false, true, 0, 16'384};
    Model model(Faults{});
    for (int i = 0; i < 8; ++i) {
        model.learn(small, 40'000, Model::clean);
        model.learn(large, 88'000, Model::clean);
    }
    model.freeze();
    CHECK(model.cost(small).mid == 40'000);
    const SendCosts send = send_costs(model, small);
    CHECK(send.after_post.mid == 40'000);
    CHECK(send.after_send.mid == 40'000);
}

TEST_CASE("where all calls waited, calls that only post receives tell what a call costs") {
    const Model model = all_waited({});
    CHECK(model.cost(waitall).mid <= 2'000);
    CHECK(receive_costs(model, message).after_send.mid == 50'000);
    const Model wrong = all_waited({.shortest_did_not_wait = true});
    CHECK(wrong.cost(waitall).mid >= 6'000);
}

TEST_CASE("what a call costs by other numbers of requests is at most what calls with its own number took") {
    const auto took = [](int64_t ns) {
        return WaitSamples::Sample{.slack = 0, .took = {ns, ns}, .since_send = {ns, ns}, .since_both = {ns, ns}};
    };
    const CostClass eight{CostKind::wait_own, true, false, 0, 8}, halo{CostKind::receive_after_send, false, false, 0, 8192};
    Model model(Faults{});
    model.learn({CostKind::wait_own, true, false, 0, 0}, 400, Model::clean);
    model.learn(waitall, 69'200, Model::clean);
    model.learn(halo, 45'000, Model::clean);
    for (const int64_t ns : {1'900, 40'000, 80'000}) model.learn_wait(eight, halo, took(ns), true);
    model.freeze();
    CHECK(model.cost(eight).extrapolated);
    CHECK(model.cost(eight).mid == 1'900);
    CHECK(model.cost(eight).high == 1'900);
}

TEST_CASE("with counters, calls without noise show how much of what others took longer was noise") {
    const auto noise_ppm = [](bool placed, Faults faults) {
        Model model(faults);
        const CostClass of{CostKind::receive_after_send};
        for (const int64_t ns : {100, 140})
            for (int i = 0; i < 10; ++i) {
                model.learn(of, ns, Model::clean);
                model.learn_between(of, ns, ns + 50);  // 50 ns of noise, all of which made it longer
            }
        model.freeze(placed);
        CHECK(model.cost(of).mid == 100);
        return model.cost(of).noise_ppm;
    };
    // Calls with noise are longer than usual by 50 ten times, and by 90 ten times, of which 50 can be noise: 1000 in all. As many without
    // noise are longer by 40 ten times: 400.
    CHECK(noise_ppm(false, {}) == 600'000);
    CHECK(noise_ppm(false, {.all_excess_is_noise = true}) == Cost::all_of_excess);
    CHECK(noise_ppm(true, {}) == Cost::all_of_excess);  // where it hit is known
}

TEST_CASE("where noise hit in all calls, most of which took the same, messages were under way then") {
    const auto cost = [](CostKind kind, bool absorbed, Faults faults) {
        Model model(faults);
        const CostClass of{kind};
        // 445'649 ns, and noise of 21 to 60 us in each: in that time, or beside it.
        for (int64_t noise = 21'000; noise <= 60'000; noise += 1'000) {
            const int64_t took = 445'649 + (absorbed ? 0 : noise);
            model.learn_between(of, took - noise, took, Model::clean);
        }
        model.freeze(true);
        return model.cost(of).mid;
    };
    CHECK(cost(CostKind::receive_after_post, true, {}) == 445'649);
    CHECK(cost(CostKind::receive_after_post, true, {.absorbed_noise_counts = true}) < 430'000);
    CHECK(cost(CostKind::receive_after_post, false, {}) == 445'649);
    CHECK(cost(CostKind::wait_own, true, {}) < 430'000);  // it waits for nothing, so its noise counts
}

TEST_CASE("the largest eager message is the one that the fewest samples contradict") {
    const auto waits = [](int64_t eager_of_5000, uint64_t size) {
        Model model;
        for (const uint64_t late : {2'000, 3'000, 5'000, 9'000}) model.learn_protocol(false, false, late, false, 30);
        for (const uint64_t eager : {100, 1'000}) {
            model.learn_protocol(false, false, eager, true, 40);
            model.learn_protocol(false, false, eager, false, 3);  // ended soon after a posting by chance
        }
        if (eager_of_5000 > 0) model.learn_protocol(false, false, 5'000, true, eager_of_5000);
        return model.rendezvous(false, false, size);
    };
    CHECK(waits(0, 2'000));
    CHECK_FALSE(waits(0, 1'000));
    CHECK(waits(1, 2'000));  // less than all that would be wrong
    CHECK_FALSE(waits(20, 2'000));
    CHECK_FALSE(waits(20, 5'000));
    CHECK(waits(20, 9'000));
    CHECK_FALSE(Model().rendezvous(false, false, 9'000));
}

TEST_CASE("a copy of an indexed map has entries of its own, and what was erased is gone") {
    HashedMap<uint64_t, int> map;
    map[3] = 1;
    HashedMap<uint64_t, int> copy = map;
    copy[3] = 2;
    CHECK(*map.get(3) == 1);
    HashedMap<uint64_t, int> moved = std::move(map);
    CHECK(*moved.get(3) == 1);
    moved.changed().erase(3);
    CHECK(moved.get(3) == nullptr);
    moved[3] = 5;
    CHECK(moved.at(3) == 5);
    CHECK(*copy.get(3) == 2);

    BinMap<int> bins;
    bins[-1] = 1;
    bins[7] = 2;
    BinMap<int> others = bins;
    others[7] = 3;
    CHECK(bins[7] == 2);
    CHECK(others[-1] == 1);
    CHECK(others.lower_bound(0)->second == 3);
}

TEST_CASE("what is remembered of messages' costs is what the model says") {
    Model model;
    for (const uint64_t size : {8, 100, 1000, 5000, 100'000})
        for (const CostKind kind : {CostKind::receive_after_send, CostKind::receive_after_post, CostKind::send_after_post})
            for (int64_t i = 0; i < 5; ++i)
                model.learn({kind, size != 1000, false, 0, size}, 500 + static_cast<int64_t>(size) * (1 + static_cast<int64_t>(kind)) + i,
                            Model::clean);
    model.learn_protocol(true, false, 5000, false, 100);
    model.freeze();
    const auto parts = [](const Cost& cost) {
        return std::tuple(cost.low, cost.mid, cost.high, cost.known, cost.spread, cost.extrapolated, cost.noise_ppm);
    };
    MessageCostCache cache;
    std::mt19937_64 random(1);
    for (int i = 0; i < 20'000; ++i) {
        const CostClass of{CostKind::receive_after_send, random() % 2 == 0, random() % 2 == 0, static_cast<uint16_t>(random() % 2),
                           random() % 400 * 31};
        const MessageCosts received = receive_costs(model, of), &remembered = cache.receive(model, of);
        REQUIRE(received.rendezvous == remembered.rendezvous);
        REQUIRE(std::tuple(parts(received.after_send), parts(received.after_post), parts(received.own)) ==
                std::tuple(parts(remembered.after_send), parts(remembered.after_post), parts(remembered.own)));
        const SendCosts sent = send_costs(model, of), &kept = cache.send(model, of);
        REQUIRE(std::tuple(parts(sent.after_send), parts(sent.after_post), parts(sent.own)) ==
                std::tuple(parts(kept.after_send), parts(kept.after_post), parts(kept.own)));
    }
}

TEST_CASE("a prediction is the same whatever was asked before it") {
    std::vector<InstanceSample> samples(3);
    for (InstanceSample& sample : samples) {
        sample.enter = {0, 700, 100, 1500};
        sample.leave = sample.enter;
        sample.noise.resize(4);
    }
    samples[1].root = 2;
    samples[1].noise[2] = {{200, 900, 0, 0, 1}};
    samples[2].sizes = BlockSizes({1'000'000, 10, 500'000, 200'000}, 1'700'010);
    std::vector<Structure> structures;
    for (const Pattern& pattern : {Pattern{.down = Shape::binomial}, Pattern{.up = Shape::everyone, .cargo_up = Cargo::theirs},
                                   Pattern{.up = Shape::linear}, Pattern{.up = Shape::ring, .cargo_up = Cargo::parts}})
        for (const int64_t eager : {Structure::all_eager, int64_t{0}, int64_t{200'000}})
            for (const bool link : {false, true})
                for (const int64_t own_data : {0, 40'000})
                    structures.push_back(
                        {.pattern = pattern, .hop = 1000, .own = 200, .own_data = own_data, .eager_ppm = eager, .link = link});
    const auto leaves = [](const Structure& structure, const InstanceSample& sample) {
        std::vector<Prediction> ways;
        predict(structure, sample, &ways);
        std::vector<std::tuple<int64_t, double, double, double, double>> list;
        for (const Prediction& way : ways) list.emplace_back(way.leave, way.works, way.hops, way.work_data, way.hop_data);
        return list;
    };
    for (const Structure& structure : structures)
        for (const InstanceSample& sample : samples) {
            decltype(leaves(structure, sample)) alone;
            std::thread([&] { alone = leaves(structure, sample); }).join();
            for (const Structure& before : structures)
                for (const InstanceSample& other : samples) {
                    leaves(before, other);
                    REQUIRE(leaves(structure, sample) == alone);
                }
        }
}
