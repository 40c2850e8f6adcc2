// SPDX-License-Identifier: BSD-3-Clause
// Which of several messages a Waitany or a Waitsome completes first.
//
// In words: it takes the message that came first. Where the scenario "all" has an earlier wait of the thread last beyond the arrival of a
// message that was taken later, the program would have taken that one first, and would have done its work on it in the rest of that wait.
// The estimate keeps the measured order; the earliest end allows for all of that idle time.
#include <algorithm>

#include "internal.hpp"

namespace polter::replay::rules {

namespace {

constexpr size_t most_waits = 64;  // of a thread, looked back

// Of one message: when it was there.
struct Arrived {
    int64_t measured = 0, approximated = 0;
};

Arrived arrival(Engine& engine, const Thread& thread, const Match& match) {
    const MessageCosts& costs = of(engine).scratch->costs.receive(engine.model(), message_class(CostKind::receive_after_send, match));
    const size_t all = engine.lanes().all;
    const auto at = [&](int64_t time, const int64_t* delay) {
        const int64_t measured = std::min(time, thread.leave);
        return Arrived{measured, measured - delay[all]};
    };
    Arrived came = at(match.send_time + costs.after_send.mid, match.send_delay);
    if (costs.rendezvous) {
        const Arrived after_post = at(match.post_time + costs.after_post.mid, match.post_delay);
        came = {std::max(came.measured, after_post.measured), std::max(came.approximated, after_post.approximated)};
    }
    return came;
}

// How long the wait went on after that; from now on it ends there.
int64_t cut(int64_t begin, int64_t& end, int64_t time) {
    const int64_t rest = std::max<int64_t>(0, end - std::max(begin, time));
    end -= rest;
    return rest;
}

}  // namespace

int64_t idle_by_order(Engine& engine, const Thread& thread) {
    const Lanes& lanes = engine.lanes();
    if (engine.learning() || lanes.count == 0 || engine.faults().keep_completion_order) return 0;
    if (thread.kind != CallKind::wait_any && thread.kind != CallKind::poll_any) return 0;
    static thread_local std::vector<Arrived> messages;
    messages.clear();
    for (const Dependency& dependency : thread.dependencies) {
        if (dependency.kind != Dependency::Kind::message || dependency.notice || !dependency.match || !dependency.match->sent) continue;
        if (dependency.match->of_farm) return 0;  // its tasks are reassigned
        messages.push_back(arrival(engine, thread, *dependency.match));
    }
    if (messages.empty()) return 0;
    const bool loop = thread.polling.active;
    const int64_t begin = loop ? thread.polling.begin : thread.enter;
    WaitForAny wait{begin, begin, begin, begin};
    wait.approximated_begin -= (loop ? thread.polling.delay : thread.delay)[lanes.all];
    wait.approximated_end = wait.approximated_begin;
    for (const Arrived& message : messages) {
        wait.end = std::max(wait.end, message.measured);
        wait.approximated_end = std::max(wait.approximated_end, message.approximated);
    }
    auto& waits = of(engine).waits_for_any[thread.index];
    waits.push_back(wait);
    if (waits.size() > most_waits) waits.erase(waits.begin());
    int64_t change = 0;
    for (const Arrived& message : messages)
        for (WaitForAny& before : waits) {
            const int64_t measured = cut(before.begin, before.end, message.measured);  // by so much the costs are wrong
            change += std::max<int64_t>(0, cut(before.approximated_begin, before.approximated_end, message.approximated) - measured);
        }
    std::erase_if(waits, [](const WaitForAny& w) { return w.approximated_begin == w.approximated_end; });
    return change;
}

void allow_other_order(Engine& engine, Thread& thread, int64_t change) {
    if (change <= 0) return;
    engine.count(Flaw::completion_order);
    engine.leaves_open(Flaw::completion_order, thread.enter, thread.leave, change);
    const Lanes& lanes = engine.lanes();
    if (!lanes.bounded()) return;
    int64_t& low = thread.delay[lanes.low];
    low = std::max(low, std::min(low + change, engine.facts().most_delay));
}

}  // namespace polter::replay::rules
