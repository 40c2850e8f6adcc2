// SPDX-License-Identifier: BSD-3-Clause
// `polter replay --attribution`: records the event graph during the replay pass, reads it backward, and adds what it finds to the result.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "event_costs.hpp"
#include "replay/base/mutations.hpp"
#include "replay/engine/engine.hpp"
#include "replay/graph/slack_pass.hpp"
#include "replay/scenario/scenario.hpp"

namespace polter::replay {

struct Attribution;
class Group;

class CostAnalysis {
  public:
    // Throws InputError if no temporary file can be made. All arguments must outlive it. `group`: null: the only process.
    CostAnalysis(const Scenarios& scenarios, size_t threads, Group* group, const Faults& faults);
    Recorder& recorder() { return recorder_; }

    struct Trace {
        const Definitions& definitions;
        const Engine& replayed;
        const Payment& payment;
        const std::map<Engine::CulpritKey, std::pair<int64_t, int64_t>>& culprits;  // local noise
        int64_t first = 0, accumulated = 0;
    };
    // After the pass: splits the attribution's rows by culprit and rank of origin. Throws InputError. Of several processes only the first,
    // which reads all graphs, has the answer. `slack`: called with each node's, if not empty.
    std::optional<CostReport> finish(const Trace& trace, size_t costliest, Attribution& attribution,
                                     const std::function<void(uint64_t node, int64_t slack)>& slack = {});

    // After finish(), of a single process: the nodes, last to first; where the critical path of a watched scenario ends.
    void backward(const EventGraph::Visit& visit) const { graph_.backward(visit); }
    uint64_t last_node(const Engine& replayed, size_t watched) const;

  private:
    CostReport analyse(const std::function<void(const EventGraph::Visit&)>& graph, const Trace& trace, size_t costliest,
                       Attribution& attribution, const std::function<void(uint64_t node, int64_t slack)>& slack) const;

    const Scenarios& scenarios_;
    Group* group_;
    const Faults faults_;
    EventGraph graph_;
    Recorder recorder_;
};

}  // namespace polter::replay
