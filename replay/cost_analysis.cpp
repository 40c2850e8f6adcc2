// SPDX-License-Identifier: BSD-3-Clause
#include "cost_analysis.hpp"

#include <stdexcept>

#include "origins.hpp"
#include "payment.hpp"

namespace polter::replay {

namespace {

std::vector<size_t> watched_lanes(const Scenarios& scenarios) {
    std::vector<size_t> lanes{0, scenarios.all()};
    for (const size_t account : scenarios.players()) lanes.push_back(scenarios.all_but_lane(account));
    return lanes;
}

// By lane, the thread of the rank that ends last in it; of several that of the lowest rank.
std::vector<uint32_t> last_threads(const Engine& engine, const Recorder& recorder) {
    std::vector<uint32_t> list;
    for (size_t w = 0; w < recorder.watched(); ++w) {
        const Thread* last = nullptr;
        const auto end = [&](const Thread& thread) { return thread.last - thread.delay[recorder.lane(w)]; };
        for (const auto& thread : engine.threads()) {
            if (!thread->carries_rank || !thread->started) continue;
            if (!last || end(*thread) > end(*last) || (end(*thread) == end(*last) && thread->rank < last->rank)) last = thread.get();
        }
        list.push_back(last->index);
    }
    return list;
}

}  // namespace

CostAnalysis::CostAnalysis(const Scenarios& scenarios, size_t threads, const Faults& faults)
    : scenarios_(scenarios),
      faults_(faults),
      recorder_(graph_, scenarios.lanes(), watched_lanes(scenarios), threads, faults.measured_slack) {}

CostReport CostAnalysis::finish(const Trace& trace, size_t costliest, Attribution& attribution,
                                const std::function<void(uint64_t node, int64_t slack)>& slack) {
    graph_.finish();
    std::vector<bool> carries;
    std::vector<int64_t> ranks;
    for (const auto& thread : trace.replayed.threads()) {
        carries.push_back(thread->carries_rank && thread->started);
        ranks.push_back(thread->rank);
    }
    BackwardOptions options;
    options.costliest = costliest;
    options.seen = slack;
    options.window = [&](int64_t time) { return trace.payment.window(time); };
    for (const size_t account : scenarios_.players()) options.players.push_back(static_cast<uint16_t>(account));
    options.dropped_edge = faults_.dropped_edge;
    options.keep_losses = faults_.keep_losses;
    const Backward backward = backward_pass(graph_, recorder_, last_threads(trace.replayed, recorder_), carries, options);

    // What the graph says of the end must be what the replay said: else it is not the replay's graph.
    int64_t came_through = 0;
    for (const auto& [origin, ns] : backward.measured) came_through += ns;
    // Where work is handed out in another order, somebody may be later than in the measured run: more is lost than was gathered.
    const bool reordered = trace.replayed.flaws()[static_cast<size_t>(Flaw::handed_out)].count > 0;
    const bool whole = recorder_.consistent() && backward.least_slack >= 0 && (backward.unexplained >= 0 || reordered) &&
                       came_through + backward.unexplained == trace.accumulated;
    const bool faulty = faults_.measured_slack || faults_.dropped_edge || faults_.keep_losses;
    if (!whole && !faulty) throw std::logic_error("the event graph contradicts the replay");

    split_by_origin(attribution, trace.definitions, backward, scenarios_.players(), ranks, trace.culprits);
    CostReport report = report_costs(trace.definitions, trace.replayed, recorder_, backward, trace.accumulated, trace.first);
    report.spilled_bytes = static_cast<int64_t>(graph_.bytes());
    return report;
}

}  // namespace polter::replay
