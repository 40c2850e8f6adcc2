// SPDX-License-Identifier: BSD-3-Clause
#include "provenance.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "../conventions.hpp"

namespace polter::seal {
namespace {

// "0-2,5": of numbers in order.
std::string ranges(const std::vector<uint32_t>& ids) {
    std::string out;
    for (size_t i = 0; i < ids.size();) {
        size_t end = i + 1;
        while (end < ids.size() && ids[end] == ids[end - 1] + 1) ++end;
        out += (out.empty() ? "" : ",") + std::to_string(ids[i]);
        if (end - i > 1) out += "-" + std::to_string(ids[end - 1]);
        i = end;
    }
    return out;
}

// In the order of the page, so that the property does not depend on which rank came first.
std::vector<std::string> in_all(const std::vector<const Sidecar*>& ranks, std::vector<std::string> Sidecar::*list) {
    if (ranks.empty()) return {};
    auto out = ranks.front()->*list;
    for (const auto* rank : ranks)
        std::erase_if(out, [&](const std::string& name) {
            return std::find((rank->*list).begin(), (rank->*list).end(), name) == (rank->*list).end();
        });
    return out;
}

// What measured the ranks. One that was not measured does not make the others so: the trace says who. Returns those that were.
std::vector<const Sidecar*> add_exporters(const std::vector<Sidecar>& ranks, Report& report,
                                          std::map<std::string, std::string>& properties) {
    const std::string none = "none";
    std::map<std::string, std::vector<uint32_t>> by_exporter;
    std::map<std::string, const Sidecar*> first;
    std::vector<const Sidecar*> measured;
    for (const auto& rank : ranks) {
        by_exporter[rank.exporter].push_back(rank.rank);
        first.try_emplace(rank.exporter, &rank);
        if (rank.exporter != none) measured.push_back(&rank);
    }
    report.exporter = none;
    size_t most = 0;
    std::string all;
    for (const auto& [exporter, of] : by_exporter) {
        all += fmt::format("{}{}:{}", all.empty() ? "" : ";", exporter, ranges(of));
        if (exporter == none || of.size() <= most) continue;
        most = of.size();
        report.exporter = exporter;
    }
    report.exporter_why = first.at(report.exporter)->exporter_why;
    if (by_exporter.size() == 1) return measured;
    properties[trace::property::exporter_by_rank] = all;
    for (const auto& [exporter, of] : by_exporter) {
        if (exporter == report.exporter) continue;
        const auto& why = first.at(exporter)->exporter_why;
        report.warnings.push_back(
            exporter == none
                ? fmt::format("{} of {} ranks were not measured ({}): {}", of.size(), ranks.size(), ranges(of), why)
                : fmt::format("ranks {} were measured by {}, the others by {}: {}", ranges(of), exporter, report.exporter, why));
    }
    if (const auto at = by_exporter.find(none); at != by_exporter.end()) report.unmeasured = at->second;
    return measured;
}

uint64_t earliest(uint64_t a, uint64_t b) {
    return a && b ? std::min(a, b) : std::max(a, b);
}

// When the first host's exporter ended, if one did, and on which hosts any did; none named: on all. The ranks of a host share theirs, and
// where it was killed each knows only when its own page moved last: the latest of them is the nearest.
struct ExporterEnd {
    uint64_t time = 0;
    std::string hosts;
};
ExporterEnd exporter_end(const std::vector<Sidecar>& ranks, uint64_t trace_end) {
    std::map<std::string, uint64_t> hosts;
    for (const auto& rank : ranks)
        if (rank.final) hosts[rank.host] = std::max(hosts[rank.host], rank.final->exporter_ended_ns);
    ExporterEnd end;
    bool all = true;
    for (const auto& [host, time] : hosts) {
        if (time == 0 || time >= trace_end) {
            all = false;
            continue;
        }
        end.time = earliest(end.time, time);
        end.hosts += (end.hosts.empty() ? "" : ", ") + host;
    }
    if (all) end.hosts.clear();
    return end;
}

}  // namespace

void add_end(const std::vector<Sidecar>& ranks, uint64_t exporter_ended, Definitions& definitions, Report& report) {
    std::string where;
    if (!exporter_ended) {
        const ExporterEnd end = exporter_end(ranks, definitions.last_ns);
        exporter_ended = end.time;
        if (!end.hosts.empty()) where = " on " + end.hosts;
    }
    if (exporter_ended >= definitions.last_ns) exporter_ended = 0;
    if (exporter_ended) {
        auto seconds = [](uint64_t from, uint64_t to) { return from < to ? static_cast<double>(to - from) / 1e9 : 0.0; };
        report.warnings.push_back(fmt::format(
            "the exporter ended{} {:.3f} s after the trace begins, {:.3f} s before it ends: later noise {}is not in it", where,
            seconds(definitions.first_ns, exporter_ended), seconds(exporter_ended, definitions.last_ns), where.empty() ? "" : "there "));
    }
    uint64_t ended = exporter_ended;
    for (const auto& rank : ranks)
        if (rank.final) ended = earliest(ended, rank.final->tracing_ended_ns);
    if (ended) definitions.properties[trace::property::measuring_ended_ns] = std::to_string(ended);
}

namespace {

// So many calls that recording them shows in the timeline; else it is start and end.
constexpr double most_own_part = 0.05, least_records_per_s = 200'000;
constexpr uint64_t least_own_ns = 50'000'000;

void warn_of_own_cost(const std::vector<Sidecar>& ranks, Report& report) {
    uint64_t own_ns = 0, run_ns = 0, records = 0, counted = 0;
    for (const auto& rank : ranks) {
        if (!rank.final) continue;
        const auto times = rank.final->times.find(trace::location_of(rank.rank, 0));
        const auto events = rank.final->events.find(trace::location_of(rank.rank, 0));
        if (times == rank.final->times.end() || events == rank.final->events.end()) continue;
        own_ns += rank.final->own_cost_ns;
        run_ns += times->second.second - std::min(times->second.first, times->second.second);
        records += events->second;
        counted++;
    }
    if (counted == 0 || run_ns == 0 || own_ns / counted < least_own_ns) return;
    const double part = static_cast<double>(own_ns) / static_cast<double>(run_ns);
    const double per_s = static_cast<double>(records) / static_cast<double>(run_ns) * 1e9;
    if (part < most_own_part || per_s < least_records_per_s) return;
    const auto seconds = [&](uint64_t ns) { return static_cast<double>(ns) / 1e9 / static_cast<double>(counted); };
    report.warnings.push_back(fmt::format(
        "tracing took {:.1f} % of the run time: {:.2f} s of {:.2f} s a rank, for {:.2f} million records a second. The run, and its time "
        "without noise, are longer by up to that than without tracing; MPI calls that follow each other closely look slower than they are",
        100 * part, seconds(own_ns), seconds(run_ns), per_s / 1e6));
}

}  // namespace

void add_totals(const std::vector<Sidecar>& ranks, Report& report, std::map<std::string, std::string>& properties) {
    uint64_t own_cost_ns = 0, after_end = 0;
    std::vector<uint32_t> late;
    bool told = report.ranks == report.size;
    for (const auto& rank : ranks) {
        told = told && rank.final;
        report.measured_by[rank.rank] = rank.exporter;
        if (!rank.gave_up.empty()) report.warnings.push_back(fmt::format("rank {}: tracing ended early: {}", rank.rank, rank.gave_up));
        if (rank.after_end) late.push_back(rank.rank);
        after_end += std::min(rank.after_end, UINT64_MAX - after_end);
        if (!rank.final) continue;
        for (const auto& noise : rank.final->noise)
            report.noise.push_back({rank.rank, noise.account, noise.culprit, noise.ns, noise.events});
        own_cost_ns += rank.final->own_cost_ns;
        report.dropped += rank.final->dropped;
        report.dropped_ns += rank.final->dropped_ns;
        for (const auto& warning : rank.final->warnings) report.warnings.push_back(fmt::format("rank {}: {}", rank.rank, warning));
    }
    if (after_end)
        report.warnings.push_back(fmt::format(
            "threads of ranks {} had {} further events of OpenMP or of the program's regions after MPI_Finalize: they are not in "
            "the trace, which ends there",
            ranges(late), after_end));
    std::string missing;
    for (const std::string name : trace::not_recorded_names)
        if (std::any_of(ranks.begin(), ranks.end(), [&](const Sidecar& rank) { return rank.not_recorded.contains(name); }))
            missing += (missing.empty() ? "" : ",") + name;
    properties[trace::property::not_recorded] = missing;
    properties[trace::property::events_after_end] = after_end ? std::to_string(after_end) : "";
    const auto measured = add_exporters(ranks, report, properties);
    report.seen = in_all(measured, &Sidecar::seen);
    properties[trace::property::version] = "1";
    properties[trace::property::exporter] = report.exporter;
    properties[trace::property::exporter_why] = report.exporter_why;
    properties[trace::property::accounts_seen] = fmt::format("{}", fmt::join(report.seen, ","));
    properties[trace::property::accounts_net] = fmt::format("{}", fmt::join(in_all(measured, &Sidecar::net), ","));
    properties[trace::property::events_dropped] = std::to_string(report.dropped);
    properties[trace::property::events_dropped_ns] = std::to_string(report.dropped_ns);
    if (told) report.own_cost_ns = own_cost_ns;
    warn_of_own_cost(ranks, report);
    properties[trace::property::own_cost_ns] = told ? std::to_string(own_cost_ns) : "unknown";
}

// Which program ran where, for the head of a result.
void add_names(const std::vector<Sidecar>& ranks, std::map<std::string, std::string>& properties) {
    const auto distinct = [&](std::string Sidecar::*name) {
        std::vector<std::string> names;
        std::set<std::string> seen;
        for (const auto& rank : ranks)
            if (!(rank.*name).empty() && seen.insert(rank.*name).second) names.push_back(rank.*name);
        return names;
    };
    properties[trace::property::program] = fmt::format("{}", fmt::join(distinct(&Sidecar::program), "+"));
    properties[trace::property::mpi] = ranks.front().mpi;
    properties[trace::property::hosts] = fmt::format("{}", fmt::join(distinct(&Sidecar::host), ","));
    std::map<std::string, std::vector<uint32_t>> by_cpus;
    for (const auto& rank : ranks)
        if (!rank.cpus.empty()) by_cpus[rank.cpus].push_back(rank.rank);
    std::string cpus;
    for (const auto& [allowed, of] : by_cpus) cpus += fmt::format("{}{}:{}", cpus.empty() ? "" : ";", allowed, ranges(of));
    properties[trace::property::rank_cpus] = cpus;
}

// Details that are not in the trace (tracer/mpi/core/detail.hpp), so that nobody takes what was not recorded for what did not happen.
void add_detail_off(const std::vector<Sidecar>& ranks, Report& report, std::map<std::string, std::string>& properties) {
    std::vector<std::string> parts;
    std::vector<uint32_t> without, by_program;
    uint64_t pcontrol_ns = 0;
    for (const auto& rank : ranks) {
        if (rank.detail_off.rank) without.push_back(rank.rank);
        if (!rank.final || !rank.final->pcontrol_ns) continue;
        by_program.push_back(rank.rank);
        pcontrol_ns += rank.final->pcontrol_ns;
    }
    const auto& told = ranks.front().detail_off;  // all are told the same
    if (told.queries) parts.emplace_back("queries");
    if (!told.functions.empty()) parts.push_back(fmt::format("functions={}", fmt::join(told.functions, ",")));
    if (!without.empty()) parts.push_back(fmt::format("ranks={}", ranges(without)));
    if (told.from_ns || told.until_ns)
        parts.push_back(fmt::format("window={}:{}", static_cast<double>(told.from_ns) / 1e9,
                                    told.until_ns ? fmt::format("{}", static_cast<double>(told.until_ns) / 1e9) : ""));
    if (pcontrol_ns) {
        parts.push_back(fmt::format("pcontrol_ns={}", pcontrol_ns));
        report.warnings.push_back(
            fmt::format("the program switched details off by MPI_Pcontrol(0), {:.3f} s on average on ranks {}: its regions, counters and "
                        "local MPI functions of that time are not in the trace; messages and noise are",
                        static_cast<double>(pcontrol_ns) / 1e9 / static_cast<double>(by_program.size()), ranges(by_program)));
    }
    if (without.size() == ranks.size())
        report.warnings.push_back("no rank of this job is among those of --ranks: no rank has details in the trace");
    properties[trace::property::detail_off] = fmt::format("{}", fmt::join(parts, ";"));
}

}  // namespace polter::seal
