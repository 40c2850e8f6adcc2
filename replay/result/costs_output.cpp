// SPDX-License-Identifier: BSD-3-Clause
#include "costs_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "replay/base/printable.hpp"
#include "replay/base/table.hpp"
#include "replay/trace/call_sites.hpp"

namespace polter::replay {

namespace {

constexpr size_t most_rows = 6;

std::string ms(int64_t ns) {
    return fmt::format("{:.3f}", static_cast<double>(ns) / 1e6);
}
std::string percent(int64_t part, int64_t whole) {
    return whole > 0 ? fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole)) : "-";
}
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

std::string costliest_text(const CostReport& report, const std::string& without) {
    if (report.costliest.empty()) return "";
    Table table({"culprit", "source", "rank", "at, s", "lasted, ms", "cost, ms", "struck in"});
    for (const CostlyNoise& noise : report.costliest)
        table.add({noise.culprit, noise.source, std::to_string(noise.rank), fmt::format("{:.6f}", static_cast<double>(noise.at_ns) / 1e9),
                   ms(noise.duration_ns), ms(noise.cost_ns), in(noise)});
    return fmt::format("\nThe noise events that cost most (what each alone adds to the run {}; costs do not add up)\n", without) +
           table.text();
}

std::string propagation_text(const Propagation& p) {
    if (p.local == 0) return "";
    Table table({"", "ms", "of all"});
    table.add({"local noise of all ranks", ms(p.local), ""});
    table.add({"  struck while the rank waited anyway", ms(p.waiting), percent(p.waiting, p.local)});
    table.add({"  overtaken: something else was later still", ms(p.overtaken), percent(p.overtaken, p.local)});
    if (p.dropped != 0) table.add({"  had no place between its events", ms(p.dropped), percent(p.dropped, p.local)});
    table.add({"  reached the end of the program", ms(p.reached), percent(p.reached, p.local)});
    std::string out = "\nWhat became of it\n" + table.text();
    if (p.multiplication)
        out += fmt::format("  all ranks together end {} ms later, {:.2f} times their local noise; waiting for others brought {} ms\n",
                           ms(p.accumulated), *p.multiplication, ms(p.imported));
    return out;
}

std::string path_text(const CostReport& report, const std::string& without) {
    const PathResult &before = report.before, &after = report.after;
    std::string out = fmt::format("\nCritical path: before {} ms over {} hops between ranks, {} {} ms over {}\n", ms(before.length_ns),
                                  before.hops, without, ms(after.length_ns), after.hops);
    std::string noise;
    for (const auto& [source, ns] : before.noise)
        if (ns > 0) noise += fmt::format("{}{} {}", noise.empty() ? "" : ", ", printable(source), ms(ns));
    if (!noise.empty()) out += "  noise on it, ms: " + noise + "\n";
    // Those that are listed, then what is left of both paths in one row.
    Table places({"on it", "before, ms", without + ", ms"});
    int64_t left = 0, left_then = 0;
    for (const PathPlace& place : before.by_place) left += place.ns;
    for (const PathPlace& place : after.by_place) left_then += place.ns;
    const auto add = [&](const std::string& name, int64_t ns, int64_t then) {
        places.add({name, ms(ns), ms(then)});
        left -= ns;
        left_then -= then;
    };
    const auto add_left = [&](size_t all, const char* what) {
        if (all > most_rows) places.add({fmt::format("and {} other {}", all - most_rows, what), ms(left), ms(left_then)});
    };
    for (size_t i = 0; i < std::min(most_rows, before.by_place.size()); ++i) {
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
    for (size_t i = 0; i < std::min(most_rows, before.by_rank.size()); ++i) {
        const auto& [rank, ns] = before.by_rank[i];
        int64_t then = 0;
        for (const auto& [other, there] : after.by_rank)
            if (other == rank) then = there;
        add(fmt::format("rank {}", rank), ns, then);
    }
    add_left(before.by_rank.size(), "ranks");
    return out + places.text();
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
                             {"overtaken_ns", p.overtaken},
                             {"reached_ns", p.reached},
                             {"imported_ns", p.imported},
                             {"accumulated_on_all_ranks_ns", p.accumulated},
                             {"multiplication", p.multiplication ? nlohmann::json(*p.multiplication) : nlohmann::json(nullptr)},
                             {"per_rank", ranks}};
    result["temporary_bytes"] = report.spilled_bytes;
}

std::string costs_text(const CostReport& report, const std::string& without) {
    return costliest_text(report, without) + propagation_text(report.propagation) + path_text(report, without);
}

}  // namespace polter::replay
