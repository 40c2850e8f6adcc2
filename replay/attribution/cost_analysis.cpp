// SPDX-License-Identifier: BSD-3-Clause
#include "cost_analysis.hpp"

#include <stdexcept>

#include "origins.hpp"
#include "replay/graph/end_delay.hpp"
#include "replay/parallel/lending.hpp"
#include "replay/parallel/results.hpp"

namespace polter::replay {

namespace {

std::vector<size_t> watched_lanes(const Scenarios& scenarios) {
    std::vector<size_t> lanes{0, scenarios.all()};
    for (const size_t account : scenarios.players()) lanes.push_back(scenarios.all_but_lane(account));
    return lanes;
}

// By lane, the thread of the rank that ends last; of several, the lowest rank.
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

CostAnalysis::CostAnalysis(const Scenarios& scenarios, size_t threads, Group* group, const Faults& faults)
    : scenarios_(scenarios),
      group_(group),
      faults_(faults),
      graph_(group ? static_cast<uint64_t>(group->rank()) : 0, group ? static_cast<uint64_t>(group->size()) : 1, faults.local_numbers),
      recorder_(graph_, scenarios.lanes(), watched_lanes(scenarios), threads, faults.measured_slack) {}

std::optional<CostReport> CostAnalysis::finish(const Trace& trace, size_t costliest, Attribution& attribution,
                                               const std::function<void(uint64_t node, int64_t slack)>& slack) {
    graph_.finish();
    if (!group_) {
        CostReport report =
            analyse([this](const EventGraph::Visit& visit) { graph_.backward(visit); }, trace, costliest, attribution, slack);
        report.spilled_bytes = graph_.bytes();
        return report;
    }
    const std::vector<int64_t> bytes = gather_recorded(*group_, trace.replayed, recorder_, graph_.bytes());
    const ReadAt own = [this](void* to, size_t count, int64_t at) { graph_.read(to, count, at); };
    if (group_->rank() > 0) {
        lend(*group_, own);
        return std::nullopt;
    }
    Borrowing borrowing(*group_);
    std::vector<EventGraph::Part> parts;
    for (size_t process = 0; process < bytes.size(); ++process)
        parts.push_back({bytes[process], process == 0 ? own : borrowing.of(static_cast<int>(process))});
    CostReport report =
        analyse([&](const EventGraph::Visit& visit) { EventGraph::backward(parts, visit); }, trace, costliest, attribution, slack);
    borrowing.end();
    for (const EventGraph::Part& part : parts) report.spilled_bytes += part.bytes;
    return report;
}

uint64_t CostAnalysis::last_node(const Engine& replayed, size_t watched) const {
    return recorder_.ends()[last_threads(replayed, recorder_)[watched]].node;
}

CostReport CostAnalysis::analyse(const std::function<void(const EventGraph::Visit&)>& graph, const Trace& trace, size_t costliest,
                                 Attribution& attribution, const std::function<void(uint64_t node, int64_t slack)>& slack) const {
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
    const Backward backward = backward_pass(graph, recorder_, last_threads(trace.replayed, recorder_), carries, options);

    // The end in the graph must be the replay's: otherwise the graph is not complete.
    int64_t propagated = 0;
    for (const auto& [origin, ns] : backward.measured) propagated += ns;
    // Where something is later than in the measured run, more delay may be lost than was gathered.
    const bool whole = recorder_.consistent() && backward.least_slack >= 0 && (backward.unexplained >= 0 || recorder_.anything_later()) &&
                       propagated + backward.unexplained == trace.accumulated;
    const bool faulty = faults_.measured_slack || faults_.dropped_edge || faults_.keep_losses;
    if (!whole && !faulty) throw std::logic_error("the event graph contradicts the replay");

    split_by_origin(attribution, trace.definitions, backward, scenarios_.players(), ranks, trace.culprits, faults_.windows_apart);
    return report_costs(trace.definitions, trace.replayed, recorder_, backward, trace.accumulated, trace.first);
}

}  // namespace polter::replay
