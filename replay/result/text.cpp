// SPDX-License-Identifier: BSD-3-Clause
// The result as text: the first screen, processes, places and times, the detailed tables, and the warnings.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "call_sites_output.hpp"
#include "costs_output.hpp"
#include "first_screen.hpp"
#include "replay/base/layout.hpp"
#include "replay/base/printable.hpp"
#include "replay/base/table.hpp"
#include "result.hpp"
#include "sections.hpp"

namespace polter::replay {

namespace {

constexpr size_t most_warnings = 5;

std::string short_time(double ns) {
    return replay::short_time(static_cast<int64_t>(ns));
}

std::string factor(const std::optional<double>& value) {
    return value ? short_factor(*value) : "-";
}

std::string without(const Result& result) {
    const std::string what = removed(result);
    if (what.empty()) return "without noise";
    return what == "nothing" ? "with nothing removed" : "without " + what;
}

std::string totals_text(const Result& result, const TextOptions& options) {
    Table table({fmt::format("in all, of {} events", result.events), "mean", "max"}, {0}, {0});
    const auto local = [&](const char* name, const LocalNoise& noise) {
        table.add({name, short_time(noise.mean), replay::short_time(noise.max)});
    };
    local("stolen per rank", result.local);
    if (result.removed_local.max != result.local.max || result.removed_local.mean != result.local.mean)
        local("  of the removed sources", result.removed_local);
    if (NoiseCost(result).open)
        table.add({"amplification (delay / mean stolen)", "open", ""});
    else
        table.add({"amplification (delay / mean stolen)", factor(result.amplification), ""});
    return "\n" + table.text(options.columns);
}

// Accounts that the exporter could not see, if the trace says which it could.
bool unrecorded(const Result& result, const std::string& source) {
    const auto seen = result.provenance.find("ACCOUNTS_SEEN");
    return seen != result.provenance.end() && ("," + seen->second + ",").find("," + source + ",") == std::string::npos;
}

std::string sources_text(const Result& result, const TextOptions& options) {
    Table table({"source", "mean", "max", "alone", "without", "share", "share", "ampl."}, {0}, {0}, {7, 2});
    std::string silent;
    bool any = false;
    for (const SourceResult& source : result.sources) {
        if (source.local.max == 0) {
            if (!unrecorded(result, source.name)) silent += (silent.empty() ? "" : ", ") + printable(source.name);
            continue;
        }
        any = true;
        const auto if_removed = [&](const std::string& cell) { return source.removed ? cell : "-"; };
        table.add({source.name, short_time(source.local.mean), replay::short_time(source.local.max), replay::short_time(source.alone_ns),
                   if_removed(replay::short_time(source.without_ns)), if_removed(replay::short_time(source.share_ns)),
                   if_removed(short_percent(source.share_ns, result.accumulated_noise_ns)), factor(source.amplification)});
    }
    const std::string title =
        "Noise by source (mean, max: stolen per rank; alone: gain if only this one is removed; without: gain if it is removed last; shares "
        "add up)";
    std::string out = any ? "\n" + fold(title, 2, options.columns) + "\n" + table.text(options.columns) : "";
    if (!silent.empty()) out += (any ? "" : "\n") + fold("  none from: " + silent, 4, options.columns) + "\n";
    return out;
}

std::string services_text(const Result& result, const TextOptions& options) {
    Table table({"service", "mean", "max", "alone"}, {0}, {0});
    bool any = false;
    for (const ServiceResult& service : result.services) {
        if (service.local.max == 0) continue;
        any = true;
        table.add(
            {service.name, short_time(service.local.mean), replay::short_time(service.local.max), replay::short_time(service.alone_ns)});
    }
    if (!any) return "";
    return "\n" + fold("Services (the program's own requests: no noise, removed only when asked for)", 2, options.columns) + "\n" +
           table.text(options.columns);
}

std::string rank_times_text(const Result& result, const TextOptions& options) {
    Table table({"rank", "run time"});
    for (const RankResult& rank : result.per_rank) table.add({std::to_string(rank.rank), replay::short_time(rank.measured_ns)});
    return "\nBy rank\n" + table.text(options.columns);
}

// One line of 80 columns each, severe ones first; with explanations if asked for.
std::string warnings_text(const Result& result, const TextOptions& options, size_t most, const char* explained) {
    std::vector<const Warning*> order;
    for (const Warning& warning : result.warnings)
        if (!on_first_screen(result, warning)) order.push_back(&warning);
    if (order.empty()) return "";
    std::stable_sort(order.begin(), order.end(), [](const Warning* a, const Warning* b) { return a->severity() < b->severity(); });
    std::string out = "\n" + fold(options.verbose ? "Warnings" : explained, 2, options.columns) + "\n";
    std::set<Flaw> told;
    size_t count = 0;
    for (const Warning* warning : order) {
        if (++count > most) continue;
        const FlawKind& kind = kind_of(warning->flaw);
        const std::string line = fmt::format("  {}: {}", kind.name, printable(warning->brief));
        if (options.verbose)
            out += fold(line, 6, options.columns) + "\n";
        else
            out += fold(shortened(line, std::max(options.columns, usual_columns)), 6, options.columns) + "\n";
        if (options.verbose && told.insert(warning->flaw).second) out += fold(std::string(6, ' ') + kind.help, 6, options.columns) + "\n";
    }
    if (count > most) out += fmt::format("  and {} more\n", count - most);
    return out;
}

}  // namespace

std::string not_measured(const Result& result) {
    if (result.local.max != 0) return {};
    const std::string why = known(result, "EXPORTER_WHY");
    if (known(result, "EXPORTER") == "none") return "recorded without an exporter" + (why.empty() ? why : ": " + why);
    return result.sources.empty() ? "the trace has no noise metrics, os:…" : "";
}

std::string to_text(const Result& result, const TextOptions& options) {
    const std::string warnings =
        warnings_text(result, options, result.warnings.size(), "Warnings (-v explains them, as does reading-the-result.md)");
    std::string out = first_screen(result, options);
    if (!not_measured(result).empty())
        return out + services_text(result, options) + (options.all ? rank_times_text(result, options) : "") +
               call_sites_text(result, options) + warnings;
    out += processes_text(result, options) + calls_text(result, options) + over_time_text(result, options);
    if (NoiseCost(result).open && !options.all)
        out += "\n" + fold("Delay by MPI call and over time: open, as the whole is (--all shows estimates).", 2, options.columns) + "\n";
    out += worst_ranks_text(result, options);
    if (options.all) out += call_sites_text(result, options);
    if (options.all) out += totals_text(result, options) + sources_text(result, options) + services_text(result, options);
    if (result.costs && (options.costs || options.all)) out += costs_text(*result.costs, without(result), options.columns);
    return out + warnings;
}

std::string to_short_text(const Result& result, const TextOptions& options) {
    return first_screen(result, options) + warnings_text(result, options, most_warnings, "Warnings (polter replay -v explains them)");
}

std::string to_unreplayed_text(const Result& result, const std::string& why, const TextOptions& options) {
    return unreplayed_screen(result, why, options) +
           warnings_text(result, options, most_warnings, "Warnings (polter replay -v explains them)");
}

}  // namespace polter::replay
