// SPDX-License-Identifier: BSD-3-Clause
// Whether completions wait for the transfers of others, and what that costs (rules/rma/incoming.cpp is the rule).
//
// In words: a completion that took clearly more than its usual time ended a transfer's time after the beginning of the last access that had
// begun before it; at least half of the long ones must, and at most half as many short ones contradict. What a completion does itself takes
// as long as the shortest for as many targets: only then does it look. What was learned of all of them (rules/rma/rma.cpp) holds such
// waits, and does not count here.
//
// Costs are of three kinds. To receive what had arrived before: what the shortest completions took more than those without accesses, for
// each access; no more than an access itself. Under way: what is left from the beginning of the access that decides to the end, less what
// is received then; the median of those of a size. The same of notices, from waits that were idle: the first quartile, as some of these
// waited for data that took longer than usual.
#include <algorithm>
#include <optional>
#include <utility>

#include "replay/rules/internal.hpp"

namespace polter::replay {

namespace {

// Of two times that should be equal: clocks, and transfers that share a link.
int64_t tolerance(int64_t time) {
    return 1'000 + time / 10;
}

// Of the times, in order, the one before which lies `part` of them, with those near it.
Cost around(std::vector<int64_t> times, double part) {
    std::sort(times.begin(), times.end());
    const int64_t mid = times[static_cast<size_t>(part * static_cast<double>(times.size()))];
    std::erase_if(times, [&](int64_t time) { return std::abs(time - mid) > tolerance(mid); });
    return {.low = times.front(), .mid = mid, .high = times.back(), .known = true};
}

}  // namespace

// What transfers took, by the call that began them and its bytes.
class AccessLearning::Transfers {
  public:
    void add(uint32_t region, uint64_t bytes, int64_t took) { took_[region].emplace_back(bytes, took); }
    void sort() {
        for (auto& [region, of] : took_) std::sort(of.begin(), of.end());
    }
    // From those of this size, or else from the nearest sizes. `but`: without one that took so long, what it was itself.
    Cost cost(uint32_t region, uint64_t bytes, std::optional<int64_t> but = {}) const {
        static constexpr ptrdiff_t enough = 3;
        const auto found = took_.find(region);
        if (found == took_.end()) return {};
        const Samples& of = found->second;
        auto first = std::lower_bound(of.begin(), of.end(), Sample{bytes, INT64_MIN});
        auto last = std::upper_bound(first, of.end(), Sample{bytes, INT64_MAX});
        const ptrdiff_t wanted = enough + (but ? 1 : 0);
        while (last - first < wanted && (first != of.begin() || last != of.end())) {
            const bool down = last == of.end() || (first != of.begin() && bytes - (first - 1)->first < last->first - bytes);
            down ? --first : ++last;
        }
        std::vector<int64_t> times;
        for (auto sample = first; sample != last; ++sample) {
            if (but && *sample == Sample{bytes, *but})
                but.reset();
            else
                times.push_back(sample->second);
        }
        if (times.empty()) return {};
        return around(std::move(times), 0.5);
    }

  private:
    using Sample = std::pair<uint64_t, int64_t>;  // bytes, ns
    using Samples = std::vector<Sample>;
    std::map<uint32_t, Samples> took_;
};

// A completion, and the accesses to its window that it may have met.
struct AccessLearning::Arrivals {
    struct Arrival {
        int32_t origin = 0;
        const Access* access = nullptr;
    };
    int32_t target = 0;
    const Completion* call = nullptr;
    int64_t own = 0;       // ns: the shortest with so many records
    int64_t receives = 0;  // ns: what it takes to receive those that had begun as it looked
    std::vector<Arrival> arrivals;

    int64_t looks() const { return call->enter + own + (call->hit < own ? call->hit_ns : 0); }
    bool is_long() const { return call->leave - call->enter - call->noise > 2 * own + receives + 1'000; }
};

// The call's own work comes first, and noise in it is taken to come before that.
int64_t AccessLearning::begun(const Access& access) const {
    return access.enter + access.noise + shortest_.at(access.kind);
}

const AccessLearning::Access* AccessLearning::latest_begun(const Arrivals& of) const {
    const Access* found = nullptr;
    for (const Arrivals::Arrival& arrival : of.arrivals)
        if (begun(*arrival.access) <= of.looks() && (!found || begun(*arrival.access) > begun(*found))) found = arrival.access;
    return found;
}

// The shortest: it waited for nothing.
std::map<uint64_t, int64_t> AccessLearning::own_of_completions() const {
    std::map<uint64_t, int64_t> shortest;
    for (const Rank& rank : ranks_)
        for (const auto& [window, calls] : rank.calls)
            for (const Completion& call : calls) {
                const int64_t took = call.leave - call.enter - call.noise;
                int64_t& least = shortest.try_emplace(call.records, took).first->second;
                least = std::min(least, took);
            }
    return shortest;
}

// By window.
std::map<uint32_t, std::vector<AccessLearning::Arrivals>> AccessLearning::arrivals() const {
    const std::map<uint64_t, int64_t> shortest = own_of_completions();
    std::map<uint32_t, std::vector<Arrivals>> found;
    std::map<std::pair<int32_t, uint32_t>, size_t> first;  // of a target's in a window
    for (size_t target = 0; target < ranks_.size(); ++target)
        for (const auto& [window, calls] : ranks_[target].calls) {
            std::vector<Arrivals>& all = found[window];
            first[{static_cast<int32_t>(target), window}] = all.size();
            for (const Completion& call : calls) all.push_back({static_cast<int32_t>(target), &call, shortest.at(call.records), 0, {}});
        }
    for (size_t origin = 0; origin < ranks_.size(); ++origin)
        for (const Access& access : ranks_[origin].recorded) {
            const auto begin = first.find({access.target, access.window});
            const Completion* call = of_same_post(access);
            if (begin == first.end() || !call) continue;
            found[access.window][begin->second + static_cast<size_t>(call - of_target(access).data())].arrivals.push_back(
                {static_cast<int32_t>(origin), &access});
        }
    return found;
}

// What calls that complete accesses take to receive those that had arrived before.
class AccessLearning::Received {
  public:
    void add(const Access& access, int64_t took) {
        int64_t& least = took_[access.kind.region].try_emplace(access.bytes, took).first->second;
        least = std::min(least, took);
    }
    // From those of this size, or else of the nearest; 0: none was seen.
    int64_t cost(const Access& access) const {
        const auto found = took_.find(access.kind.region);
        if (found == took_.end()) return 0;
        const auto& of = found->second;
        const auto above = of.lower_bound(access.bytes);
        if (above == of.begin()) return above->second;
        const auto below = std::prev(above);
        return above != of.end() && above->first - access.bytes <= access.bytes - below->first ? above->second : below->second;
    }

  private:
    std::map<uint32_t, std::map<uint64_t, int64_t>> took_;  // by region and bytes, ns
};

namespace {

// Receiving some things one after the other, those that come first first: the end, but for what they are under way.
int64_t served(std::vector<std::pair<int64_t, int64_t>> begun_and_takes) {
    std::sort(begun_and_takes.begin(), begun_and_takes.end());
    int64_t end = INT64_MIN;
    for (const auto& [begun, takes] : begun_and_takes) end = std::max(end, begun) + takes;
    return end;
}

}  // namespace

AccessLearning::Received AccessLearning::received(const std::vector<Arrivals>& calls) const {
    Received received;
    for (const Arrivals& of : calls) {
        if (of.call->noise > 0) continue;
        std::vector<const Access*> taken;
        for (const Arrivals::Arrival& arrival : of.arrivals)
            if (begun(*arrival.access) <= of.looks()) taken.push_back(arrival.access);
        if (taken.empty()) continue;
        const auto alike = [&](const Access* access) { return access->kind == taken[0]->kind && access->bytes == taken[0]->bytes; };
        const int64_t each = (of.call->leave - of.call->enter - of.own) / static_cast<int64_t>(taken.size());
        // More than beginning an access takes: it has waited for the transfers.
        if (each <= shortest_.at(taken[0]->kind) && std::all_of(taken.begin(), taken.end(), alike)) received.add(*taken[0], each);
    }
    return received;
}

// Of what the completion waited for: when it would have ended with no time under way.
std::optional<int64_t> AccessLearning::received_by(const Arrivals& of, const Received& received) const {
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (const auto& [origin, access] : of.arrivals)
        if (begun(*access) <= of.looks()) taken.emplace_back(begun(*access), received.cost(*access));
    return taken.empty() ? std::nullopt : std::optional(served(std::move(taken)));
}

std::optional<NoticeCosts> AccessLearning::notice_costs(uint32_t window, const std::vector<Arrivals>& calls, const Received& received,
                                                        const Transfers& transfers) const {
    NoticeCosts costs{.flight = {}, .sends = INT64_MAX, .takes = INT64_MAX};
    std::map<std::pair<int32_t, uint64_t>, const Arrivals*> of_posts;
    for (const Arrivals& of : calls) {
        of_posts[{of.target, of.call->posts}] = &of;
        if (of.call->targets == 0) continue;
        const int64_t took = of.call->leave - of.call->enter - of.call->noise;
        costs.sends = std::min(costs.sends, took / static_cast<int64_t>(of.call->targets));
    }
    if (costs.sends == INT64_MAX) return std::nullopt;
    costs.takes = costs.sends;
    for (const Rank& rank : ranks_)
        if (const auto ends = rank.ends.find(window); ends != rank.ends.end())
            for (const Wait& wait : ends->second)
                costs.takes = std::min(costs.takes, (wait.leave - wait.enter - wait.noise) / static_cast<int64_t>(wait.notices));
    std::vector<int64_t> flights;
    for (size_t target = 0; target < ranks_.size(); ++target) {
        const auto ends = ranks_[target].ends.find(window);
        if (ends == ranks_[target].ends.end()) continue;
        const Notified* next = ranks_[target].notified.at(window).data();
        for (const Wait& wait : ends->second) {
            const Notified* first = std::exchange(next, next + wait.notices);
            const auto of = of_posts.find({static_cast<int32_t>(target), wait.posts});
            if (wait.noise > 0 || of == of_posts.end()) continue;
            std::vector<std::pair<int64_t, int64_t>> notices;
            for (const Notified* notice = first; notice != next; ++notice)
                notices.emplace_back(notice->sent + static_cast<int64_t>(notice->place) * costs.sends, costs.takes);
            int64_t data = 0, by_data = 0;
            for (const auto& [origin, access] : of->second->arrivals) {
                if (begun(*access) <= of->second->looks()) continue;
                data += received.cost(*access);
                by_data =
                    std::max(by_data, begun(*access) + transfers.cost(access->kind.region, access->bytes).mid + received.cost(*access));
            }
            const int64_t busy = static_cast<int64_t>(wait.notices) * costs.takes + data;
            if (wait.leave - wait.enter > busy + 1'000 && by_data < wait.leave - 1'000)
                flights.push_back(wait.leave - data - served(std::move(notices)));
        }
    }
    if (flights.empty()) return std::nullopt;
    costs.flight = around(std::move(flights), 0.25);
    return costs;
}

void AccessLearning::plan_incoming(AccessPlan& plan) const {
    for (auto& [window, calls] : arrivals()) {
        const Received received = this->received(calls);
        for (Arrivals& of : calls)
            for (const auto& [origin, access] : of.arrivals)
                if (begun(*access) <= of.looks()) of.receives += received.cost(*access);
        Transfers transfers;
        for (const Arrivals& of : calls)
            if (const Access* access = latest_begun(of); access && of.is_long())
                transfers.add(access->kind.region, access->bytes, of.call->leave - *received_by(of, received));
        transfers.sort();
        size_t as_expected = 0, longer = 0, shorter = 0;
        for (const Arrivals& of : calls) {
            const Access* access = latest_begun(of);
            if (!access) continue;
            const int64_t took = of.call->leave - *received_by(of, received);
            const bool is_long = of.is_long();
            const Cost cost = transfers.cost(access->kind.region, access->bytes, is_long ? std::optional(took) : std::nullopt);
            if (!cost.known) continue;
            if (is_long)
                ++(std::abs(took - cost.mid) <= tolerance(cost.mid) ? as_expected : longer);
            else
                shorter += took < cost.mid - tolerance(cost.mid);
        }
        if (as_expected < 2 || as_expected < longer || as_expected < 2 * shorter) continue;
        if (const auto costs = notice_costs(window, calls, received, transfers)) plan.notices[window] = *costs;
        for (const Arrivals& of : calls) {
            const auto& waits = ranks_[static_cast<size_t>(of.target)].waits;
            const auto waited = waits.find(window);
            const bool exposed = waited != waits.end() && of.call->posts <= waited->second;
            for (const auto& [origin, access] : of.arrivals) {
                const Cost cost = transfers.cost(access->kind.region, access->bytes);
                if (!cost.known) continue;
                AccessWait wait{.incoming = true,
                                .exposed = exposed,
                                .waited = of.is_long() && begun(*access) <= of.looks(),
                                .access = access->index,
                                .completion = of.call->index,
                                .number = plan.number++,
                                .origin = origin,
                                .target = of.target,
                                .own = of.own,
                                .begins = shortest_.at(access->kind),
                                .transfer = cost,
                                .takes = received.cost(*access),
                                .margin = of.looks() - begun(*access),
                                .until = begun(*access)};
                plan.begun[static_cast<size_t>(origin)].push_back(wait);
                plan.incoming[static_cast<size_t>(of.target)].push_back(wait);
                if (!exposed) continue;
                wait.waited = true;
                wait.completion = of.call->posts;
                wait.own = 0;
                plan.exposed[static_cast<size_t>(of.target)][window].push_back(wait);
            }
        }
    }
    for (auto& begun : plan.begun)
        std::stable_sort(begun.begin(), begun.end(), [](const AccessWait& a, const AccessWait& b) { return a.access < b.access; });
    for (auto& incoming : plan.incoming)
        std::stable_sort(incoming.begin(), incoming.end(),
                         [](const AccessWait& a, const AccessWait& b) { return a.completion < b.completion; });
}

}  // namespace polter::replay
