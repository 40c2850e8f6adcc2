// SPDX-License-Identifier: BSD-3-Clause
#include "ways.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace polter::replay {

namespace {

constexpr size_t most_steps_each = 200;

uint64_t critical_predecessor(const GraphNode& node, uint64_t scenario_bit) {
    for (const GraphEdge& edge : node.edges)
        if (edge.binds & scenario_bit) return edge.from;
    return EventGraph::none;
}

// The rank on which a critical path spends most of each bucket.
class PathInTime {
  public:
    PathInTime(uint64_t end, bool approximated, const WaysOptions& options, int64_t bucket_ns)
        : next_(end), approximated_(approximated), options_(options), bucket_ns_(bucket_ns), spent_(path_buckets) {}

    void visit(uint64_t number, const GraphNode& node) {
        if (number != next_) return;
        const int64_t time = node.time - (approximated_ ? node.delay : 0) - options_.first;
        if (node.thread != GraphNode::no_thread) rank_ = options_.ranks[node.thread];
        if (later_rank_ >= 0) spend(later_rank_, time);
        later_time_ = time;
        later_rank_ = rank_;
        next_ = critical_predecessor(node, approximated_ ? 2 : 1);
    }

    std::vector<int32_t> ranks() const {
        std::vector<int32_t> list(path_buckets, -1);
        for (size_t i = 0; i < path_buckets; ++i) {
            int64_t most = 0;
            for (const auto& [rank, ns] : spent_[i])
                if (ns > most || (ns == most && rank < list[i])) {
                    most = ns;
                    list[i] = rank;
                }
        }
        return list;
    }

  private:
    void spend(int32_t rank, int64_t since) {
        int64_t at = std::clamp<int64_t>(since, 0, options_.span);
        const int64_t upto = std::clamp<int64_t>(later_time_, 0, options_.span);
        while (at < upto) {
            const int64_t bucket = at / bucket_ns_, end = std::min(upto, (bucket + 1) * bucket_ns_);
            spent_[static_cast<size_t>(bucket)][rank] += end - at;
            at = end;
        }
    }

    uint64_t next_;
    bool approximated_;
    const WaysOptions& options_;
    int64_t bucket_ns_, later_time_ = 0;
    int32_t rank_ = -1, later_rank_ = -1;
    std::vector<std::unordered_map<int32_t, int64_t>> spent_;
};

// All ways at once: those that meet at a node go on together, but each ends where its own delay began.
class Followers {
  public:
    Followers(const WaysOptions& options, Ways& ways) : options_(options), ways_(ways), most_(ways.list.size(), 0) {
        for (size_t i = 0; i < ways_.list.size(); ++i) waiting_[ways_.list[i].node].ways.push_back(i);
    }

    void visit(uint64_t number, const GraphNode& node) {
        const auto found = waiting_.find(number);
        if (found == waiting_.end()) return;
        const Waiting waiting = std::move(found->second);
        waiting_.erase(found);
        const bool shown = node.thread != GraphNode::no_thread;
        const size_t step = shown && ways_.steps.size() < most_steps ? ways_.steps.size() : SIZE_MAX;
        if (step != SIZE_MAX) {
            ways_.steps.push_back({options_.ranks[node.thread], node.time - options_.first, node.delay, SIZE_MAX});
            for (const size_t later : waiting.later) ways_.steps[later].next = step;
        }
        const uint64_t from = critical_predecessor(node, 1);
        Waiting* further = nullptr;
        for (const size_t i : waiting.ways) {
            Way& way = ways_.list[i];
            if (shown && step == SIZE_MAX) continue;  // no more room
            if (shown) {
                if (way.steps == 0) way.first = step;
                ++way.steps;
            }
            if (shown && node.delay <= way.before) {
                way.complete = true;
                continue;
            }
            collect(node, i);
            if (from == EventGraph::none) way.complete = true;  // the beginning of a rank
            if (from == EventGraph::none || way.steps >= most_steps_each) continue;
            if (!further) further = &waiting_[from];
            further->ways.push_back(i);
        }
        if (!further) return;
        if (step != SIZE_MAX)
            further->later.push_back(step);
        else
            further->later.insert(further->later.end(), waiting.later.begin(), waiting.later.end());
    }

  private:
    struct Waiting {
        std::vector<size_t> ways, later;  // later: the steps that follow
    };

    void collect(const GraphNode& node, size_t i) {
        Way& way = ways_.list[i];
        for (const GraphNoise& noise : node.noise) {
            way.noise_ns += noise.counted;
            if (noise.counted <= most_[i]) continue;
            most_[i] = noise.counted;
            way.origin = index_of(noise);
        }
    }

    size_t index_of(const GraphNoise& noise) {
        const auto [at, is_new] = noise_.try_emplace({noise.thread, noise.begin, noise.account, noise.culprit}, ways_.noise.size());
        if (is_new)
            ways_.noise.push_back(
                {options_.ranks[noise.thread], noise.begin - options_.first, noise.duration, noise.account, noise.culprit});
        return at->second;
    }

    const WaysOptions& options_;
    Ways& ways_;
    std::unordered_map<uint64_t, Waiting> waiting_;
    std::map<std::tuple<uint32_t, int64_t, uint16_t, uint32_t>, size_t> noise_;
    std::vector<int64_t> most_;
};

}  // namespace

void follow_back(const std::function<void(const EventGraph::Visit&)>& graph, const WaysOptions& options, Ways& ways) {
    ways.bucket_ns = options.span / static_cast<int64_t>(path_buckets) + 1;
    PathInTime before(options.before_end, false, options, ways.bucket_ns), after(options.after_end, true, options, ways.bucket_ns);
    Followers followers(options, ways);
    graph([&](uint64_t number, const GraphNode& node) {
        before.visit(number, node);
        after.visit(number, node);
        followers.visit(number, node);
    });
    ways.before = before.ranks();
    ways.after = after.ranks();
    for (Way& way : ways.list) {
        way.enter -= options.first;
        way.leave -= options.first;
    }
}

}  // namespace polter::replay
