// SPDX-License-Identifier: BSD-3-Clause
#include "costs_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "first_screen.hpp"
#include "replay/base/layout.hpp"
#include "replay/base/printable.hpp"
#include "replay/base/table.hpp"
#include "replay/trace/call_sites.hpp"

namespace polter::replay {

namespace {

constexpr size_t places_shown = 6;

template <class At>
std::string in(const At& at) {
    const std::string from = called_from(at.caller, at.call_site);
    return from.empty() ? at.where : at.where + " in " + from;
}

nlohmann::json path_json(const PathResult& path) {
    nlohmann::json ranks = nlohmann::json::array(), places = nlohmann::json::array();
    for (const auto& [rank, ns] : path.by_rank) ranks.push_back({{"rank", rank}, {"ns", ns}});
    for (const PathPlace& place : path.by_place)
        places.push_back({{"where", place.where}, {"caller", place.caller}, {"call_site", place.call_site}, {"ns", place.ns}});
    return {{"length_ns", path.length_ns}, {"hops", path.hops}, {"by_rank", ranks}, {"by_place", places}};
}

std::string costliest_text(const CostReport& report, const std::string& without, size_t columns) {
    if (report.costliest.empty()) return "";
    Table table({"process", "cause", "rank", "at (s)", "lasted", "cost", "hit in"}, {0, 1, 6}, {0, 1, 6}, {4});
    for (const CostlyNoise& noise : report.costliest)
        table.add({noise.culprit, cause(noise.source), std::to_string(noise.rank),
                   fmt::format("{:.6f}", static_cast<double>(noise.at_ns) / 1e9), short_time(noise.duration_ns), short_time(noise.cost_ns),
                   in(noise)});
    const std::string title = fmt::format("Costliest noise events (what each alone adds to the run {}; costs do not add up)", without);
    return "\n" + fold(title, 2, columns) + "\n" + table.text(columns);
}

std::string propagation_text(const Propagation& p, size_t columns) {
    if (p.local == 0) return "";
    Table table({"what became of the noise", "time", "share"}, {0}, {0});
    const auto add = [&](const char* name, int64_t ns) { table.add({name, short_time(ns), short_percent(ns, p.local)}); };
    add("stolen from all ranks", p.local);
    add("  absorbed: hit while the rank waited anyway", p.waiting);
    add("  absorbed: something else was later still", p.absorbed_downstream);
    if (p.dropped != 0) add("  had no place between its events", p.dropped);
    add("  propagated to the end of the program", p.reached);
    std::string out = "\n" + table.text(columns);
    if (p.multiplication)
        out += fold(fmt::format("  All ranks together end {} later, {} times what was stolen from them; waiting for others brought {}.",
                                short_time(p.accumulated), short_factor(*p.multiplication), short_time(p.imported)),
                    2, columns) +
               "\n";
    return out;
}

std::string path_text(const CostReport& report, const std::string& without, size_t columns) {
    const PathResult &before = report.before, &after = report.after;
    std::string out = "\n" +
                      fold(fmt::format("Critical path: {} with {} changes of rank; {} {} with {}", short_time(before.length_ns),
                                       before.hops, without, short_time(after.length_ns), after.hops),
                           2, columns) +
                      "\n";
    std::string noise;
    for (const auto& [source, ns] : before.noise)
        if (ns > 0) noise += fmt::format("{}{} {}", noise.empty() ? "" : ", ", printable(cause(source)), short_time(ns));
    if (!noise.empty()) out += fold("  noise on it: " + noise, 4, columns) + "\n";
    // The listed places; the rest of both paths is one row.
    Table places({"on it", "measured", without}, {0}, {0, 2});
    int64_t left = 0, left_then = 0;
    for (const PathPlace& place : before.by_place) left += place.ns;
    for (const PathPlace& place : after.by_place) left_then += place.ns;
    const auto add = [&](const std::string& name, int64_t ns, int64_t then) {
        places.add({name, short_time(ns), short_time(then)});
        left -= ns;
        left_then -= then;
    };
    const auto add_left = [&](size_t all, const char* what) {
        if (all > places_shown)
            places.add({fmt::format("and {} other {}", all - places_shown, what), short_time(left), short_time(left_then)});
    };
    for (size_t i = 0; i < std::min(places_shown, before.by_place.size()); ++i) {
        const PathPlace& place = before.by_place[i];
        int64_t then = 0;
        for (const PathPlace& other : after.by_place)
            if (in(other) == in(place)) then = other.ns;
        add(in(place), place.ns, then);
    }
    add_left(before.by_place.size(), "places");
    left = left_then = 0;
    for (const auto& [rank, ns] : before.by_rank) left += ns;
    for (const auto& [rank, ns] : after.by_rank) left_then += ns;
    for (size_t i = 0; i < std::min(places_shown, before.by_rank.size()); ++i) {
        const auto& [rank, ns] = before.by_rank[i];
        int64_t then = 0;
        for (const auto& [other, there] : after.by_rank)
            if (other == rank) then = there;
        add(fmt::format("rank {}", rank), ns, then);
    }
    add_left(before.by_rank.size(), "ranks");
    return out + places.text(columns);
}

}  // namespace

void add_costs_json(nlohmann::json& result, const CostReport& report) {
    nlohmann::json costliest = nlohmann::json::array(), ranks = nlohmann::json::array();
    for (const CostlyNoise& noise : report.costliest)
        costliest.push_back({{"rank", noise.rank},
                             {"at_ns", noise.at_ns},
                             {"duration_ns", noise.duration_ns},
                             {"cost_ns", noise.cost_ns},
                             {"source", noise.source},
                             {"culprit", noise.culprit},
                             {"where", noise.where},
                             {"caller", noise.caller},
                             {"call_site", noise.call_site}});
    result["costliest"] = costliest;
    result["critical_path"] = {{"before", path_json(report.before)}, {"after", path_json(report.after)}};
    result["critical_path"]["before"]["noise"] = report.before.noise;
    const Propagation& p = report.propagation;
    for (const RankBalance& rank : p.ranks)
        ranks.push_back({{"rank", rank.rank},
                         {"local_ns", rank.local},
                         {"waiting_ns", rank.waiting},
                         {"dropped_ns", rank.dropped},
                         {"counted_ns", rank.counted},
                         {"imported_ns", rank.imported},
                         {"lost_ns", rank.lost},
                         {"accumulated_ns", rank.accumulated}});
    result["propagation"] = {{"local_ns", p.local},
                             {"waiting_ns", p.waiting},
                             {"dropped_ns", p.dropped},
                             {"overtaken_ns", p.absorbed_downstream},
                             {"reached_ns", p.reached},
                             {"imported_ns", p.imported},
                             {"accumulated_on_all_ranks_ns", p.accumulated},
                             {"multiplication", p.multiplication ? nlohmann::json(*p.multiplication) : nlohmann::json(nullptr)},
                             {"per_rank", ranks}};
    result["temporary_bytes"] = report.spilled_bytes;
}

std::string costs_text(const CostReport& report, const std::string& without, size_t columns) {
    return costliest_text(report, without, columns) + propagation_text(report.propagation, columns) + path_text(report, without, columns);
}

}  // namespace polter::replay
