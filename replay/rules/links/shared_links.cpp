// SPDX-License-Identifier: BSD-3-Clause
// In words: time goes from one beginning or end of a transfer to the next. In between, every transfer goes on at its rate: all rise
// together until a link is full, whose transfers then keep theirs; the others rise on. A transfer alone has the rate 1. A beginning or an
// end changes only the rates of those that are connected with it by links on which there is too much.
#include "shared_links.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>
#include <tuple>

namespace polter::replay {

namespace {

constexpr int64_t most_steps = 1'000'000'000;

class Flows {
  public:
    Flows(const std::vector<Flow>& transfers, double reverse) : transfers_(transfers), reverse_(reverse), states_(transfers.size()) {
        uint32_t hosts = 0;
        for (const Flow& one : transfers) hosts = std::max({hosts, one.from + 1, one.to + 1});
        links_.resize(2 * static_cast<size_t>(hosts));
    }
    bool run(std::vector<int64_t>& later);

  private:
    struct State {
        double left = 0, rate = 0, since = 0;  // `left` at the time `since`
        double next = 0;                       // the rate that is being found
        uint32_t version = 0;                  // of the rate: an end that was foreseen by another one does not come
        uint32_t seen = 0;
    };
    struct Link {
        double weight = 0;                               // of all that is on it
        std::vector<std::pair<uint32_t, double>> flows;  // and what they take of it
        double capacity = 1, rising = 0;                 // left of it; weight of those whose rate still rises
        uint32_t seen = 0;
    };
    struct End {
        double time;
        uint32_t transfer, version;
        bool operator<(const End& other) const {
            return std::tie(time, transfer) > std::tie(other.time, other.transfer);
        }  // earliest first
    };
    struct Fill {
        double at;  // the rate of its transfers
        Link* link;
        bool operator<(const Fill& other) const { return at > other.at; }  // the first that is full first
    };
    static constexpr double full = 1 + 1e-9;
    size_t out(uint32_t host) const { return 2 * static_cast<size_t>(host); }
    size_t in(uint32_t host) const { return out(host) + 1; }
    template <class Each>
    void each_link(uint32_t transfer, Each each) {
        const Flow& of = transfers_[transfer];
        each(links_[out(of.from)], 1.0);
        each(links_[in(of.to)], 1.0);
        if (reverse_ <= 0) return;
        each(links_[out(of.to)], reverse_);
        each(links_[in(of.from)], reverse_);
    }
    void begin(uint32_t transfer);
    void end(uint32_t transfer);
    void gather(uint32_t changed);
    void set_rates(uint32_t changed);

    const std::vector<Flow>& transfers_;
    const double reverse_;
    std::vector<State> states_;
    std::vector<Link> links_;
    std::priority_queue<End> ends_;
    double now_ = 0;
    uint32_t round_ = 0;
    int64_t steps_ = 0;
    std::vector<uint32_t> concerned_;  // transfers
    std::vector<Link*> limits_;        // links that can be full
    std::vector<Fill> fills_;          // … when, as far as is known
};

void Flows::begin(uint32_t transfer) {
    State& state = states_[transfer];
    state = {.left = static_cast<double>(transfers_[transfer].alone), .rate = 0, .since = now_};
    each_link(transfer, [&](Link& link, double weight) {
        link.weight += weight;
        link.flows.emplace_back(transfer, weight);
    });
    set_rates(transfer);
}

void Flows::end(uint32_t transfer) {
    ++states_[transfer].version;
    each_link(transfer, [&](Link& link, double weight) {
        const auto at = std::find(link.flows.begin(), link.flows.end(), std::pair(transfer, weight));
        *at = link.flows.back();
        link.flows.pop_back();
        link.weight = link.flows.empty() ? 0 : link.weight - weight;
        steps_ += static_cast<int64_t>(link.flows.size());
    });
    set_rates(transfer);
}

// All whose rate the change may change, and the links that can limit them.
void Flows::gather(uint32_t changed) {
    ++round_;
    concerned_.clear();
    limits_.clear();
    const auto visit = [&](Link& link) {
        if (link.seen == round_) return;
        link.seen = round_;
        if (link.weight > full) limits_.push_back(&link);
        for (const auto& [transfer, weight] : link.flows) {
            if (states_[transfer].seen == round_) continue;
            states_[transfer].seen = round_;
            concerned_.push_back(transfer);
        }
    };
    each_link(changed, [&](Link& link, double) { visit(link); });
    for (size_t i = 0; i < concerned_.size(); ++i)
        each_link(concerned_[i], [&](Link& link, double) {
            if (link.weight > full) visit(link);
        });
    steps_ += static_cast<int64_t>(4 * concerned_.size());
}

void Flows::set_rates(uint32_t changed) {
    constexpr double no_weight = 1e-9, slowest = 1e-6;
    gather(changed);
    constexpr double rises = -1;
    for (const uint32_t transfer : concerned_) {
        State& state = states_[transfer];
        state.left = std::max(0.0, state.left - state.rate * (now_ - state.since));
        state.since = now_;
        state.next = rises;
    }
    fills_.clear();
    for (Link* link : limits_) {
        link->capacity = 1;
        link->rising = link->weight;
        fills_.push_back({1 / link->weight, link});
    }
    std::make_heap(fills_.begin(), fills_.end());
    while (!fills_.empty()) {
        std::pop_heap(fills_.begin(), fills_.end());
        const Fill next = fills_.back();
        fills_.pop_back();
        if (next.link->rising <= no_weight) continue;
        // Where others have got their rates meanwhile, those that still rise have more left: it is full later.
        const double at = std::max(0.0, next.link->capacity) / next.link->rising;
        ++steps_;
        if (at > next.at * full) {
            fills_.push_back({at, next.link});
            std::push_heap(fills_.begin(), fills_.end());
            continue;
        }
        if (at >= 1) break;
        for (const auto& [transfer, weight] : next.link->flows) {
            if (states_[transfer].next != rises) continue;
            states_[transfer].next = std::max(at, slowest);
            each_link(transfer, [&](Link& link, double of_it) {
                link.capacity -= at * of_it;
                link.rising -= of_it;
            });
        }
    }
    for (const uint32_t transfer : concerned_) {
        State& state = states_[transfer];
        const double now = state.next == rises ? 1 : state.next;
        if (now == state.rate) continue;
        state.rate = now;
        ends_.push({now_ + state.left / now, transfer, ++state.version});
    }
}

bool Flows::run(std::vector<int64_t>& later) {
    std::vector<uint32_t> order(transfers_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return transfers_[a].begin < transfers_[b].begin; });
    later.assign(transfers_.size(), 0);
    if (order.empty()) return true;
    const int64_t origin = transfers_[order.front()].begin;
    const auto begins = [&](size_t next) { return static_cast<double>(transfers_[order[next]].begin - origin); };
    for (size_t next = 0; next < order.size() || !ends_.empty();) {
        if (steps_ > most_steps) return false;
        if (!ends_.empty() && states_[ends_.top().transfer].version != ends_.top().version) {
            ends_.pop();
            continue;
        }
        if (ends_.empty() || (next < order.size() && begins(next) < ends_.top().time)) {
            now_ = begins(next);
            const uint32_t transfer = order[next++];
            if (transfers_[transfer].alone > 0) begin(transfer);
            continue;
        }
        now_ = ends_.top().time;
        const uint32_t transfer = ends_.top().transfer;
        ends_.pop();
        const double took = now_ - static_cast<double>(transfers_[transfer].begin - origin);
        later[transfer] = std::max<int64_t>(0, std::llround(took) - transfers_[transfer].alone);
        end(transfer);
    }
    return true;
}

}  // namespace

std::optional<std::vector<int64_t>> later_by_sharing(const std::vector<Flow>& transfers, double reverse) {
    std::vector<int64_t> later;
    if (!Flows(transfers, reverse).run(later)) return {};
    return later;
}

}  // namespace polter::replay
