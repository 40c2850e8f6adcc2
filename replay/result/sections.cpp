// SPDX-License-Identifier: BSD-3-Clause
#include "sections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "first_screen.hpp"
#include "replay/base/layout.hpp"
#include "replay/base/table.hpp"
#include "replay/trace/call_sites.hpp"
#include "replay/trace/conventions.hpp"

namespace polter::replay {

namespace {

constexpr size_t most_processes = 10, most_places = 8, most_ranks = 5;

// Largest absolute value first; equal ones in the order of their keys.
template <class Key>
std::vector<std::pair<Key, int64_t>> by_weight(const std::map<Key, int64_t>& sums) {
    std::vector<std::pair<Key, int64_t>> list(sums.begin(), sums.end());
    std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return std::abs(a.second) > std::abs(b.second); });
    return list;
}

bool small(int64_t part, int64_t whole) {
    return below_threshold(std::abs(static_cast<double>(part)), static_cast<double>(whole));
}

std::string more(size_t count, const char* one, const char* several, const std::string& much = "") {
    if (count == 0) return "";
    return fmt::format("  and {} more {}{}{}: --all\n", count, count == 1 ? one : several, much.empty() ? "" : ", ", much);
}

// One culprit's noise, on all ranks.
struct Origin {
    int64_t delay = 0, stolen = 0, events = 0;
    std::map<int64_t, int64_t> delay_by_rank, stolen_by_rank;
};

std::string worst(const std::map<int64_t, int64_t>& by_rank) {
    if (by_rank.empty()) return "-";
    const auto [rank, ns] = by_weight(by_rank).front();
    return fmt::format("{} ({})", rank, short_time(ns));
}

using Origins = std::map<std::pair<std::string, std::string>, Origin>;  // by source and culprit

Origins origins_of(const Result& result, bool all) {
    Origins origins;
    for (const CulpritResult& culprit : result.culprits) {
        Origin& origin = origins[{culprit.source, culprit.culprit}];
        origin.stolen += culprit.local_ns;
        origin.events += culprit.events;
        origin.stolen_by_rank[culprit.rank] += culprit.local_ns;
    }
    if (result.attribution.by_origin)
        for (const AttributionRow& row : result.attribution.rows) {
            Origin& origin = origins[{row.source, row.culprit}];
            origin.delay += row.ns;
            origin.delay_by_rank[row.rank] += row.ns;
        }
    const auto is_noise = [&](const std::string& source) {  // false for a service, unless it was removed
        return std::any_of(result.sources.begin(), result.sources.end(), [&](const SourceResult& one) { return one.name == source; });
    };
    std::erase_if(origins, [&](const auto& entry) { return !is_noise(entry.first.first) || !(all || names_processes(entry.first.first)); });
    return origins;
}

// The largest loss of a rank, and its culprit.
std::pair<std::string, std::string> most_on(const Result& result, const RankResult& rank) {
    std::string source = "-", process = "-";
    int64_t most = 0;
    for (const auto& [name, of] : rank.sources)
        if (of.local_ns > most) source = name, most = of.local_ns;
    most = 0;
    for (const CulpritResult& culprit : result.culprits)
        if (culprit.rank == rank.rank && culprit.source == source && culprit.local_ns > most && names_processes(source))
            process = culprit.culprit, most = culprit.local_ns;
    return {source == "-" ? source : cause(source), process};
}

// Name of a place: the MPI call and its caller; all else is the program's own code.
std::pair<std::string, std::string> call_and_caller(const AttributionRow& row) {
    const std::string from = called_from(row.caller, row.call_site);
    if (row.where.starts_with(names::mpi_prefix) || !from.empty()) return {row.where, from.empty() ? "-" : from};
    if (row.where == another_rank_ends_last) return {row.where, "-"};
    return {"(no MPI call)", row.where};
}

bool nothing_to_tell(const Result& result, const TextOptions& options) {
    return !not_measured(result).empty() || (NoiseCost(result).open && !options.all);
}

}  // namespace

std::string processes_text(const Result& result, const TextOptions& options) {
    const bool by_delay = result.attribution.by_origin && !NoiseCost(result).open;
    const Origins origins = origins_of(result, options.all);
    int64_t stolen = 0;
    for (const auto& [key, origin] : origins) stolen += origin.stolen;
    std::vector<const Origins::value_type*> order;
    for (const auto& entry : origins) order.push_back(&entry);
    const auto weight = [&](const Origin& origin) { return by_delay ? std::abs(origin.delay) : origin.stolen; };
    std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
        const int64_t left = weight(a->second), right = weight(b->second);
        return left != right ? left > right : a->second.stolen > b->second.stolen;
    });
    Table table = by_delay ? Table({"process", "cause", "delay", "share", "stolen", "worst rank"}, {0, 1}, {0, 1}, {4})
                           : Table({"process", "cause", "stolen", "share", "events", "worst rank"}, {0, 1}, {0, 1}, {4});
    size_t shown = 0;
    for (const auto* entry : order) {
        const auto& [key, origin] = *entry;
        const int64_t whole = by_delay ? result.accumulated_noise_ns : stolen;
        if (!options.all && (shown == most_processes || small(weight(origin), whole))) break;
        ++shown;
        if (by_delay)
            table.add({key.second, cause(key.first), short_time(origin.delay), short_percent(origin.delay, whole),
                       short_time(origin.stolen), worst(origin.delay_by_rank)});
        else
            table.add({key.second, cause(key.first), short_time(origin.stolen), short_percent(origin.stolen, whole),
                       std::to_string(origin.events), worst(origin.stolen_by_rank)});
    }
    if (shown == 0) return "";
    const std::string title = by_delay                       ? "Processes by the delay they caused, over all ranks"
                              : result.attribution.by_origin ? "Processes by the time they took, over all ranks"
                                                             : "Processes by the time they took, over all ranks (by delay: --attribution)";
    return "\n" + fold(title, 2, options.columns) + "\n" + table.text(options.columns) + more(order.size() - shown, "process", "processes");
}

std::string calls_text(const Result& result, const TextOptions& options) {
    if (nothing_to_tell(result, options)) return "";
    using Place = std::pair<std::string, std::string>;
    std::map<Place, int64_t> sums;
    std::map<Place, std::map<std::string, int64_t>> sources;
    int64_t all = 0;
    for (const AttributionRow& row : result.attribution.rows) {
        const Place place = call_and_caller(row);
        sums[place] += row.ns;
        sources[place][row.source] += row.ns;
        all += row.ns;
    }
    if (sums.empty()) return "";
    Table table({"MPI call", "called from", "delay", "share", "most by"}, {0, 1, 4}, {0, 1, 4}, {4});
    const auto places = by_weight(sums);
    size_t shown = 0;
    int64_t rest = 0;
    for (const auto& [place, ns] : places) {
        if (!options.all && (shown == most_places || small(ns, all))) {
            rest += ns;
            continue;
        }
        ++shown;
        table.add({place.first, place.second, short_time(ns), short_percent(ns, all), cause(by_weight(sources[place]).front().first)});
    }
    const std::string title = result.ranks > 1
                                  ? fmt::format("Where the time was lost, on rank {}, which ends last", result.attribution.paid_on)
                                  : std::string("Where the time was lost");
    return "\n" + fold(title, 2, options.columns) + "\n" + table.text(options.columns) +
           more(places.size() - shown, "place", "places", rest == 0 ? "" : short_time(rest));
}

std::string over_time_text(const Result& result, const TextOptions& options) {
    constexpr size_t frame = 4, least_for_axis = 24;
    const auto windows = static_cast<size_t>(result.attribution.windows);
    if (nothing_to_tell(result, options) || windows < 2 || result.attribution.rows.empty()) return "";
    // As many windows in one column as needed for the line to fit.
    const size_t room = options.columns - frame, together = (windows + room - 1) / room;
    std::vector<int64_t> sums((windows + together - 1) / together, 0);
    for (const AttributionRow& row : result.attribution.rows) sums[static_cast<size_t>(row.window) / together] += row.ns;
    const auto peak = std::max_element(sums.begin(), sums.end());
    const auto at = [&](size_t column) {  // measured time at which the column begins
        const double part = static_cast<double>(std::min(column * together, windows)) / static_cast<double>(windows);
        return static_cast<int64_t>(part * static_cast<double>(result.measured_ns));
    };
    const bool axis = sums.size() >= least_for_axis;
    const std::string end = short_time(result.measured_ns);
    std::string out = "\n" +
                      fold(fmt::format("Delay over time{}, {} a column, peak {} at {}", axis ? "" : fmt::format(" (0 s to {})", end),
                                       short_time(at(1)), short_time(*peak), short_time(at(static_cast<size_t>(peak - sums.begin())))),
                           2, options.columns) +
                      "\n  |" + bars(sums, options.unicode) + "|\n";
    if (axis) out += fmt::format("  0 s{}{}\n", std::string(sums.size() + 2 - 3 - end.size(), ' '), end);
    return out;
}

std::string worst_ranks_text(const Result& result, const TextOptions& options) {
    if (!not_measured(result).empty() || (result.ranks < 2 && !options.all)) return "";
    std::vector<const RankResult*> order;
    std::vector<int64_t> measured;
    for (const RankResult& rank : result.per_rank) {
        order.push_back(&rank);
        if (rank.measured_by != "none") measured.push_back(rank.local_noise_ns);
    }
    if (result.local.max == 0 && !options.all) return "";
    const size_t all = order.size();
    const auto stolen = [](const RankResult& rank) { return rank.measured_by == "none" ? -1 : rank.local_noise_ns; };
    if (!options.all) {
        std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) { return stolen(*a) > stolen(*b); });
        order.resize(std::min(order.size(), most_ranks));
    }
    const bool delay = !NoiseCost(result).open || options.all;
    Table table({"rank", "stolen", "delay at its end", "most by", "process"}, {3, 4}, {3, 4}, {2});
    for (const RankResult* rank : order) {
        const auto [source, process] = most_on(result, *rank);
        table.add({std::to_string(rank->rank), stolen(*rank) < 0 ? "not measured" : short_time(rank->local_noise_ns),
                   delay ? short_time(rank->accumulated_noise_ns) : "open", source, process});
    }
    std::string title = order.size() < all ? "Worst ranks" : "By rank";
    if (order.size() < all && !measured.empty()) {
        std::nth_element(measured.begin(), measured.begin() + static_cast<std::ptrdiff_t>(measured.size() / 2), measured.end());
        title += fmt::format(" of {} (median stolen: {})", all, short_time(measured[measured.size() / 2]));
    }
    return "\n" + fold(title, 2, options.columns) + "\n" + table.text(options.columns);
}

}  // namespace polter::replay
