// SPDX-License-Identifier: BSD-3-Clause
#include "output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "json.hpp"
#include "noise.h"
#include "text.hpp"
#include "watch.hpp"

namespace polter::loops {
namespace {

using nlohmann::json;
using node::duration;
using node::percent;

bool is_disturbed(const Result& result, const Sample& sample) {
    return (result.kind == Kind::selfish ? sample.end_ns - sample.begin_ns : sample.lost_ns) >= result.threshold_ns;
}

const char* account_name(unsigned account) {
    const char* name = polter_account_name(account);
    return name ? name : "unknown";
}

std::string head(const Result& r) {
    const auto on = fmt::format("{:.1f} s on CPU {} of {}, events recorded by {}", static_cast<double>(r.end_ns - r.begin_ns) / 1e9, r.cpu,
                                node::machine(), r.measured_by);
    switch (r.kind) {
        case Kind::fwq:
            return fmt::format("fwq: {}\nquanta of the same work, the shortest took {}; disturbed: {} more, or above\n", on,
                               duration(r.turn_ns), duration(r.threshold_ns));
        case Kind::ftq:
            return fmt::format("ftq: {}\nquanta of {}, a unit of work takes {}; disturbed: {} of work not done, or above\n", on,
                               duration(r.quantum_ns), duration(r.turn_ns), duration(r.threshold_ns));
        case Kind::selfish:
            break;
    }
    return fmt::format("selfish: {}\na turn takes {}; a detour: {} or above\n", on, duration(r.turn_ns), duration(r.threshold_ns));
}

// The samples that lost most.
std::vector<const Sample*> costliest(const Result& result, std::size_t top) {
    std::vector<const Sample*> samples;
    for (const auto& s : result.samples)
        if (is_disturbed(result, s)) samples.push_back(&s);
    const auto n = static_cast<std::ptrdiff_t>(std::min(top, samples.size()));
    std::partial_sort(samples.begin(), samples.begin() + n, samples.end(), [](const Sample* a, const Sample* b) {
        return a->lost_ns != b->lost_ns ? a->lost_ns > b->lost_ns : a->begin_ns < b->begin_ns;
    });
    samples.resize(static_cast<std::size_t>(n));
    return samples;
}

std::string events_in(const Result& result, const Sample& sample) {
    std::map<std::pair<unsigned, std::string>, std::uint64_t> events;
    for (std::size_t i = 0; i < sample.events; i++) {
        const auto& e = result.events[sample.first_event + i];
        events[{e.account, e.culprit}] += e.duration_ns;
    }
    std::string text;
    for (const auto& [key, ns] : events)
        text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", account_name(key.first), key.second, duration(ns));
    return text.empty() ? "no event recorded" : text;
}

std::vector<std::string> warnings_of(const Result& r) {
    std::vector<std::string> warnings;
    if (r.lost_events) warnings.push_back(fmt::format("{} events came too fast to be read: what they took is unattributed", r.lost_events));
    if (r.cut_short)
        warnings.push_back(
            fmt::format("ended early: {} samples are as many as are kept; choose a longer quantum or a higher threshold", most_samples));
    return warnings;
}

}  // namespace

std::string to_text(const Result& result, std::size_t top, bool histogram, std::size_t columns) {
    const auto totals = totals_of(result);
    const std::uint64_t wall = result.end_ns - result.begin_ns;
    std::string text = head(result);
    text +=
        fmt::format("\n{} {}, {} of them without a recorded event; of a disturbed one: mean {}, p50 {}, p99 {}, max {}\n", totals.disturbed,
                    result.kind == Kind::selfish ? "detours" : fmt::format("of {} quanta were disturbed", totals.samples),
                    totals.without_event, duration(totals.lost.mean_ns()), duration(totals.lost.percentile_ns(0.5)),
                    duration(totals.lost.percentile_ns(0.99)), duration(totals.lost.max_ns));
    if (histogram) text += node::histogram(totals.lost, columns);
    const auto row = [&](const std::string& name, const std::string& count, const std::string& total, const std::string& part,
                         const std::string& mean, const std::string& max) {
        std::string cells = columns >= 80 ? node::padded(name, 26) + fmt::format("{:>11}", count) : node::padded(name, 20);
        cells += fmt::format("{:>10}{:>9}{:>10}{:>10}", total, part, mean, max);
        text += cells.substr(0, cells.find_last_not_of(' ') + 1) + "\n";
    };
    text += "\n";
    row("", "events", "total", "of time", "mean", "max");
    const auto line = [&](const std::string& name, const std::string& count, std::uint64_t ns, const std::string& mean,
                          const std::string& max) { row(name, count, duration(ns), percent(ns, wall), mean, max); };
    std::vector<std::pair<std::pair<unsigned, std::string>, node::Stats>> events(totals.events.begin(), totals.events.end());
    std::sort(events.begin(), events.end(), [](const auto& a, const auto& b) {
        return a.second.total_ns != b.second.total_ns ? a.second.total_ns > b.second.total_ns : a.first < b.first;
    });
    for (const auto& [key, stats] : events)
        line(fmt::format("{} {}", account_name(key.first), key.second), fmt::format("{}", stats.count), stats.total_ns,
             duration(stats.mean_ns()), duration(stats.max_ns));
    line("lost", "", totals.lost_ns, "", "");
    line("  explained", "", totals.explained_ns, "", "");
    line("  unattributed", "", totals.unattributed_ns, "", "");
    const auto costly = costliest(result, top);
    if (!costly.empty()) text += fmt::format("\nThe costliest, since the begin:\n");
    for (const auto* s : costly)
        text += fmt::format("  {:>10.6f} s  {:>9}, unattributed {:>9}: {}\n", static_cast<double>(s->begin_ns - result.begin_ns) / 1e9,
                            duration(s->lost_ns), duration(s->unattributed_ns()), events_in(result, *s));
    text += fmt::format("\nnot watched: {} of book-keeping", percent(result.aside_ns, wall));
    if (result.aside_events) text += fmt::format(", in which {} events ({}) ended", result.aside_events, duration(result.aside_events_ns));
    if (result.below_events)
        text += fmt::format("; {} events ({}) below the threshold", result.below_events, duration(result.below_events_ns));
    if (result.beyond_ns) text += fmt::format("; {} recorded beyond what was lost", duration(result.beyond_ns));
    text += "\n";
    for (const auto& warning : warnings_of(result)) text += fmt::format("warning: {}\n", warning);
    return text;
}

json to_json(const Result& r) {
    const auto totals = totals_of(r);
    json out{{"schema", "polter.noise/1"},
             {"machine", node::machine_to_json()},
             {"loop", name_of(r.kind)},
             {"measured_by", r.measured_by},
             {"cpu", r.cpu},
             {"begin_ns", r.begin_ns},
             {"wall_ns", r.end_ns - r.begin_ns},
             {r.kind == Kind::fwq   ? "shortest_ns"
              : r.kind == Kind::ftq ? "unit_ns"
                                    : "turn_ns",
              r.turn_ns},
             {"threshold_ns", r.threshold_ns},
             {"samples", totals.samples},
             {"disturbed", totals.disturbed},
             {"disturbed_without_event", totals.without_event},
             {"lost_ns", totals.lost_ns},
             {"explained_ns", totals.explained_ns},
             {"unattributed_ns", totals.unattributed_ns},
             {"beyond_ns", r.beyond_ns},
             {"not_watched", {{"ns", r.aside_ns}, {"events", r.aside_events}, {"events_ns", r.aside_events_ns}}},
             {"below_threshold", {{"events", r.below_events}, {"events_ns", r.below_events_ns}}},
             {"lost", node::stats_to_json(totals.lost, true)},
             {"warnings", warnings_of(r)}};
    if (r.kind != Kind::selfish) out["quantum_ns"] = r.quantum_ns;
    auto& sources = out["sources"] = json::array();
    for (const auto& [key, stats] : totals.events) {
        json one = node::stats_to_json(stats, false);
        one["source"] = account_name(key.first);
        one["culprit"] = key.second;
        sources.push_back(std::move(one));
    }
    auto& detours = out["detours"] = json::array();
    for (const auto& s : r.samples) {
        if (!is_disturbed(r, s)) continue;
        json events = json::array();
        for (std::size_t i = 0; i < s.events; i++) {
            const auto& e = r.events[s.first_event + i];
            events.push_back({{"source", account_name(e.account)}, {"culprit", e.culprit}, {"ns", e.duration_ns}});
        }
        detours.push_back({{"begin_ns", s.begin_ns},
                           {"duration_ns", s.end_ns - s.begin_ns},
                           {"lost_ns", s.lost_ns},
                           {"unattributed_ns", s.unattributed_ns()},
                           {"events", std::move(events)}});
    }
    return out;
}

}  // namespace polter::loops
