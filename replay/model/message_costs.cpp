// SPDX-License-Identifier: BSD-3-Clause
#include "message_costs.hpp"

#include <algorithm>

namespace polter::replay {

namespace {

struct Known {
    Cost receive_after_send, receive_after_post, send_after_send, send_after_post;
};

Known known(const Model& model, CostClass of) {
    const auto ask = [&](CostKind kind) {
        of.kind = kind;
        Cost cost = model.cost(of);
        if (model.faults().extrapolate) cost.extrapolated = false;
        return cost;
    };
    return {ask(CostKind::receive_after_send), ask(CostKind::receive_after_post), ask(CostKind::send_own), ask(CostKind::send_after_post)};
}

// What was never seen costs what the first of the others does that was, or down to half of that: the transfer is the same, but the calls'
// own work may differ. Or it costs what its upper limit allows.
// So does what was seen of other sizes only, if the other side was seen of this one. Others that were seen of this size come first.
void borrow(Cost& cost, std::initializer_list<Cost> others) {
    const bool extrapolated = cost.known;
    if (cost.known && (!cost.extrapolated)) return;
    const int64_t limit = extrapolated ? 0 : cost.high;
    const bool any_of_size =
        std::any_of(others.begin(), others.end(), [](const Cost& other) { return other.known && !other.extrapolated; });
    for (const Cost& other : others) {
        if (!other.known || ((extrapolated || any_of_size) && other.extrapolated)) continue;
        cost = {other.low / 2, other.mid, other.high, false};
        if (limit > 0) {
            cost.low = std::min(cost.low, limit);
            cost.mid = std::min(cost.mid, limit);
            cost.high = std::min(cost.high, limit);
        }
        return;
    }
    if (extrapolated) return;
    cost.mid = limit;
    for (const Cost& other : others)
        if (other.high > 0 && (cost.high == 0 || other.high < cost.high)) cost.mid = cost.high = other.high;
}

bool is_rendezvous(const Model& model, const CostClass& of) {
    return of.synchronous || model.rendezvous(of.same_host, of.operation == partitioned_messages, of.size);
}

}  // namespace

// On one host the transfer may be a copy that the call makes.
static int64_t most_own_work(const Cost& after_send, const Cost& after_post, const CostClass& of) {
    const int64_t transfer = std::min(after_send.mid, after_post.mid);
    return of.same_host ? transfer : std::min(transfer, own_work_ns(of.size));
}

MessageCosts receive_costs(const Model& model, CostClass of) {
    const Known costs = known(model, of);
    MessageCosts message{is_rendezvous(model, of), costs.receive_after_send, costs.receive_after_post, {}};
    if (message.rendezvous) {  // both are the transfer, which the network drives
        borrow(message.after_send, {costs.receive_after_post, costs.send_after_send, costs.send_after_post});
        borrow(message.after_post, {costs.receive_after_send, costs.send_after_post, costs.send_after_send});
        message.own.high = most_own_work(message.after_send, message.after_post, of);
        return message;
    }
    // An eager message that is already there costs the receiver's own work alone. Where that was never seen it is little, and at most
    // the shortest receive. (Longer than such work takes was a transfer, of a size that nobody saw waiting for its receiver.)
    if (message.after_post.extrapolated && !of.same_host && message.after_post.mid > own_work_ns(of.size))
        message.after_post = {0, 0, message.after_post.high, false};
    if (!message.after_post.known) {
        message.after_post.mid = 0;
        if (message.after_post.high == 0 || (message.after_send.known && message.after_send.mid < message.after_post.high))
            message.after_post.high = message.after_send.high;
    }
    if (!message.after_send.known) {
        const int64_t limit = message.after_send.high;
        message.after_send = {0, message.after_post.mid, std::max(message.after_post.high, limit), false};
    }
    message.own = message.after_post;
    return message;
}

SendCosts send_costs(const Model& model, CostClass of) {
    const Known costs = known(model, of);
    SendCosts send{costs.send_after_send, costs.send_after_post, {}};
    borrow(send.after_send, {costs.send_after_post, costs.receive_after_send, costs.receive_after_post});
    borrow(send.after_post, {costs.send_after_send, costs.receive_after_post, costs.receive_after_send});
    send.own.high = most_own_work(send.after_send, send.after_post, of);
    return send;
}

}  // namespace polter::replay
