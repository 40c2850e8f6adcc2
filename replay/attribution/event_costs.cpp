// SPDX-License-Identifier: BSD-3-Clause
#include "event_costs.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "replay/engine/engine.hpp"
#include "replay/graph/slack_pass.hpp"
#include "replay/trace/definitions.hpp"

namespace polter::replay {

namespace {

PathResult path_result(const Definitions& definitions, const Engine& engine, const CriticalPath& path) {
    PathResult result;
    result.hops = path.hops;
    std::map<int64_t, int64_t> by_rank;
    for (const auto& [thread, ns] : path.by_thread) by_rank[engine.threads()[thread]->rank] += ns;
    std::map<std::array<std::string, 3>, int64_t> by_place;
    for (const auto& [place, ns] : path.by_place) {
        const auto [where, caller] = definitions.place_names(place);
        by_place[{where, caller, definitions.call_site_name(place)}] += ns;
    }
    for (const auto& [rank, ns] : by_rank) {
        if (ns != 0) result.by_rank.emplace_back(rank, ns);
        result.length_ns += ns;
    }
    for (const auto& [names, ns] : by_place)
        if (ns != 0) result.by_place.push_back({names[0], names[1], names[2], ns});
    std::stable_sort(result.by_rank.begin(), result.by_rank.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    std::stable_sort(result.by_place.begin(), result.by_place.end(), [](const auto& a, const auto& b) { return a.ns > b.ns; });
    for (const auto& [account, ns] : path.noise) result.noise[display_name(definitions.accounts[account])] += ns;
    return result;
}

Propagation propagation(const Engine& engine, const Recorder& recorder, int64_t accumulated) {
    Propagation sum;
    for (const auto& thread : engine.threads()) {
        if (!thread->carries_rank || !thread->started) continue;
        const NoiseBalance& balance = recorder.balance(thread->index);
        RankBalance rank;
        rank.rank = thread->rank;
        for (size_t account = 0; account < thread->local.size(); ++account)
            if (recorder.removes(static_cast<uint16_t>(account))) rank.local += thread->local[account];
        rank.waiting = balance.waiting;
        rank.counted = balance.counted;
        rank.dropped = rank.local - rank.waiting - rank.counted;
        rank.imported = balance.imported;
        rank.lost = balance.lost;
        rank.accumulated = recorder.ends()[thread->index].delay;
        sum.local += rank.local;
        sum.waiting += rank.waiting;
        sum.dropped += rank.dropped;
        sum.absorbed_downstream += rank.counted;
        sum.imported += rank.imported;
        sum.accumulated += rank.accumulated;
        sum.ranks.push_back(rank);
    }
    std::sort(sum.ranks.begin(), sum.ranks.end(), [](const RankBalance& a, const RankBalance& b) { return a.rank < b.rank; });
    sum.reached = accumulated;
    sum.absorbed_downstream -= accumulated;
    if (sum.local > 0) sum.multiplication = static_cast<double>(sum.accumulated) / static_cast<double>(sum.local);
    return sum;
}

}  // namespace

CostReport report_costs(const Definitions& definitions, const Engine& replayed, const Recorder& recorder, const Backward& backward,
                        int64_t accumulated, int64_t first) {
    CostReport report;
    for (const CostlyEvent& event : backward.costliest) {
        const auto [where, caller] = definitions.place_names(event.place);
        report.costliest.push_back({replayed.threads()[event.thread]->rank, event.begin - first, event.duration, event.cost,
                                    display_name(definitions.accounts[event.account]), definitions.culprit_name(event.culprit), where,
                                    caller, definitions.call_site_name(event.place)});
    }
    report.before = path_result(definitions, replayed, backward.before);
    report.after = path_result(definitions, replayed, backward.after);
    report.most_open = backward.most_open;
    report.propagation = propagation(replayed, recorder, accumulated);
    return report;
}

}  // namespace polter::replay
