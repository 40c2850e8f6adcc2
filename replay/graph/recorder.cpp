// SPDX-License-Identifier: BSD-3-Clause
#include "recorder.hpp"

#include <algorithm>

namespace polter::replay {

namespace {

constexpr size_t most_noise = 256, most_regions = 64;  // of one node, between two calls; more of them start another node

uint64_t all_bits(size_t count) {
    return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

}  // namespace

Recorder::Recorder(EventGraph& graph, const Lanes& lanes, std::vector<size_t> watched, size_t threads, bool measured_slack)
    : graph_(graph), lanes_(lanes), watched_(std::move(watched)), threads_(threads), ends_(threads), measured_slack_(measured_slack) {}

void Recorder::start() {
    node_.edges.clear();
    node_.noise.clear();
    node_.computed.clear();
    values_.clear();
}

int64_t* Recorder::add_candidate(uint64_t from) {
    node_.edges.push_back({from, 0, 0});
    values_.resize(values_.size() + watched_.size());
    return &values_[values_.size() - watched_.size()];
}

void Recorder::candidate(uint64_t from, const int64_t* delay, int64_t residual) {
    candidate_by(from, [&](size_t lane) { return delay[lane] + residual; });
}

void Recorder::add_noise(GraphNode& node, uint32_t* last_number, uint32_t thread, const NoisePiece& piece, const Place& place,
                         int64_t counted, int64_t effect) const {
    if (!removes(piece.account)) return;
    const int64_t length = piece.end - piece.begin;
    if (!node.noise.empty() && *last_number == piece.number && node.noise.back().thread == thread) {
        GraphNoise& event = node.noise.back();
        event.begin = std::min(event.begin, piece.begin);
        event.duration += length;
        event.counted += counted;
        event.effect += effect;
        return;
    }
    *last_number = piece.number;
    node.noise.push_back({thread, piece.culprit, piece.account, place, piece.begin, length, counted, effect});
}

void Recorder::noise(uint32_t thread, const NoisePiece& piece, const Place& place, int64_t counted) {
    add_noise(node_, &last_number_, thread, piece, place, counted, counted);
}

void Recorder::noise(uint32_t thread, const NoisePiece& piece, const Place& place, int64_t counted, int64_t effect) {
    add_noise(node_, &last_number_, thread, piece, place, counted, effect);
}

uint64_t Recorder::write(uint32_t thread, const Place& place, int64_t time, int64_t delay, bool aside) {
    const size_t count = watched_.size();
    const size_t slack_of = measured_slack_ ? 0 : 1;
    int64_t least_of_all = 0, least_of_slack = 0;
    for (size_t w = 0; w < count && !node_.edges.empty(); ++w) {
        size_t least = 0;
        for (size_t i = 1; i < node_.edges.size(); ++i)
            if (values_[i * count + w] < values_[least * count + w]) least = i;
        node_.edges[least].binds |= uint64_t{1} << w;
        if (w == 1) least_of_all = values_[least * count + w];
        if (w == slack_of) least_of_slack = values_[least * count + w];
    }
    for (size_t i = 0; i < node_.edges.size(); ++i) node_.edges[i].slack = values_[i * count + slack_of] - least_of_slack;
    std::erase_if(node_.edges, [](const GraphEdge& edge) { return edge.from == EventGraph::none; });
    std::erase_if(node_.noise, [](const GraphNoise& noise) { return noise.counted == 0 && noise.effect == 0; });
    node_.thread = thread;
    node_.place = place;
    node_.time = time;
    node_.delay = delay;
    int64_t counted = 0;
    for (const GraphNoise& noise : node_.noise) {
        counted += noise.counted;
        if (!aside && noise.thread == thread) threads_[thread].in_call += noise.counted;
    }
    contradictions_ += least_of_all + counted != delay;
    least_delay_ = std::min(least_delay_, delay);
    return graph_.add(node_);
}

// ---- a thread's own time ---------------------------------------------------------------------------------------------------------

uint64_t Recorder::computed(const RecordedThread& thread, int64_t upto) {
    OfThread& own = threads_[thread.index];
    const int64_t ns = upto - own.computed_upto;
    own.computed_upto = upto;
    if (!own.begun) {
        own.begun = true;
        return thread.node;
    }
    if (ns > 0) {
        auto& list = own.next.computed;
        const auto same = std::find_if(list.begin(), list.end(), [&](const auto& entry) { return entry.first == thread.region; });
        if (same != list.end())
            same->second += ns;
        else
            list.emplace_back(thread.region, ns);
    }
    const bool full = own.next.noise.size() >= most_noise || own.next.computed.size() >= most_regions;
    return full ? follow(thread, upto) : thread.node;
}

void Recorder::hit(uint32_t thread, const NoisePiece& piece, uint32_t region) {
    OfThread& own = threads_[thread];
    const int64_t length = piece.end - piece.begin;
    add_noise(own.next, &own.last_number, thread, piece, {no_region, region}, length, length);
    if (removes(piece.account)) own.balance.counted += length;
}

// The thread has computed up to `time`.
uint64_t Recorder::follow(const RecordedThread& thread, int64_t time) {
    OfThread& own = threads_[thread.index];
    GraphNode& node = own.next;
    node.thread = thread.index;
    node.place = {no_region, thread.region};
    node.time = time;
    node.delay = thread.delay[watched_[1]];
    int64_t removed = 0;
    for (const GraphNoise& noise : node.noise) removed += noise.counted;
    contradictions_ += own.delay + removed != node.delay;
    own.delay = node.delay;
    node.edges.clear();
    if (thread.node != EventGraph::none) node.edges.push_back({thread.node, 0, all_bits(watched_.size())});
    const uint64_t number = graph_.add(node);
    node.noise.clear();
    node.computed.clear();
    return number;
}

uint64_t Recorder::begin_call(const RecordedThread& thread, int64_t enter) {
    return follow(thread, enter);
}

void Recorder::end_call(uint32_t thread, bool written, int64_t leave, const int64_t* delay, const std::vector<NoisePiece>& pieces) {
    OfThread& own = threads_[thread];
    contradictions_ += !written;
    const int64_t late = delay[watched_[1]], change = late - own.delay - own.in_call;
    own.balance.imported += std::max<int64_t>(0, change);
    own.balance.lost += std::max<int64_t>(0, -change);
    own.balance.counted += own.in_call;
    own.balance.waiting -= own.in_call;
    for (const NoisePiece& piece : pieces)
        if (removes(piece.account)) own.balance.waiting += piece.end - piece.begin;
    own.in_call = 0;
    own.delay = late;
    own.computed_upto = leave;
}

void Recorder::end(const RecordedThread& thread, int64_t last) {
    const uint64_t node = follow(thread, last);
    ends_[thread.index] = {node, last, thread.delay[watched_[1]]};
}

}  // namespace polter::replay
