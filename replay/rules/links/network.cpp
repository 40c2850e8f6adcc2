// SPDX-License-Identifier: BSD-3-Clause
#include "network.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "replay/model/model.hpp"
#include "shared_links.hpp"

namespace polter::replay {

int64_t Network::alone(uint64_t bytes) const {
    const auto after = std::lower_bound(sizes_.begin(), sizes_.end(), bytes, [](const Size& size, uint64_t of) { return size.bytes < of; });
    const auto scaled = [&](const Size& from) { return from.alone * static_cast<double>(bytes) / static_cast<double>(from.bytes); };
    if (after == sizes_.begin()) return std::llround(scaled(*after));
    const Size& before = *(after - 1);
    if (after == sizes_.end()) return std::llround(scaled(before));
    const double part = static_cast<double>(bytes - before.bytes) / static_cast<double>(after->bytes - before.bytes);
    return std::llround(before.alone + part * (after->alone - before.alone));
}

uint64_t size_of_message(uint64_t bytes) {
    return CostClass::size_class(bytes, CostClass::message_bits);
}

size_t transfers_in_run(size_t most, size_t sizes) {
    constexpr size_t least = 4;
    return std::max(least, most / (runs_of_each_size * sizes));
}

std::vector<size_t> some_of_each_size(const std::vector<uint64_t>& bytes, size_t most) {
    std::vector<size_t> places;
    if (bytes.size() <= most) {
        places.resize(bytes.size());
        std::iota(places.begin(), places.end(), size_t{0});
        return places;
    }
    struct Size {
        size_t all = 0, met = 0;
    };
    std::map<uint64_t, Size> sizes;
    for (const uint64_t one : bytes) ++sizes[size_of_message(one)].all;
    const size_t in_run = transfers_in_run(most, sizes.size());
    size_t left = 0;
    for (size_t place = 0; place < bytes.size(); ++place) {
        Size& size = sizes[size_of_message(bytes[place])];
        const size_t from_run_to_run = (size.all + runs_of_each_size - 1) / runs_of_each_size;
        if (size.met++ % from_run_to_run == 0) left = in_run;
        if (left == 0) continue;
        --left;
        places.push_back(place);
    }
    return places;
}

// Looks for the network with the smallest distance of what messages took and what they would have taken in it.
class NetworkSearch {
  public:
    explicit NetworkSearch(const Seen& seen) : seen_(seen.transfers) { classify(seen.calls); }
    size_t calls() const { return calls_.size(); }  // that tell

    // The latency as a part of the shortest message, of the rest what is data, and of that what goes back.
    struct Start {
        double part = 0, scale = 1, reverse = 0;
    };
    std::optional<Start> start(const LinkSearch&);
    std::optional<Network> find(const Start&);

  private:
    // What ended a call, in the network that is looked at; and when it was over, as far as the call tells.
    struct Ended {
        uint32_t message;
        int64_t took;
    };
    struct Class {
        double bytes = 0, least = 0;  // mean; of what they took
        uint32_t messages = 0;
        std::vector<Ended> ended;
    };
    struct Trial {
        Network network;
        double distance = std::numeric_limits<double>::infinity();
        std::vector<int64_t> later;
    };
    void classify(const std::vector<SeenCall>& calls);
    double distance_apart();
    Network with(double latency, double scale, double reverse) const;
    std::vector<int64_t> later_in(const Network&) const;
    void find_ends(const Network&, const std::vector<int64_t>& later);
    double distance(const std::vector<int64_t>& later) const;
    Trial tried(Network network);
    bool refine(Trial& best, double latency);

    const std::vector<SeenTransfer>& seen_;
    std::map<uint64_t, Class> classes_;
    std::vector<Class*> class_of_;  // of what is seen; none: it tells nothing
    std::vector<const SeenCall*> calls_;
    double least_ = 0;
};

// What tells: calls that waited most of the time that their messages took.
void NetworkSearch::classify(const std::vector<SeenCall>& calls) {
    struct Times {
        int64_t took, in_call;
    };
    const auto times = [&](const SeenCall& call, uint32_t i) {
        const int64_t begin = seen_[i].begin;
        return Times{call.leave - begin, call.leave - std::max(call.enter, begin)};
    };
    std::map<uint64_t, int64_t> least;
    for (const SeenCall& call : calls)
        for (const uint32_t i : call.messages) {
            const auto [took, in_call] = times(call, i);
            if (took <= 0 || in_call <= took / 4) continue;
            const auto [at, fresh] = least.try_emplace(size_of_message(seen_[i].bytes), took);
            if (!fresh) at->second = std::min(at->second, took);
        }
    const auto tells = [&](const SeenCall& call) {
        return std::all_of(call.messages.begin(), call.messages.end(), [&](uint32_t i) {
            const auto known = least.find(size_of_message(seen_[i].bytes));
            const auto [took, in_call] = times(call, i);
            return known != least.end() && took > 0 && 2 * in_call >= known->second;
        });
    };
    class_of_.assign(seen_.size(), nullptr);
    for (const SeenCall& call : calls) {
        if (call.messages.empty() || !tells(call)) continue;
        calls_.push_back(&call);
        for (const uint32_t i : call.messages) {
            Class& of = classes_[size_of_message(seen_[i].bytes)];
            class_of_[i] = &of;
            ++of.messages;
            of.bytes += static_cast<double>(seen_[i].bytes);
            of.least = static_cast<double>(least.at(size_of_message(seen_[i].bytes)));
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
    for (const SeenCall* call : calls_) {
        const auto end = [&](uint32_t i) { return seen_[i].begin + network.alone(seen_[i].bytes) + (later.empty() ? 0 : later[i]); };
        const uint32_t last =
            *std::max_element(call->messages.begin(), call->messages.end(), [&](uint32_t a, uint32_t b) { return end(a) < end(b); });
        class_of_[last]->ended.push_back({last, call->leave - seen_[last].begin});
    }
}

// The mean distance from the median of the class, without the tenth that is furthest off: noise, and what a call waited for besides.
double NetworkSearch::distance(const std::vector<int64_t>& later) const {
    std::vector<double> all, left;
    for (const auto& [size, of] : classes_) {
        if (of.ended.empty()) continue;
        left.clear();
        for (const auto& [i, took] : of.ended) left.push_back(static_cast<double>(took - (later.empty() ? 0 : later[i])));
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
        for (const auto& [i, took] : of.ended) {
            const auto expected = static_cast<double>(best.network.alone(seen_[i].bytes) + best.later[i]);
            if (expected > 0) ratios.push_back((static_cast<double>(took) - latency) / expected);
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

// The first of the nearest, whichever process has tried it.
std::optional<NetworkSearch::Start> NetworkSearch::start(const LinkSearch& search) {
    constexpr double little = 0.005;  // of what the shortest take: there is nothing to explain
    constexpr double hopeful = 0.95;  // of the distance without sharing: coming nearer later makes some of it less, but not all
    const double apart = distance_apart();
    if (!(apart > little * least_)) return {};
    std::vector<Start> starts;
    for (const double reverse : {0.0, 0.05})
        for (const double scale : {1.0, 0.6, 0.35})
            for (const double part : {0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85}) starts.push_back({part, scale, reverse});
    Bytes bytes;
    for (size_t i = search.part; i < starts.size(); i += search.parts) {
        bytes.put(i);
        bytes.put(tried(with(starts[i].part * least_, starts[i].scale, starts[i].reverse)).distance);
    }
    std::pair<double, size_t> best{hopeful * apart, starts.size()};
    for (const Bytes& one : search.of_all(bytes))
        for (Input input(one); !input.empty();) {
            const auto number = input.get<size_t>();
            const auto distance = input.get<double>();
            if (distance < hopeful * apart) best = std::min(best, {distance, number});
        }
    if (best.second == starts.size()) return {};
    return starts[best.second];
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

static Seen some_of(const Seen& all, size_t most) {
    std::vector<uint64_t> bytes;
    for (const SeenTransfer& one : all.transfers) bytes.push_back(one.bytes);
    Seen some;
    std::map<uint32_t, uint32_t> places;
    for (const size_t place : some_of_each_size(bytes, most)) {
        places[static_cast<uint32_t>(place)] = static_cast<uint32_t>(some.transfers.size());
        some.transfers.push_back(all.transfers[place]);
    }
    for (SeenCall call : all.calls) {
        const auto is_seen = [&](uint32_t message) { return places.contains(message); };
        if (!std::all_of(call.messages.begin(), call.messages.end(), is_seen)) continue;
        for (uint32_t& message : call.messages) message = places[message];
        some.calls.push_back(std::move(call));
    }
    return some;
}

// Where to start, some of the messages tell.
std::optional<Network> Network::found(const Seen& seen, const LinkSearch& search) {
    constexpr size_t few = 16, some = 1'500;
    NetworkSearch all(seen);
    if (all.calls() < few) return {};
    const Seen first = some_of(seen, some);
    NetworkSearch of_some(first);
    const auto start = of_some.calls() < few ? all.start(search) : of_some.start(search);
    return start ? all.find(*start) : std::nullopt;
}

}  // namespace polter::replay
