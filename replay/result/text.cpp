// SPDX-License-Identifier: BSD-3-Clause
// The tables below the first screen. Times are converted to milliseconds here and nowhere before.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "attribution_output.hpp"
#include "call_sites_output.hpp"
#include "costs_output.hpp"
#include "first_screen.hpp"
#include "replay/base/printable.hpp"
#include "replay/base/table.hpp"
#include "result.hpp"

namespace polter::replay {

namespace {

constexpr size_t most_ranks = 32, most_culprits = 12, most_warnings = 5;

std::string ms(double ns) {
    return fmt::format("{:.3f}", ns / 1e6);
}
std::string ms(int64_t ns) {
    return ms(static_cast<double>(ns));
}
std::string factor(const std::optional<double>& value) {
    return value ? fmt::format("{:.2f}", *value) : "-";
}
std::string percent(int64_t part, int64_t whole) {
    return whole > 0 ? fmt::format("{:.2f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole)) : "-";
}

std::string without(const Result& result) {
    const std::string what = removed(result);
    if (what.empty()) return "without the noise";
    return what == "nothing" ? "with nothing removed" : "without " + what;
}

// What the first screen does not have,.
std::string totals_text(const Result& result) {
    Table table({"", "ms"});
    const bool open = NoiseCost(result).open;
    if (!open) table.add({"accumulated noise", ms(result.accumulated_noise_ns)});
    const auto local = [&](const char* name, const LocalNoise& noise) { table.add({name, ms(noise.mean) + " / " + ms(noise.max)}); };
    local("local noise of a rank, mean / max", result.local);
    if (result.removed_local.max != result.local.max || result.removed_local.mean != result.local.mean)
        local("  of what was removed", result.removed_local);
    table.add({"amplification (accumulated / local)", open ? "-" : factor(result.amplification)});
    return fmt::format("\nAll noise, ms ({} events in the trace)\n", result.events) + table.text();
}

// Not among the accounts that the exporter could see, where the trace says which.
bool unseen(const Result& result, const std::string& source) {
    const auto seen = result.provenance.find("ACCOUNTS_SEEN");
    return seen != result.provenance.end() && ("," + seen->second + ",").find("," + source + ",") == std::string::npos;
}

std::string sources_text(const Result& result, bool all) {
    if (result.sources.empty()) return "";
    Table table({"source", "local mean", "local max", "alone", "without", "share", "share", "amplification"});
    std::string silent, small;
    const auto list = [](std::string& names, const SourceResult& source) { names += (names.empty() ? "" : ", ") + printable(source.name); };
    bool any = false;
    for (const SourceResult& source : result.sources) {
        if (source.local.max == 0) {
            if (!unseen(result, source.name)) list(silent, source);
            continue;
        }
        any = true;
        if (!all && is_small(result, source)) {
            list(small, source);
            continue;
        }
        const auto if_removed = [&](const std::string& cell) { return source.removed ? cell : "-"; };
        table.add({source.name, ms(source.local.mean), ms(source.local.max), ms(source.alone_ns), if_removed(ms(source.without_ns)),
                   if_removed(ms(source.share_ns)), if_removed(percent(source.share_ns, result.accumulated_noise_ns)),
                   factor(source.amplification)});
    }
    if (!silent.empty()) silent = fold("  nothing from: " + silent, 4) + "\n";
    if (!small.empty()) silent = fold("  below 0.1 % (--all): " + small, 4) + "\n" + silent;
    if (!any) return silent.empty() ? "" : "\nNoise by source\n" + silent;
    return "\nNoise by source, ms (alone: if only this one vanished; without: if it vanished last; the shares add up)\n" + table.text() +
           silent;
}

std::string services_text(const Result& result) {
    Table table({"service", "local mean", "local max", "alone"});
    bool any = false;
    for (const ServiceResult& service : result.services) {
        if (service.local.max == 0) continue;
        any = true;
        table.add({service.name, ms(service.local.mean), ms(service.local.max), ms(service.alone_ns)});
    }
    return any ? "\nServices, ms (the program's own requests: not noise, not removed unless asked for)\n" + table.text() : "";
}

std::string ranks_text(const Result& result, bool all) {
    std::vector<const RankResult*> order;
    for (const RankResult& rank : result.per_rank) order.push_back(&rank);
    const bool cut = !all && order.size() > most_ranks;
    if (cut) {  // those with most noise of their own
        std::stable_sort(order.begin(), order.end(),
                         [](const RankResult* a, const RankResult* b) { return a->local_noise_ns > b->local_noise_ns; });
        order.resize(most_ranks);
        std::sort(order.begin(), order.end(), [](const RankResult* a, const RankResult* b) { return a->rank < b->rank; });
    }
    if (!not_measured(result).empty()) {
        Table measured({"rank", "measured"});
        for (const RankResult* rank : order) measured.add({std::to_string(rank->rank), ms(rank->measured_ns)});
        return "\nBy rank, ms\n" + measured.text();
    }
    Table table({"rank", "measured", without(result), "accumulated", "local", "most by"});
    for (const RankResult* rank : order) {
        std::string most = "-";
        int64_t best = 0;
        for (const auto& [name, source] : rank->sources)
            if (source.share_ns > best) {
                best = source.share_ns;
                most = fmt::format("{} {}", name, ms(source.share_ns));
            }
        table.add({std::to_string(rank->rank), ms(rank->measured_ns), ms(rank->approximated_ns), ms(rank->accumulated_noise_ns),
                   rank->measured_by == "none" ? "not measured" : ms(rank->local_noise_ns), most});
    }
    std::string title = "\nBy rank, ms";
    if (cut) title += fmt::format(" (the {} of {} with most noise of their own)", most_ranks, result.per_rank.size());
    return title + "\n" + table.text();
}

// Of all ranks, and the rank where it took most.
std::string culprits_text(const Result& result, bool all) {
    struct Sum {
        int64_t ns = 0, events = 0, rank = -1, most = -1;
    };
    std::map<std::pair<std::string, std::string>, Sum> sums;
    double total = 0;
    for (const CulpritResult& culprit : result.culprits) {
        Sum& sum = sums[{culprit.culprit, culprit.source}];
        sum.ns += culprit.local_ns;
        sum.events += culprit.events;
        total += static_cast<double>(culprit.local_ns);
        if (culprit.local_ns > sum.most) sum.rank = culprit.rank, sum.most = culprit.local_ns;
    }
    if (sums.empty()) return "";
    std::vector<std::pair<std::pair<std::string, std::string>, Sum>> order(sums.begin(), sums.end());
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
    Table table({"culprit", "source", "ms", "events", "worst rank", "ms there"}, {0, 1});
    size_t shown = 0;
    for (const auto& [key, sum] : order) {
        if (!all && (shown == most_culprits || below_threshold(static_cast<double>(sum.ns), total))) break;
        table.add({key.first, key.second, ms(sum.ns), std::to_string(sum.events), std::to_string(sum.rank), ms(sum.most)});
        ++shown;
    }
    const std::string left = shown == order.size() ? "" : fmt::format("  and {} more: --all\n", order.size() - shown);
    return "\nCulprits by the time they took on all ranks, ms\n" + table.text() + left;
}

std::string warnings_text(const Result& result, size_t most) {
    std::string out;
    size_t count = 0;
    for (const std::string& warning : result.warnings)
        if (!on_first_screen(result, warning) && ++count <= most) out += fold("  - " + printable(warning), 4) + "\n";
    if (count > most) out += fmt::format("  - and {} more\n", count - most);
    return out.empty() ? out : "\nWarnings\n" + out;
}

}  // namespace

std::string not_measured(const Result& result) {
    if (result.local.max != 0) return {};
    const std::string why = known(result, "EXPORTER_WHY");
    if (known(result, "EXPORTER") == "none") return "recorded without an exporter" + (why.empty() ? why : ": " + why);
    return result.sources.empty() ? "the trace has no noise metrics, os:…" : "";
}

std::string to_text(const Result& result, bool all) {
    const std::string warnings = warnings_text(result, result.warnings.size());
    const std::string begin = first_screen(result, all);
    if (!not_measured(result).empty())
        return begin + services_text(result) + ranks_text(result, all) + call_sites_text(result.call_sites, result.ranks, all) + warnings;
    return begin + totals_text(result) + sources_text(result, all) + services_text(result) + attribution_text(result.attribution, all) +
           (result.costs ? costs_text(*result.costs, without(result)) : "") + ranks_text(result, all) + culprits_text(result, all) +
           call_sites_text(result.call_sites, result.ranks, all) + warnings;
}

std::string to_short_text(const Result& result) {
    return first_screen(result, false) + warnings_text(result, most_warnings);
}

std::string to_unreplayed_text(const Result& result, const std::string& why) {
    return unreplayed_screen(result, why) + warnings_text(result, most_warnings);
}

}  // namespace polter::replay
