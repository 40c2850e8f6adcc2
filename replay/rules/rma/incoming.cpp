// SPDX-License-Identifier: BSD-3-Clause
// Completions that wait for the transfers of others.
//
// In words: where a library keeps the transfers of a window in one list, those that its rank began and those that others began to it (SMPI
// does), MPI_Win_complete waits for all that are in the list as it looks: also for data that others put or get, which the standard leaves
// to MPI_Win_wait. No record says so. But then a completion that took clearly more than its usual time ended a transfer's time after the
// beginning of the last access that had begun before it. The transfer's time is that of accesses of this size, the median of those seen.
//
// In another scenario a completion waits for an access that has begun by then, and not for one that has not: noise makes such waits come
// and go. Only accesses and completions behind the same MPI_Win_post of the target can meet; an access that comes later belongs to what the
// target completes next. An access may depend on what its target does behind the completion; so the dependency is soft: where no thread can
// continue, the earliest completion does not wait.
//
// What a completion does itself takes as long as the shortest for as many targets: only then does it look. What was learned of all of them
// (rules/rma/rma.cpp) holds such waits, and does not count here.
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

// What transfers took, by the call that began them and its bytes.
class Transfers {
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
        std::sort(times.begin(), times.end());
        const int64_t mid = times[times.size() / 2];
        std::erase_if(times, [&](int64_t time) { return std::abs(time - mid) > tolerance(mid); });
        return {.low = times.front(), .mid = mid, .high = times.back(), .known = true};
    }

  private:
    using Sample = std::pair<uint64_t, int64_t>;  // bytes, ns
    using Samples = std::vector<Sample>;
    std::map<uint32_t, Samples> took_;
};

}  // namespace

// A completion, and the accesses to its window that it may have met.
struct AccessLearning::Arrivals {
    struct Arrival {
        int32_t origin = 0;
        const Access* access = nullptr;
    };
    int32_t target = 0;
    const Completion* call = nullptr;
    int64_t own = 0;  // ns: the shortest with so many records
    std::vector<Arrival> arrivals;

    int64_t looks() const { return call->enter + own; }
    bool is_long() const { return call->leave - call->enter - call->noise > 2 * own + 1'000; }
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
            for (const Completion& call : calls) all.push_back({static_cast<int32_t>(target), &call, shortest.at(call.records), {}});
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

void AccessLearning::plan_incoming(AccessPlan& plan) const {
    for (const auto& [window, calls] : arrivals()) {
        Transfers transfers;
        for (const Arrivals& of : calls)
            if (const Access* access = latest_begun(of); access && of.is_long())
                transfers.add(access->kind.region, access->bytes, of.call->leave - begun(*access));
        transfers.sort();
        size_t as_expected = 0, longer = 0, shorter = 0;
        for (const Arrivals& of : calls) {
            const Access* access = latest_begun(of);
            if (!access) continue;
            const int64_t took = of.call->leave - begun(*access);
            const bool is_long = of.is_long();
            const Cost cost = transfers.cost(access->kind.region, access->bytes, is_long ? std::optional(took) : std::nullopt);
            if (!cost.known) continue;
            if (is_long)
                ++(std::abs(took - cost.mid) <= tolerance(cost.mid) ? as_expected : longer);
            else
                shorter += took < cost.mid - tolerance(cost.mid);
        }
        if (as_expected < 2 || as_expected < longer || as_expected < 2 * shorter) continue;
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

namespace rules {

namespace {

// Behind the noise in the access.
const LaneVector& departure_delay(Engine& engine, const Match& match, Scratch& scratch) {
    const LaneVector& delay = scratch.vectors.emplace_back(engine.lane_pool().copy(match.send_delay));
    if (match.send_noise > 0)
        for (size_t i = 0; i < engine.lanes().count; ++i) delay[i] += match.send_noise_removed[i];
    return delay;
}

// Of a wait: whatever comes first.
void add_exposed(Engine& engine, const Dependency& dependency, Scratch& scratch) {
    const Match& match = *dependency.match;
    const AccessWait& wait = *dependency.access;
    const LaneVector& delay = departure_delay(engine, match, scratch);
    scratch.constraints.push_back({match.send_time + match.send_noise + wait.begins, delay, wait.transfer,
                                   match.send_noise > 0 ? match.departure_node : match.send_node});
}

// Also where its cost was taken from what was learned of such calls.
void works_for(int64_t own, const Engine& engine, Scratch& scratch) {
    if (engine.faults().completions_as_usual) return;
    scratch.own = {own, own, own, true};
    for (Constraint& constraint : scratch.constraints)
        if (!constraint.cost.known) constraint.cost.mid = std::min(constraint.cost.mid, own);
}

// `looks`: when the call looks for transfers in the measured run, and in each lane.
void add_incoming(Engine& engine, Thread& thread, const Dependency& dependency, int64_t looks, const LaneVector& looks_in,
                  Scratch& scratch) {
    const Match& match = *dependency.match;
    const AccessWait& wait = *dependency.access;
    const Lanes& lanes = engine.lanes();
    const int64_t begun = match.send_time + match.send_noise + wait.begins;  // noise in the access comes before its transfer
    const LaneVector& delay = departure_delay(engine, match, scratch);
    const int64_t uncertain = lanes.bounded() ? (delay[lanes.low] - delay[lanes.high]) / 2 : 0;
    // What did not wait in the measured run is bound by what it would have waited for; no more than was measured where that had begun.
    int64_t took = wait.transfer.mid;
    if (begun <= looks) took = std::min(took, std::max<int64_t>(0, thread.leave - noise_after(thread.pieces, thread.enter) - begun));
    bool waits = false;
    for (size_t i = 0; i < lanes.count; ++i) {
        int64_t begun_at = begun - delay[i];
        if (lanes.bounded() && i == lanes.low) begun_at -= uncertain;
        if (lanes.bounded() && i == lanes.high) begun_at += uncertain;
        const bool first = begun_at <= looks_in[i];
        if (!first && !(wait.waited && engine.faults().accesses_always_wait)) {
            delay[i] = never;
            continue;
        }
        waits = true;
        if (!wait.waited) delay[i] += thread.enter - begun - took;
    }
    if (!waits) return;
    const uint64_t node = match.send_noise > 0 ? match.departure_node : match.send_node;
    if (wait.waited)
        scratch.constraints.push_back({begun, delay, wait.transfer, node});
    else
        scratch.constraints.push_back({thread.enter, delay, {}, node});
    own_at_least(scratch, {wait.own, wait.own, wait.own, true});
}

}  // namespace

void constrain_incoming(Engine& engine, Thread& thread, Scratch& scratch) {
    if (!of(engine).accesses) return;
    const auto incoming = [](const Dependency& of) { return of.access && of.access->incoming; };
    const auto first = std::find_if(thread.dependencies.begin(), thread.dependencies.end(), incoming);
    if (first == thread.dependencies.end()) return;
    if (thread.kind != CallKind::win_complete) {
        works_for(scratch.own.low, engine, scratch);
        for (const Dependency& dependency : thread.dependencies)
            if (incoming(dependency) && dependency.match) add_exposed(engine, dependency, scratch);
        return;
    }
    works_for(first->access->own, engine, scratch);
    const Lanes& lanes = engine.lanes();
    int64_t looks = thread.enter;
    LaneVector looks_in = engine.lane_pool().take();
    for (size_t i = 0; i < lanes.count; ++i) looks_in[i] = thread.enter - thread.delay[i];
    for (const Constraint& constraint : scratch.constraints) {
        looks = std::max(looks, constraint.time);
        for (size_t i = 0; i < lanes.count; ++i) looks_in[i] = std::max(looks_in[i], constraint.time - constraint.delay[i]);
    }
    int64_t own = 0;  // not yet added
    for (const Dependency& dependency : thread.dependencies) {
        if (!incoming(dependency)) continue;
        if (!dependency.match) {
            constrain_first(engine, thread, *dependency.access, scratch);
            continue;
        }
        const int64_t more = dependency.access->own - std::exchange(own, dependency.access->own);
        looks += more;
        for (size_t i = 0; i < lanes.count; ++i) looks_in[i] += more;
        add_incoming(engine, thread, dependency, looks, looks_in, scratch);
    }
}

}  // namespace rules

}  // namespace polter::replay
