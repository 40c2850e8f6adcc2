// SPDX-License-Identifier: BSD-3-Clause
// The result as aligned tables. Times are converted to milliseconds here and nowhere before.
#include <fmt/format.h>

#include <algorithm>

#include "attribution_output.hpp"
#include "costs_output.hpp"
#include "names.hpp"
#include "printable.hpp"
#include "replay.hpp"
#include "table.hpp"

namespace polter::replay {

namespace {

constexpr size_t most_ranks = 32, most_culprits = 12;

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

// The scenario "all" in words.
std::string without(const Result& result) {
    bool noise = true;  // all of it, and nothing else
    std::string removed;
    for (const SourceResult& source : result.sources) {
        noise = noise && source.removed && !source.name.starts_with(names::service_prefix);
        if (source.removed) removed += (removed.empty() ? "" : ", ") + printable(source.name);
    }
    if (noise) return "without the noise";
    return removed.empty() ? "with nothing removed" : "without " + removed;
}

std::string known(const Result& result, const char* property) {
    const auto found = result.provenance.find(property);
    return found == result.provenance.end() ? std::string() : found->second;
}

// Three digits, for sentences.
std::string short_time(int64_t ns) {
    const auto [unit, name] = ns >= 1'000'000'000 ? std::pair{1e9, "s"} : ns >= 1'000'000 ? std::pair{1e6, "ms"} : std::pair{1e3, "us"};
    const double value = static_cast<double>(ns) / unit;
    return fmt::format("{:.{}f} {}", value, value >= 100 ? 0 : value >= 10 ? 1 : 2, name);
}

// What the noise cost at least and at most, and whether that answers the question: else no single figure is given.
struct NoiseCost {
    int64_t low, high;
    bool open;
    explicit NoiseCost(const Result& r)
        : low(std::max<int64_t>(0, r.measured_ns - r.bounds_high_ns)),
          high(std::max<int64_t>(0, r.measured_ns - r.bounds_low_ns)),
          open(high - low > high / 2 && high - low > r.measured_ns / 100) {}
};

std::string headline(const Result& result) {
    std::string out = fmt::format("{} ranks, {} events\n", result.ranks, result.events);
    Table table({"", "ms", "of the run"});
    table.add({"measured", ms(result.measured_ns), ""});
    if (const std::string why = not_measured(result); !why.empty())
        return out + table.text() + fmt::format("Noise: not measured ({})\n", printable(why));
    const NoiseCost cost(result);
    table.add({without(result), ms(result.approximated_ns), percent(result.approximated_ns, result.measured_ns)});
    if (result.bounds_low_ns != result.bounds_high_ns)
        table.add({"  at least / at most", ms(result.bounds_low_ns) + " / " + ms(result.bounds_high_ns), ""});
    if (cost.open) {
        table.add({"accumulated noise", short_time(cost.low) + " to " + short_time(cost.high), "open"});
    } else {
        table.add({"accumulated noise", ms(result.accumulated_noise_ns), percent(result.accumulated_noise_ns, result.measured_ns)});
        if (cost.low != cost.high) table.add({"  at least / at most", ms(cost.low) + " / " + ms(cost.high), ""});
    }
    const auto local = [&](const char* name, const LocalNoise& noise) { table.add({name, ms(noise.mean) + " / " + ms(noise.max), ""}); };
    local("local noise, mean / max", result.local);
    if (result.removed_local.max != result.local.max || result.removed_local.mean != result.local.mean)
        local("  of what was removed", result.removed_local);
    table.add({"amplification", cost.open ? "-" : factor(result.amplification), ""});
    out += table.text();
    if (!known(result, "EXPORTER").empty()) {
        out += fmt::format("recorded with exporter {}", printable(known(result, "EXPORTER")));
        const std::string own = known(result, "OWN_COST_NS");
        if (!own.empty() && own.find_first_not_of("0123456789") == std::string::npos && own.size() < 19)
            out += fmt::format("; recording itself took {} ms on all ranks together", ms(static_cast<int64_t>(std::stoll(own))));
        out += '\n';
    }
    return out;
}

// Not among the accounts that the exporter could see, where the trace says which.
bool unseen(const Result& result, const std::string& source) {
    const auto seen = result.provenance.find("ACCOUNTS_SEEN");
    return seen != result.provenance.end() && ("," + seen->second + ",").find("," + source + ",") == std::string::npos;
}

std::string sources_text(const Result& result) {
    if (result.sources.empty()) return "";
    Table table({"source", "local mean", "local max", "alone", "without", "share", "share", "amplification"});
    std::string silent, not_seen;
    for (const SourceResult& source : result.sources) {
        if (source.local.max == 0) {
            std::string& list = unseen(result, source.name) ? not_seen : silent;
            list += (list.empty() ? "" : ", ") + printable(source.name);
            continue;
        }
        const auto if_removed = [&](const std::string& cell) { return source.removed ? cell : "-"; };
        table.add({source.name, ms(source.local.mean), ms(source.local.max), ms(source.alone_ns), if_removed(ms(source.without_ns)),
                   if_removed(ms(source.share_ns)), if_removed(percent(source.share_ns, result.accumulated_noise_ns)),
                   factor(source.amplification)});
    }
    if (!silent.empty()) silent = "  nothing from: " + silent + "\n";
    if (!not_seen.empty()) silent += "  not measured: " + not_seen + "\n";
    if (silent.size() > 0 && result.local.max == 0) return "\nNoise by source\n" + silent;
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

std::string ranks_text(const Result& result) {
    std::vector<const RankResult*> order;
    for (const RankResult& rank : result.per_rank) order.push_back(&rank);
    const bool cut = order.size() > most_ranks;
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

std::string culprits_text(const Result& result) {
    if (result.culprits.empty()) return "";
    Table table({"culprit", "source", "rank", "ms", "events"});
    for (size_t i = 0; i < std::min(most_culprits, result.culprits.size()); ++i) {
        const CulpritResult& culprit = result.culprits[i];
        table.add({culprit.culprit, culprit.source, std::to_string(culprit.rank), ms(culprit.local_ns), std::to_string(culprit.events)});
    }
    std::string title = "\nCulprits by local noise";
    if (result.culprits.size() > most_culprits) title += fmt::format(" (the first {} of {})", most_culprits, result.culprits.size());
    return title + "\n" + table.text();
}

std::string warnings_text(const Result& result) {
    std::string out;
    for (const std::string& warning : result.warnings) out += fmt::format("  - {}\n", printable(warning));
    return out.empty() ? out : "\nTo be known\n" + out;
}

}  // namespace

std::string not_measured(const Result& result) {
    if (result.local.max != 0) return {};
    const std::string why = known(result, "EXPORTER_WHY");
    if (known(result, "EXPORTER") == "none") return "recorded without an exporter" + (why.empty() ? why : ": " + why);
    return result.sources.empty() ? "the trace has no noise metrics, os:…" : "";
}

std::string to_text(const Result& result) {
    if (!not_measured(result).empty()) return headline(result) + services_text(result) + ranks_text(result) + warnings_text(result);
    return headline(result) + sources_text(result) + services_text(result) + attribution_text(result.attribution) +
           (result.costs ? costs_text(*result.costs, without(result)) : "") + ranks_text(result) + culprits_text(result) +
           warnings_text(result);
}

namespace {

// The sentence that answers the question.
std::string answer(const Result& result) {
    const NoiseCost cost(result);
    if (const std::string why = not_measured(result); !why.empty())
        return fmt::format("The run took {}. Noise: not measured ({}).\n", short_time(result.measured_ns), printable(why));
    if (cost.open)
        return fmt::format("The noise cost between {} and {} of {}: the trace leaves open how much.\n", short_time(cost.low),
                           short_time(cost.high), short_time(result.measured_ns));
    const std::string bounds = cost.low == cost.high ? "" : fmt::format(", between {} and {}", short_time(cost.low), short_time(cost.high));
    return fmt::format("The noise cost {} of {} ({}{}), {} times the mean noise of a rank ({}).\n", short_time(result.accumulated_noise_ns),
                       short_time(result.measured_ns), percent(result.accumulated_noise_ns, result.measured_ns), bounds,
                       factor(result.amplification), short_time(static_cast<int64_t>(result.local.mean)));
}

}  // namespace

std::string to_short_text(const Result& result) {
    std::string out = answer(result);
    std::vector<const SourceResult*> order;
    for (const SourceResult& source : result.sources)
        if (source.share_ns > 0) order.push_back(&source);
    std::stable_sort(order.begin(), order.end(), [](const SourceResult* a, const SourceResult* b) { return a->share_ns > b->share_ns; });
    for (size_t i = 0; i < std::min<size_t>(3, order.size()); ++i)
        out += fmt::format("  {:<10} {:>12} ms\n", printable(order[i]->name), ms(order[i]->share_ns));
    if (!result.culprits.empty())
        out += fmt::format("Most on one rank: {} ({}), {} ms on rank {}.\n", printable(result.culprits[0].culprit),
                           printable(result.culprits[0].source), ms(result.culprits[0].local_ns), result.culprits[0].rank);
    constexpr size_t most = 5;
    for (size_t i = 0; i < std::min(most, result.warnings.size()); ++i) out += fmt::format("  - {}\n", printable(result.warnings[i]));
    if (result.warnings.size() > most) out += fmt::format("  - and {} more\n", result.warnings.size() - most);
    return out;
}

}  // namespace polter::replay
