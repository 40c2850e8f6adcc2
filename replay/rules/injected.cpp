// SPDX-License-Identifier: BSD-3-Clause
// Injected noise inside calls.
//
// Rule: in a wait state noise costs nothing except what lasts beyond it. The completion overhead is work, and takes as much longer as is
// stolen from it; so is what a send does before its message leaves. In a collective that is followed through its messages every step of a
// member is work (model/collective_execution.cpp); in any other only the member's own completion overhead is hit.
#include <algorithm>

#include "internal.hpp"
#include "replay/scenario/injection.hpp"

namespace polter::replay::rules {

void apply_injected(Engine& engine, Thread& thread, const CallEnd& end, const int64_t* entered) {
    for (size_t lane = 0; lane < engine.lanes().count; ++lane) {
        if (!engine.injection()->hits(lane)) continue;
        const int64_t leave = thread.leave - thread.delay[lane], enter = thread.enter - entered[lane];
        int64_t begin = leave - end.tail;
        if (!end.elastic) begin = std::max(begin, enter);
        begin = std::min(begin, leave);
        if (engine.faults().no_absorption) begin = std::min(enter, leave);
        thread.delay[lane] = thread.leave - engine.injection()->clock(thread.rank, lane).finish(begin, leave - begin);
    }
}

void apply_injected_departure(Engine& engine, const Thread& thread, Match& match, int64_t own_work) {
    if (!engine.injection() || !thread.carries_rank) return;
    engine.injection()->look_ahead(thread.rank, thread.enter, thread.enter + std::min(own_work, thread.leave - thread.enter),
                                   match.send_delay);
}

}  // namespace polter::replay::rules
