// SPDX-License-Identifier: BSD-3-Clause
// What a message costs its two calls where not all of that was seen.
#include "replay/model/message_costs.hpp"

#include <doctest/doctest.h>

#include "replay/model/model.hpp"

namespace {

using namespace polter::replay;

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

TEST_CASE("where all calls waited, calls that only post receives tell what a call costs") {
    const Model model = all_waited({});
    CHECK(model.cost(waitall).mid <= 2'000);
    CHECK(receive_costs(model, message).after_send.mid == 50'000);
    const Model wrong = all_waited({.shortest_did_not_wait = true});
    CHECK(wrong.cost(waitall).mid >= 6'000);
}
