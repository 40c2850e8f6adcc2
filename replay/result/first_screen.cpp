// SPDX-License-Identifier: BSD-3-Clause
#include "first_screen.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include "replay/base/layout.hpp"
#include "replay/base/printable.hpp"
#include "replay/base/table.hpp"
#include "replay/trace/conventions.hpp"

namespace polter::replay {

namespace {

constexpr size_t most_program = 30;

struct Cause {
    const char *source, *name;
    bool has_process;  // else its culprit is the source itself
};
constexpr Cause causes[] = {
    {"preempt", "preemption", true},
    {"timer", "timer interrupt", false},
    {"runqueue", "run-queue wait", true},
    {"irq", "device interrupt", true},
    {"ipi", "inter-processor interrupt", true},
    {"softirq", "softirq", true},
    {"nmi", "NMI", false},
    {"throttle", "CPU quota", false},
    {"steal", "hypervisor steal", false},
    {"os-service:preempt_job", "preemption by own job", true},
    {"os-service:wakeup", "wake-up latency", true},
    {"os-service:net", "network and block I/O", true},
    {"os-service:fault", "page-fault time", true},
};

const Cause* find_cause(std::string_view source) {
    const auto* found = std::find_if(std::begin(causes), std::end(causes), [&](const Cause& c) { return source == c.source; });
    return found == std::end(causes) ? nullptr : found;
}

std::vector<std::string> listed(const std::string& list) {
    std::vector<std::string> names;
    for (size_t begin = 0; begin < list.size();) {
        const size_t end = std::min(list.find(',', begin), list.size());
        if (end > begin) names.push_back(list.substr(begin, end - begin));
        begin = end + 1;
    }
    return names;
}

// What the program is called; of traces of other tools, the directory.
std::string title(const Result& result) {
    if (const std::string program = known(result, "PROGRAM"); !program.empty()) return program;
    std::filesystem::path path(result.trace);
    if (path.extension() == ".otf2") path = path.parent_path();
    if (path.filename().empty()) path = path.parent_path();
    return path.filename().empty() ? "trace" : path.filename().string();
}

std::string measured_by_text(const Result& result) {
    std::set<std::string> exporters;
    size_t measured = 0;
    for (const RankResult& rank : result.per_rank) {
        if (rank.measured_by.empty() || rank.measured_by == "none") continue;
        exporters.insert(rank.measured_by);
        ++measured;
    }
    if (exporters.empty()) return "";
    const std::string by = fmt::format(", measured by {}", fmt::join(exporters, " and "));
    return measured == result.per_rank.size() ? by : by + fmt::format(" ({} of {} ranks)", measured, result.per_rank.size());
}

std::string head(const Result& result, const TextOptions& options) {
    const std::string mpi = known(result, "MPI");
    const auto hosts = listed(known(result, "HOSTS"));
    std::string out =
        fmt::format("{}: {} rank{}", shortened(printable(title(result)), most_program), result.ranks, result.ranks == 1 ? "" : "s");
    if (hosts.size() == 1) out += " on " + printable(hosts.front());
    if (hosts.size() > 1) out += fmt::format(" on {} nodes", hosts.size());
    if (!mpi.empty()) out += ", " + printable(mpi);
    return fold(out + printable(measured_by_text(result)), 2, options.columns) + "\n";
}

std::string between(int64_t low, int64_t high) {
    return fmt::format("{} to {}", short_time(low), short_time(high));
}

void add_tracing(Table& table, const Result& result) {
    const std::string own = known(result, "OWN_COST_NS");
    if (own.empty()) return;  // a trace of another tool
    int64_t ns = 0;
    const auto [end, error] = std::from_chars(own.data(), own.data() + own.size(), ns);
    if (error != std::errc{} || end != own.data() + own.size() || ns < 0 || result.ranks <= 0) {
        table.add({"Tracing", "unknown", "", "not all ranks finalised"});
        return;
    }
    ns /= result.ranks;
    table.add({"Tracing", short_time(ns), short_percent(ns, result.measured_ns), "per rank"});
}

// Where the trace tells nothing of noise: what that means, and what to do.
std::string next_step(const Result& result) {
    if (known(result, "EXPORTER") == "none") return "Unknown, not zero. polter doctor names the exporters that work here.";
    return "Unknown, not zero. polter run records it; --inject FILE predicts its effect.";
}

std::string figures(const Result& result, const TextOptions& options) {
    const std::string what = removed(result), why = not_measured(result);
    const NoiseCost cost(result);
    const bool any = std::any_of(result.sources.begin(), result.sources.end(), [](const SourceResult& s) { return s.removed; });
    std::string out;
    Table table({}, {0, 3});
    table.add({"Run time", short_time(result.measured_ns), "", ""});
    if (why.empty() && any) {
        const auto in_brackets = [](int64_t low, int64_t high) { return "(" + between(low, high) + ")"; };
        if (!what.empty()) out = fold("Removed: " + what, 2, options.columns) + "\n";
        const char *rest = what.empty() ? "Without noise" : "Without these", *delay = what.empty() ? "OS noise delay" : "Delay caused";
        if (cost.open) {
            table.add({rest, "open", "", in_brackets(result.bounds_low_ns, result.bounds_high_ns)});
            table.add({delay, "open", "", in_brackets(cost.low, cost.high)});
        } else {
            table.add({rest, short_time(result.approximated_ns), "", in_brackets(result.bounds_low_ns, result.bounds_high_ns)});
            table.add({delay, short_time(result.accumulated_noise_ns), short_percent(result.accumulated_noise_ns, result.measured_ns),
                       in_brackets(cost.low, cost.high)});
        }
    }
    add_tracing(table, result);
    out += table.text(options.columns, 0);
    const auto add = [&](const std::string& line) { out += fold(line, 2, options.columns) + "\n"; };
    if (const ThreadsResult threads = all_threads(result); why.empty() && threads.count > 0)
        add(fmt::format("Further threads: {}, {} of noise on each (mean).", threads.count,
                        short_time(threads.local_noise_ns / threads.count)));
    if (why.empty() && any && cost.open) add("The bounds are wide: the trace leaves open how much the noise cost.");
    if (why.empty() && any && result.conditional) add("Conditional: without noise the program may behave differently (see Warnings).");
    if (why.empty() && !any && !result.sources.empty()) add("Nothing was removed: --remove was given no source.");
    if (!why.empty()) add(fmt::format("Noise: not measured ({})", printable(why)));
    if (!why.empty()) add(next_step(result));
    return out;
}

// By how much delay each culprit made, where that was asked for; else by the time that it took, on all ranks.
std::map<std::string, std::string> top_processes(const Result& result) {
    std::map<std::string, std::map<std::string, int64_t>> local, delay;
    for (const CulpritResult& culprit : result.culprits) local[culprit.source][culprit.culprit] += culprit.local_ns;
    if (result.attribution.by_origin)
        for (const AttributionRow& row : result.attribution.rows) delay[row.source][row.culprit] += row.ns;
    const auto most = [](const auto& sums) {
        return *std::max_element(sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    };
    std::map<std::string, std::string> top;
    for (const auto& [source, sums] : local) top[source] = most(sums).first;
    for (const auto& [source, sums] : delay)
        if (const auto [culprit, ns] = most(sums); ns > 0) top[source] = culprit;
    return top;
}

std::string causes_text(const Result& result, const TextOptions& options) {
    const bool open = NoiseCost(result).open;
    const auto top = top_processes(result);
    std::vector<const SourceResult*> order;
    size_t left_out = 0;
    for (const SourceResult& source : result.sources) {
        if (source.local.max == 0 || (!options.all && is_small(result, source)))
            left_out += source.local.max != 0;
        else
            order.push_back(&source);
    }
    std::stable_sort(order.begin(), order.end(), [&](const SourceResult* a, const SourceResult* b) {
        if (open || a->share_ns == b->share_ns) return a->local.mean > b->local.mean;
        return a->share_ns > b->share_ns;
    });
    const std::string left =
        left_out == 0 ? ""
                      : fmt::format("  {} below 0.1 %: replay --all\n", left_out == 1 ? "1 cause" : fmt::format("{} causes", left_out));
    if (order.empty()) return left.empty() ? "" : "\n" + left;
    Table table({"cause", "stolen / rank", "delay", "share", "top process"}, {0, 4}, {0, 4}, {3});
    for (const SourceResult* source : order) {
        const bool share = source->removed && !open;
        const auto found = top.find(source->name);
        const bool none = found == top.end() || !names_processes(source->name);
        table.add({cause(source->name), short_time(static_cast<int64_t>(source->local.mean)),
                   share                     ? short_time(source->share_ns)
                   : open && source->removed ? "open"
                                             : "-",
                   share ? short_percent(source->share_ns, result.accumulated_noise_ns) : "-", none ? "-" : found->second});
    }
    return "\n" + table.text(options.columns) + left;
}

std::string not_seen_text(const Result& result, const TextOptions& options) {
    const auto property = result.provenance.find("ACCOUNTS_SEEN");
    if (property == result.provenance.end()) return "";
    const auto seen = listed(property->second);
    std::vector<std::string> names;
    const auto look = [&](const std::string& source, const std::string& account) {
        if (std::find(seen.begin(), seen.end(), account) == seen.end()) names.push_back(printable(cause(source)));
    };
    for (const SourceResult& source : result.sources)
        if (!source.name.starts_with(names::service_prefix)) look(source.name, source.name);
    for (const ServiceResult& service : result.services) look(std::string(names::service_prefix) + service.name, service.name);
    return names.empty() ? "" : "\n" + fold(fmt::format("Not measured: {}", fmt::join(names, ", ")), 2, options.columns) + "\n";
}

}  // namespace

NoiseCost::NoiseCost(const Result& r)
    : low(std::max<int64_t>(0, r.measured_ns - r.bounds_high_ns)),
      high(std::max<int64_t>(0, r.measured_ns - r.bounds_low_ns)),
      open(high - low > high / 2 && high - low > r.measured_ns / 100) {}

bool on_first_screen(const Result& result, const Warning& warning) {
    switch (warning.flaw) {
        case Flaw::source_not_seen:
            return true;
        case Flaw::no_exporter:
        case Flaw::no_metrics:
        case Flaw::no_noise:
            return !not_measured(result).empty();
        case Flaw::exporter_reason:
            return !not_measured(result).empty() && known(result, "EXPORTER") == "none";
        default:
            return false;
    }
}

std::string known(const Result& result, const char* property) {
    const auto found = result.provenance.find(property);
    return found == result.provenance.end() ? std::string() : found->second;
}

bool is_small(const Result& result, const SourceResult& source) {
    if (!below_threshold(source.local.mean, static_cast<double>(result.measured_ns))) return false;
    return !source.removed || NoiseCost(result).open ||
           below_threshold(std::abs(static_cast<double>(source.share_ns)), static_cast<double>(result.accumulated_noise_ns));
}

bool names_processes(std::string_view source) {
    const Cause* found = find_cause(source);
    return !found || found->has_process;
}

std::string cause(std::string_view source) {
    const Cause* found = find_cause(source);
    return found ? found->name : std::string(source);
}

std::string removed(const Result& result) {
    bool noise = true;
    std::vector<std::string> names;
    for (const SourceResult& source : result.sources) {
        noise = noise && source.removed && !source.name.starts_with(names::service_prefix);
        if (source.removed) names.push_back(printable(cause(source.name)));
    }
    if (noise) return "";
    return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

std::string first_screen(const Result& result, const TextOptions& options) {
    std::string out = head(result, options) + "\n" + figures(result, options);
    if (!not_measured(result).empty()) return out;
    return out + causes_text(result, options) + not_seen_text(result, options);
}

std::string unreplayed_screen(const Result& result, const std::string& why, const TextOptions& options) {
    const std::string unmeasured = not_measured(result);
    Table table({}, {0, 3});
    table.add({"Run time", short_time(result.measured_ns), "", ""});
    if (unmeasured.empty())
        table.add({"OS noise stolen", short_time(static_cast<int64_t>(result.local.mean)),
                   short_percent(static_cast<int64_t>(result.local.mean), result.measured_ns), "per rank"});
    add_tracing(table, result);
    std::string out = head(result, options) + "\n" + table.text(options.columns, 0) +
                      fold("OS noise delay: not known (" + printable(why) + ")", 2, options.columns) + "\n";
    if (!unmeasured.empty())
        return out + fold(fmt::format("Noise: not measured ({})", printable(unmeasured)), 2, options.columns) + "\n" +
               fold(next_step(result), 2, options.columns) + "\n";
    const auto top = top_processes(result);
    const auto add = [&](Table& to, const std::string& source, const LocalNoise& local) {
        if (local.max == 0 || below_threshold(local.mean, static_cast<double>(result.measured_ns))) return false;
        const auto found = top.find(source);
        const bool none = found == top.end() || !names_processes(source);
        to.add({cause(source), short_time(static_cast<int64_t>(local.mean)), short_time(local.max), none ? "-" : found->second});
        return true;
    };
    auto order = result.sources;
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.local.mean > b.local.mean; });
    Table causes({"cause", "stolen / rank", "worst rank", "top process"}, {0, 3}, {0, 3});
    bool any = false;
    for (const SourceResult& source : order) any |= add(causes, source.name, source.local);
    for (const ServiceResult& service : result.services)
        any |= add(causes, std::string(names::service_prefix) + service.name, service.local);
    return out + (any ? "\n" + causes.text(options.columns) : "") + not_seen_text(result, options);
}

}  // namespace polter::replay
