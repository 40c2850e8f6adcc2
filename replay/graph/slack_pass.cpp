// SPDX-License-Identifier: BSD-3-Clause
#include "slack_pass.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace polter::replay {

namespace {

constexpr int64_t nobody_waits = INT64_MAX / 4;

// The costliest events. An event may count at several nodes (the end of its call, the departure of its message): its cost is the greatest
// of these.
class Costliest {
  public:
    explicit Costliest(size_t most) : most_(most) {}
    void add(const CostlyEvent& event) {
        const auto key = [](const CostlyEvent& e) { return std::tie(e.thread, e.begin, e.account, e.culprit); };
        const auto same = std::find_if(list_.begin(), list_.end(), [&](const CostlyEvent& e) { return key(e) == key(event); });
        if (same != list_.end()) {
            // a total order: the order of visiting must not matter
            const auto worth = [](const CostlyEvent& e) { return std::make_tuple(e.cost, e.duration, e.place); };
            if (worth(*same) >= worth(event)) return;
            list_.erase(same);
        }
        const auto before = [&](const CostlyEvent& a, const CostlyEvent& b) {
            return a.cost != b.cost ? a.cost > b.cost : key(a) < key(b);
        };
        if (list_.size() == most_ && !before(event, list_.back())) return;
        list_.insert(std::upper_bound(list_.begin(), list_.end(), event, before), event);
        if (list_.size() > most_) list_.pop_back();
    }
    int64_t least_that_counts() const { return list_.size() < most_ ? 1 : list_.back().cost; }
    std::vector<CostlyEvent> take() { return std::move(list_); }

  private:
    size_t most_;
    std::vector<CostlyEvent> list_;
};

// Follows one critical path from its end back to its begin.
class Walker {
  public:
    // `path`: null if only the noise on it matters; `only`: the source that counts, −1: all.
    Walker(size_t watched, uint64_t end, int64_t lost_at_end, int32_t only, CriticalPath* path, Origins* origins,
           const BackwardOptions& options)
        : bit_(uint64_t{1} << watched),
          approximated_(watched == 1),
          next_(end),
          debt_(lost_at_end),
          only_(only),
          path_(path),
          origins_(origins),
          options_(options) {}

    void visit(uint64_t number, const GraphNode& node) {
        if (number != next_) return;
        // On the measured path the delays themselves give the loss: where messages have another order without the noise, an edge's slack is
        // only part of it.
        if (bit_ == 1 && !options_.keep_losses && later_known_) debt_ += node.delay + later_noise_ - later_.delay;
        later_noise_ = 0;
        for (const GraphNoise& noise : node.noise) later_noise_ += noise.counted;
        if (path_) measure(node);
        if (origins_) collect(node);
        next_ = EventGraph::none;
        for (const GraphEdge& edge : node.edges) {
            if (!(edge.binds & bit_)) continue;
            next_ = edge.from;
            if (bit_ != 1 && !options_.keep_losses) debt_ += edge.slack;
        }
        if (path_ && next_ == EventGraph::none) spend(node, time(node));
    }

    // Delay that the path's end gained without noise on the path, because messages have another order.
    int64_t unexplained() const { return -debt_; }

  private:
    int64_t time(const GraphNode& node) const { return node.time - (approximated_ ? node.delay : 0); }

    // Accounts for the time from this node to the next one on the path.
    void measure(const GraphNode& node) {
        if (later_known_) {
            if (later_.thread == GraphNode::no_thread) later_.thread = thread_;
            spend(later_, time(node));
        }
        if (node.thread != GraphNode::no_thread) {
            if (thread_ != GraphNode::no_thread && thread_ != node.thread) ++path_->hops;
            thread_ = node.thread;
        }
        later_ = node;
        later_known_ = true;
        if (!approximated_)
            for (const GraphNoise& noise : node.noise) path_->noise[noise.account] += noise.counted;
    }

    void spend(const GraphNode& node, int64_t since) {
        int64_t ns = node.edges.empty() ? 0 : time(node) - since;
        int64_t computed = 0;
        for (const auto& [region, in_region] : node.computed) {
            int64_t own = in_region;
            for (const GraphNoise& noise : node.noise)
                if (approximated_ && noise.place.caller == region) own -= noise.counted;
            path_->by_place[{no_region, region}] += own;
            computed += own;
        }
        if (node.edges.empty()) ns = computed;  // the begin of the thread
        path_->by_thread[node.thread] += ns;
        path_->by_place[node.place] += ns - computed;
    }

    // The noise gathered last is lost first. Latest first.
    void collect(const GraphNode& node) {
        for (auto noise = node.noise.rbegin(); noise != node.noise.rend(); ++noise) {
            if (only_ >= 0 && noise->account != only_) continue;
            const int64_t lost = std::clamp<int64_t>(debt_, 0, noise->counted);
            debt_ -= lost;
            if (noise->counted > lost)
                (*origins_)[{noise->account, noise->culprit, noise->thread, options_.window(noise->begin)}] += noise->counted - lost;
        }
    }

    uint64_t bit_;
    bool approximated_, later_known_ = false;
    uint64_t next_;
    int64_t debt_, later_noise_ = 0;
    int32_t only_;
    CriticalPath* path_;
    Origins* origins_;
    const BackwardOptions& options_;
    GraphNode later_;
    uint32_t thread_ = GraphNode::no_thread;
};

}  // namespace

Backward backward_pass(const std::function<void(const EventGraph::Visit&)>& graph, const Recorder& recorder,
                       const std::vector<uint32_t>& thread_last, const std::vector<bool>& carries, const BackwardOptions& options) {
    Backward result;
    result.all_but.resize(options.players.size());
    const auto& ends = recorder.ends();
    int64_t last = INT64_MIN;
    for (size_t thread = 0; thread < ends.size(); ++thread)
        if (carries[thread] && ends[thread].node != EventGraph::none) last = std::max(last, ends[thread].time - ends[thread].delay);

    std::unordered_map<uint64_t, int64_t> slacks;  // of nodes that have not been read yet, by number
    for (size_t thread = 0; thread < ends.size(); ++thread)
        if (carries[thread] && ends[thread].node != EventGraph::none)
            slacks[ends[thread].node] = last - ends[thread].time + ends[thread].delay;

    std::vector<Walker> walkers;
    for (size_t watched = 0; watched < thread_last.size(); ++watched) {
        const Recorder::End& end = ends[thread_last[watched]];
        const int32_t only = watched < 2 ? -1 : options.players[watched - 2];
        Origins* origins = watched == 0 ? &result.measured : watched == 1 ? nullptr : &result.all_but[watched - 2];
        CriticalPath* path = watched == 0 ? &result.before : watched == 1 ? &result.after : nullptr;
        walkers.emplace_back(watched, end.node, options.keep_losses ? 0 : last - end.time + end.delay, only, path, origins, options);
    }

    Costliest costliest(options.costliest);
    graph([&](uint64_t number, const GraphNode& node) {
        int64_t slack = nobody_waits;
        if (const auto found = slacks.find(number); found != slacks.end()) {
            slack = found->second;
            slacks.erase(found);
        }
        result.least_slack = std::min(result.least_slack, slack);
        if (options.seen) options.seen(number, slack);
        for (const GraphEdge& edge : node.edges) {
            if (options.dropped_edge && &edge != &node.edges.back()) continue;
            if (slack == nobody_waits) continue;
            int64_t& before = slacks.try_emplace(edge.from, nobody_waits).first->second;
            before = std::min(before, slack + edge.slack);
        }
        result.most_open = std::max(result.most_open, slacks.size());
        for (const GraphNoise& noise : node.noise)
            if (const int64_t cost = noise.effect - slack; cost >= costliest.least_that_counts())
                costliest.add({noise.thread, noise.culprit, noise.account, noise.place, noise.begin, noise.duration, cost});
        for (Walker& walker : walkers) walker.visit(number, node);
    });
    result.unexplained = walkers[0].unexplained();
    result.costliest = costliest.take();
    return result;
}

}  // namespace polter::replay
