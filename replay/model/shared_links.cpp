// SPDX-License-Identifier: BSD-3-Clause
// In words: time goes from one beginning or end of a transfer to the next. In between, every transfer goes on at its rate: all rise
// together until a link is full, whose transfers then keep theirs; the others rise on. A transfer alone has the rate 1. A beginning or an
// end changes only the rates of those that are connected with it by links on which there is too much.
#include "shared_links.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <span>
#include <tuple>

#include "model.hpp"

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

int64_t Network::alone(uint64_t bytes) const {
    const auto after = std::lower_bound(sizes_.begin(), sizes_.end(), bytes, [](const Size& size, uint64_t of) { return size.bytes < of; });
    const auto scaled = [&](const Size& from) { return from.alone * static_cast<double>(bytes) / static_cast<double>(from.bytes); };
    if (after == sizes_.begin()) return std::llround(scaled(*after));
    const Size& before = *(after - 1);
    if (after == sizes_.end()) return std::llround(scaled(before));
    const double part = static_cast<double>(bytes - before.bytes) / static_cast<double>(after->bytes - before.bytes);
    return std::llround(before.alone + part * (after->alone - before.alone));
}

// Looks for the network with the smallest distance of what messages took and what they would have taken in it.
class NetworkSearch {
  public:
    explicit NetworkSearch(std::span<const SeenTransfer> seen) : seen_(seen.first(std::min(seen.size(), Network::most_seen))) {
        classify();
    }
    size_t calls() const { return calls_.size(); }  // that tell

    // The latency as a part of the shortest message, of the rest what is data, and of that what goes back.
    struct Start {
        double part = 0, scale = 1, reverse = 0;
    };
    std::optional<Start> start();
    std::optional<Network> find(const Start&);

  private:
    struct Class {
        double bytes = 0, least = 0;  // mean; of what they took
        uint32_t messages = 0;
        std::vector<uint32_t> ended;  // of what is seen: what ended its call, in the network that is looked at
    };
    struct Trial {
        Network network;
        double distance = std::numeric_limits<double>::infinity();
        std::vector<int64_t> later;
    };
    void classify();
    double distance_apart();
    Network with(double latency, double scale, double reverse) const;
    std::vector<int64_t> later_in(const Network&) const;
    void find_ends(const Network&, const std::vector<int64_t>& later);
    double distance(const std::vector<int64_t>& later) const;
    Trial tried(Network network);
    bool refine(Trial& best, double latency);

    const std::span<const SeenTransfer> seen_;  // the first ones, as many as are looked at
    std::map<uint64_t, Class> classes_;
    std::vector<Class*> class_of_;              // of what is seen; none: it tells nothing
    std::vector<std::vector<uint32_t>> calls_;  // what each waited for
    double least_ = 0;
};

// What tells: calls that waited most of the time that their messages took.
void NetworkSearch::classify() {
    const auto key = [](uint64_t bytes) { return CostClass::size_class(bytes, CostClass::message_bits); };
    std::map<uint64_t, int64_t> least;
    for (const SeenTransfer& one : seen_) {
        if (one.call == 0 || one.took <= 0 || one.in_call <= one.took / 4) continue;
        const auto [at, fresh] = least.try_emplace(key(one.bytes), one.took);
        if (!fresh) at->second = std::min(at->second, one.took);
    }
    std::map<uint32_t, std::vector<uint32_t>> calls;
    std::set<uint32_t> others;
    for (uint32_t i = 0; i < seen_.size(); ++i) {
        const SeenTransfer& one = seen_[i];
        const auto known = least.find(key(one.bytes));
        if (one.call == 0 || known == least.end() || one.took <= 0 || 2 * one.in_call < known->second)
            others.insert(one.call);
        else
            calls[one.call].push_back(i);
    }
    class_of_.assign(seen_.size(), nullptr);
    for (const auto& [call, messages] : calls) {
        if (others.contains(call)) continue;
        calls_.push_back(messages);
        for (const uint32_t i : messages) {
            Class& of = classes_[key(seen_[i].bytes)];
            class_of_[i] = &of;
            ++of.messages;
            of.bytes += static_cast<double>(seen_[i].bytes);
            of.least = static_cast<double>(least.at(key(seen_[i].bytes)));
        }
    }
    least_ = std::numeric_limits<double>::infinity();
    for (auto& [size, of] : classes_) {
        of.bytes /= of.messages;
        least_ = std::min(least_, of.least);
    }
}

Network NetworkSearch::with(double latency, double scale, double reverse) const {
    Network network;
    network.reverse_ = reverse;
    for (const auto& [size, of] : classes_) {
        const auto bytes = static_cast<uint64_t>(of.bytes);
        if (!network.sizes_.empty() && network.sizes_.back().bytes >= bytes) continue;
        network.sizes_.push_back({bytes, std::max(0.0, scale * (of.least - latency))});
    }
    return network;
}

std::vector<int64_t> NetworkSearch::later_in(const Network& network) const {
    std::vector<Flow> transfers;
    transfers.reserve(seen_.size());
    for (const SeenTransfer& one : seen_) transfers.push_back({one.from, one.to, one.begin, network.alone(one.bytes)});
    return later_by_sharing(transfers, network.reverse()).value_or(std::vector<int64_t>());
}

// Of each call the message that it waited for last.
void NetworkSearch::find_ends(const Network& network, const std::vector<int64_t>& later) {
    for (auto& [size, of] : classes_) of.ended.clear();
    for (const std::vector<uint32_t>& call : calls_) {
        const auto end = [&](uint32_t i) { return seen_[i].begin + network.alone(seen_[i].bytes) + (later.empty() ? 0 : later[i]); };
        const uint32_t last = *std::max_element(call.begin(), call.end(), [&](uint32_t a, uint32_t b) { return end(a) < end(b); });
        class_of_[last]->ended.push_back(last);
    }
}

// The mean distance from the median of the class, without the tenth that is furthest off: noise, and what a call waited for besides.
double NetworkSearch::distance(const std::vector<int64_t>& later) const {
    std::vector<double> all, left;
    for (const auto& [size, of] : classes_) {
        if (of.ended.empty()) continue;
        left.clear();
        for (const uint32_t i : of.ended) left.push_back(static_cast<double>(seen_[i].took - (later.empty() ? 0 : later[i])));
        const auto middle = left.begin() + static_cast<std::ptrdiff_t>(left.size() / 2);
        std::nth_element(left.begin(), middle, left.end());
        const double median = *middle;
        for (const double took : left) all.push_back(std::abs(took - median));
    }
    const size_t believed = all.size() - all.size() / 10;
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(believed - 1), all.end());
    return std::accumulate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(believed), 0.0) / static_cast<double>(believed);
}

NetworkSearch::Trial NetworkSearch::tried(Network network) {
    Trial trial{std::move(network), std::numeric_limits<double>::infinity(), {}};
    trial.later = later_in(trial.network);
    if (trial.later.empty()) return trial;
    find_ends(trial.network, trial.later);
    trial.distance = distance(trial.later);
    return trial;
}

// What messages of a size took, less the latency, is what they take alone and what sharing adds, which is so much longer the longer they
// take alone.
bool NetworkSearch::refine(Trial& best, double latency) {
    Network next = best.network;
    size_t at = 0;
    std::vector<double> ratios;
    find_ends(best.network, best.later);
    for (const auto& [size, of] : classes_) {
        const auto bytes = static_cast<uint64_t>(of.bytes);
        while (at < next.sizes_.size() && next.sizes_[at].bytes < bytes) ++at;
        if (at == next.sizes_.size() || next.sizes_[at].bytes != bytes) continue;
        ratios.clear();
        for (const uint32_t i : of.ended) {
            const auto expected = static_cast<double>(best.network.alone(seen_[i].bytes) + best.later[i]);
            if (expected > 0) ratios.push_back((static_cast<double>(seen_[i].took) - latency) / expected);
        }
        if (ratios.empty()) continue;
        const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
        std::nth_element(ratios.begin(), middle, ratios.end());
        next.sizes_[at].alone *= std::clamp(*middle, 0.25, 2.0);
    }
    Trial trial = tried(std::move(next));
    if (!(trial.distance < best.distance)) return false;
    best = std::move(trial);
    return true;
}

// Without sharing.
double NetworkSearch::distance_apart() {
    find_ends(with(0, 1, 0), {});
    return distance({});
}

std::optional<NetworkSearch::Start> NetworkSearch::start() {
    constexpr double little = 0.005;  // of what the shortest take: there is nothing to explain
    constexpr double hopeful = 0.95;  // of the distance without sharing: coming nearer later makes some of it less, but not all
    const double apart = distance_apart();
    if (!(apart > little * least_)) return {};
    Start best;
    double least = hopeful * apart;
    for (const double reverse : {0.0, 0.05})
        for (const double scale : {1.0, 0.6, 0.35})
            for (const double part : {0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85})
                if (const double now = tried(with(part * least_, scale, reverse)).distance; now < least)
                    std::tie(least, best) = std::pair(now, Start{part, scale, reverse});
    if (!(least < hopeful * apart)) return {};
    return best;
}

std::optional<Network> NetworkSearch::find(const Start& start) {
    constexpr double explained = 0.5;  // of the distance without sharing; more must not be left
    const double apart = distance_apart();
    double latency = start.part * least_;
    Trial best = tried(with(latency, start.scale, start.reverse));
    constexpr int most_steps_nearer = 100;  // some networks are approached without end
    int steps = 0;
    for (bool nearer = true; nearer && steps < most_steps_nearer;) {
        nearer = refine(best, latency);
        for (const double times : {0.8, 0.9, 0.95, 1.05, 1.1, 1.25}) {
            Trial trial = best;
            if (!refine(trial, times * latency)) continue;
            do {
                ++steps;
            } while (steps < most_steps_nearer && refine(trial, times * latency));
            best = std::move(trial);
            latency *= times;
            nearer = true;
            break;
        }
    }
    if (!(best.distance < explained * apart)) return {};
    return best.network;
}

// Where to start, some of the messages tell.
std::optional<Network> Network::found(const std::vector<SeenTransfer>& seen) {
    constexpr size_t few = 16, some = 1'500;
    NetworkSearch all(seen);
    if (all.calls() < few) return {};
    NetworkSearch first(std::span<const SeenTransfer>(seen).first(std::min(seen.size(), some)));
    const auto start = first.calls() < few ? all.start() : first.start();
    return start ? all.find(*start) : std::nullopt;
}

}  // namespace polter::replay
