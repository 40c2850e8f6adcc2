// SPDX-License-Identifier: BSD-3-Clause
#include "report_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "first_screen.hpp"
#include "replay/base/layout.hpp"

namespace polter::replay {

namespace {

constexpr std::string_view unknown_culprit = "unknown";  // as Definitions::culprit_name says

// Of one culprit of a source: the delay that it caused, and the time that it took.
struct CulpritSum {
    std::string source, culprit;
    int64_t delay = 0, local = 0, events = 0;
    std::map<int64_t, int64_t> by_rank;  // delay, or time where no delay is known by culprit
};

std::vector<CulpritSum> by_culprit(const Result& result) {
    std::map<std::pair<std::string, std::string>, CulpritSum> sums;
    const auto of = [&](const std::string& source, const std::string& culprit) -> CulpritSum& {
        CulpritSum& sum = sums[{source, culprit}];
        sum.source = source;
        sum.culprit = culprit;
        return sum;
    };
    for (const CulpritResult& culprit : result.culprits) {
        CulpritSum& sum = of(culprit.source, culprit.culprit);
        sum.local += culprit.local_ns;
        sum.events += culprit.events;
        sum.by_rank.try_emplace(culprit.rank, 0);
        if (!result.attribution.by_origin) sum.by_rank[culprit.rank] += culprit.local_ns;
    }
    if (result.attribution.by_origin)
        for (const AttributionRow& row : result.attribution.rows) {
            if (row.rank < 0) continue;
            CulpritSum& sum = of(row.source, row.culprit);
            sum.delay += row.ns;
            sum.by_rank[row.rank] += row.ns;
        }
    std::vector<CulpritSum> list;
    for (auto& [key, sum] : sums) list.push_back(std::move(sum));
    std::stable_sort(list.begin(), list.end(),
                     [](const CulpritSum& a, const CulpritSum& b) { return std::tie(a.delay, a.local) > std::tie(b.delay, b.local); });
    return list;
}

const HostResult* host_of(const Result& result, int64_t rank) {
    for (const HostResult& host : result.hosts)
        if (std::binary_search(host.ranks.begin(), host.ranks.end(), rank)) return &host;
    return nullptr;
}

// The host whose ranks it hit most.
std::string main_host(const Result& result, const CulpritSum& sum) {
    std::map<std::string, int64_t> hosts;
    for (const auto& [rank, ns] : sum.by_rank)
        if (const HostResult* host = host_of(result, rank)) hosts[host->name] += ns;
    const auto most = std::max_element(hosts.begin(), hosts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == hosts.end() ? "" : most->first;
}

bool is_removed(const Result& result, const std::string& source) {
    return std::any_of(result.sources.begin(), result.sources.end(), [&](const auto& one) { return one.removed && one.name == source; });
}

std::string bounded_percent(int64_t part, int64_t whole) {
    return whole > 0 ? fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole)) : "0 %";
}

nlohmann::json culprits_json(const Result& result, const std::vector<CulpritSum>& culprits) {
    constexpr size_t most = 200;
    nlohmann::json list = nlohmann::json::array();
    for (const CulpritSum& sum : culprits) {
        if (list.size() == most) break;
        list.push_back({{"source", sum.source},
                        {"culprit", sum.culprit},
                        {"host", main_host(result, sum)},
                        {"ranks", sum.by_rank.size()},
                        {"delay_ns", result.attribution.by_origin ? nlohmann::json(sum.delay) : nlohmann::json()},
                        {"local_ns", sum.local},
                        {"events", sum.events}});
    }
    return list;
}

nlohmann::json hosts_json(const Result& result) {
    std::map<int64_t, int64_t> caused;
    if (result.attribution.by_origin)
        for (const AttributionRow& row : result.attribution.rows) caused[row.rank] += row.ns;
    nlohmann::json list = nlohmann::json::array();
    const bool known = not_measured(result).empty();
    for (const HostResult& host : result.hosts) {
        int64_t local = 0, most = 0, delay = 0, measured = 0, last = 0;
        for (const RankResult& rank : result.per_rank) {
            if (!std::binary_search(host.ranks.begin(), host.ranks.end(), rank.rank)) continue;
            measured += known && rank.measured_by != "none";
            local += rank.local_noise_ns;
            most = std::max(most, rank.local_noise_ns);
            last = std::max(last, rank.accumulated_noise_ns);
        }
        for (const int64_t rank : host.ranks)
            if (const auto found = caused.find(rank); found != caused.end()) delay += found->second;
        nlohmann::json mean;
        if (measured > 0) mean = local / measured;
        list.push_back({{"host", host.name},
                        {"ranks", host.ranks},
                        {"local_noise_ns", {{"mean", mean}, {"max", measured > 0 ? nlohmann::json(most) : nlohmann::json()}}},
                        {"caused_delay_ns", result.attribution.by_origin ? nlohmann::json(delay) : nlohmann::json()},
                        {"delay_at_end_ns", last}});
    }
    return list;
}

// Sums of the attribution's rows.
void add_sums(nlohmann::json& attribution, const Result& result) {
    std::map<std::tuple<std::string, std::string, std::string>, int64_t> places;
    std::map<std::string, std::vector<int64_t>> windows;
    for (const AttributionRow& row : result.attribution.rows) {
        places[{row.where, row.caller, row.call_site}] += row.ns;
        auto& of = windows[row.source];
        of.resize(static_cast<size_t>(std::max<int64_t>(1, result.attribution.windows)));
        if (row.window >= 0 && static_cast<size_t>(row.window) < of.size()) of[static_cast<size_t>(row.window)] += row.ns;
    }
    nlohmann::json by_place = nlohmann::json::array();
    for (const auto& [place, ns] : places)
        by_place.push_back({{"where", std::get<0>(place)}, {"caller", std::get<1>(place)}, {"call_site", std::get<2>(place)}, {"ns", ns}});
    std::stable_sort(by_place.begin(), by_place.end(), [](const auto& a, const auto& b) { return a["ns"] > b["ns"]; });
    attribution["by_place"] = std::move(by_place);
    attribution["by_window"] = windows;
}

nlohmann::json warnings_json(const Result& result) {
    constexpr const char* severities[] = {"severe", "caution", "note"};
    nlohmann::json list = nlohmann::json::array();
    for (const Warning& warning : result.warnings) {
        const FlawKind& kind = kind_of(warning.flaw);
        list.push_back({{"name", kind.name},
                        {"severity", severities[static_cast<size_t>(warning.severity())]},
                        {"conditional", warning.effect() == Effect::conditional},
                        {"text", warning.text},
                        {"help", kind.help}});
    }
    return list;
}

}  // namespace

std::string answer(const Result& result) {
    if (const std::string why = not_measured(result); !why.empty())
        return fmt::format("What the operating system cost this run of {} is unknown, not zero: its noise was not measured ({}).",
                           short_time(result.measured_ns), why);
    const NoiseCost cost(result);
    const int64_t run = result.measured_ns, noise = result.accumulated_noise_ns;
    const std::string between = fmt::format("between {} and {}", short_percent(cost.low, run), short_percent(cost.high, run));
    const auto culprits = by_culprit(result);
    const auto named = [](const CulpritSum& sum) { return names_processes(sum.source) && sum.culprit != unknown_culprit; };
    const auto on_host = [&](const CulpritSum& sum) {
        const std::string host = main_host(result, sum);
        return fmt::format("{} by {}{}", cause(sum.source), sum.culprit, host.empty() ? "" : " on " + host);
    };
    if (cost.open) {
        std::string out =
            fmt::format("The operating system cost this run {} of its {}: the trace leaves open how much", between, short_time(run));
        int64_t stolen = 0;
        for (const RankResult& rank : result.per_rank) stolen += rank.local_noise_ns;
        const CulpritSum* top = nullptr;
        for (const CulpritSum& sum : culprits)
            if (is_removed(result, sum.source) && named(sum) && sum.local > (top ? top->local : 0)) top = &sum;
        if (!top) return out + ".";
        return out + fmt::format("; {} of what it took from the ranks was {}.", bounded_percent(top->local, stolen), on_host(*top));
    }
    std::string out = fmt::format("The operating system cost this run {} of {} ({}, {})", short_time(noise), short_time(run),
                                  short_percent(noise, run), between);
    const SourceResult* most = nullptr;
    for (const SourceResult& source : result.sources)
        if (source.removed && source.share_ns > 0 && (!most || source.share_ns > most->share_ns)) most = &source;
    if (!most || noise <= 0) return out + ".";
    const CulpritSum* top = nullptr;
    for (const CulpritSum& sum : culprits)
        if (sum.source == most->name && named(sum) && (!top || sum.delay > top->delay)) top = &sum;
    if (!top || !result.attribution.by_origin || top->delay <= 0)
        return out + fmt::format("; {} of it was {}.", bounded_percent(most->share_ns, noise), cause(most->name));
    return out + fmt::format("; {} of it was {}.", bounded_percent(top->delay, noise), on_host(*top));
}

void add_report_json(nlohmann::json& json, const Result& result) {
    const NoiseCost cost(result);
    json["answer"] = {{"sentence", answer(result)}, {"cost_bounds_ns", {cost.low, cost.high}}, {"open", cost.open}};
    json["by_culprit"] = culprits_json(result, by_culprit(result));
    json["hosts"] = hosts_json(result);
    json["explained_warnings"] = warnings_json(result);
    add_sums(json["attribution"], result);
    nlohmann::json names = nlohmann::json::object();
    for (const SourceResult& source : result.sources) names[source.name] = cause(source.name);
    for (const ServiceResult& service : result.services) names["os-service:" + service.name] = cause("os-service:" + service.name);
    json["source_names"] = names;
    if (!result.timeline || !result.definitions) return;
    json["timeline"] = timeline_json(*result.timeline, *result.definitions);
    json["durations"] = durations_json(*result.timeline, *result.definitions);
}

}  // namespace polter::replay
