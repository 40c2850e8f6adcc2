// SPDX-License-Identifier: BSD-3-Clause
// Attribution for machines, whole, and for people, what is most of it.
#include "attribution_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "replay/base/table.hpp"
#include "replay/trace/call_sites.hpp"

namespace polter::replay {

namespace {

constexpr size_t most_places = 8, most_origins = 12;
constexpr int64_t most_windows = 20;

std::string ms(int64_t ns) {
    return fmt::format("{:.3f}", static_cast<double>(ns) / 1e6);
}

// Most first, whichever sign; equal ones in the order of their keys.
template <class Key>
std::vector<std::pair<Key, int64_t>> by_weight(const std::map<Key, int64_t>& sums) {
    std::vector<std::pair<Key, int64_t>> list(sums.begin(), sums.end());
    std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return std::abs(a.second) > std::abs(b.second); });
    return list;
}

std::string percent(int64_t part, int64_t whole) {
    return whole > 0 ? fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole)) : "-";
}

// Culprits on all ranks, and the rank on which each made most.
std::string origins_text(const Attribution& attribution, int64_t all_ns, bool all) {
    using Origin = std::pair<std::string, std::string>;
    std::map<Origin, int64_t> sums;
    std::map<Origin, std::map<int64_t, int64_t>> by_rank;
    for (const AttributionRow& row : attribution.rows) {
        sums[{row.culprit, row.source}] += row.ns;
        by_rank[{row.culprit, row.source}][row.rank] += row.ns;
    }
    const auto origins = by_weight(sums);
    Table table({"culprit", "source", "ms", "share", "worst rank", "ms there"}, {0, 1});
    int64_t rest = 0;
    size_t left = 0;
    for (size_t i = 0; i < origins.size(); ++i) {
        const auto& [origin, ns] = origins[i];
        if (!all && (i >= most_origins || 1000 * std::abs(static_cast<double>(ns)) < static_cast<double>(all_ns))) {
            rest += ns;
            ++left;
            continue;
        }
        const auto [rank, most] = by_weight(by_rank[origin]).front();
        table.add({origin.first, origin.second, ms(ns), percent(ns, all_ns), std::to_string(rank), ms(most)});
    }
    std::string out = "\nWho made the accumulated noise, ms (adds up)\n" + table.text();
    if (left > 0) out += fmt::format("  and {} others {} ms\n", left, ms(rest));
    return out;
}

}  // namespace

nlohmann::json attribution_json(const Attribution& attribution) {
    nlohmann::json rows = nlohmann::json::array();
    for (const AttributionRow& row : attribution.rows) {
        nlohmann::json entry = {{"source", row.source},       {"where", row.where},   {"caller", row.caller},
                                {"call_site", row.call_site}, {"window", row.window}, {"ns", row.ns}};
        if (attribution.by_origin) entry.update({{"culprit", row.culprit}, {"rank", row.rank}});
        rows.push_back(std::move(entry));
    }
    return {{"paid_on_rank", attribution.paid_on}, {"windows", attribution.windows}, {"rows", rows}};
}

std::string attribution_text(const Attribution& attribution, bool everything) {
    using Place = std::pair<std::string, std::string>;
    std::map<Place, int64_t> by_place;
    std::map<Place, std::map<std::string, int64_t>> sources;
    std::vector<int64_t> by_window(static_cast<size_t>(attribution.windows), 0);
    int64_t all = 0;
    for (const AttributionRow& row : attribution.rows) {
        const Place place{row.where, called_from(row.caller, row.call_site)};
        by_place[place] += row.ns;
        sources[place][row.source] += row.ns;
        by_window[static_cast<size_t>(row.window)] += row.ns;
        all += row.ns;
    }
    if (by_place.empty()) return "";
    const auto places = by_weight(by_place);
    Table table({"where", "called from", "ms", "share", "most by"}, {0, 1});
    int64_t rest = 0;
    for (size_t i = 0; i < places.size(); ++i) {
        const auto& [place, ns] = places[i];
        if (i >= most_places && !everything) {
            rest += ns;
            continue;
        }
        const auto [source, most] = by_weight(sources[place]).front();
        table.add({place.first, place.second, ms(ns), percent(ns, all), fmt::format("{} {}", source, ms(most))});
    }
    std::string out = attribution.by_origin ? origins_text(attribution, all, everything) : "";
    out += fmt::format("\nWhere it was paid, ms, on rank {}, which ends last\n", attribution.paid_on) + table.text();
    if (places.size() > most_places && !everything)
        out += fmt::format("  and in {} other places {} ms\n", places.size() - most_places, ms(rest));
    if (attribution.windows > most_windows)
        out += fmt::format("  in {} equal parts of the run: too many for a line, `--json` has them\n", attribution.windows);
    else if (attribution.windows > 1) {
        out += fmt::format("  in {} equal parts of the run:", attribution.windows);
        for (const int64_t ns : by_window) out += " " + ms(ns);
        out += '\n';
    }
    return out;
}

}  // namespace polter::replay
