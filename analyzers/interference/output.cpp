// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzers/samples/json.hpp"
#include "interference.hpp"
#include "replay/base/layout.hpp"
#include "replay/base/printable.hpp"
#include "replay/base/table.hpp"
#include "replay/result/first_screen.hpp"

namespace polter::interference {

namespace {

using nlohmann::json;

constexpr size_t most_hits = 2000;  // in the JSON, those with the greatest excess

// What the excess over the medians was: OS noise by source and culprit, and the rest.
struct Excess {
    double all = 0, os_noise = 0;
    bool known = false;
    std::vector<std::pair<std::pair<std::string, std::string>, double>> causes;  // largest first
    explicit Excess(const Analyzed& analyzed) : known(analyzed.noise_known) {
        std::map<std::pair<std::string, std::string>, double> by_cause;
        for (const Hit& hit : analyzed.estimate.hits) {
            all += hit.over_median_ns;
            os_noise += hit.os_noise_ns.value_or(0);
            for (const auto& [cause, ns] : hit.causes) by_cause[cause] += ns;
        }
        causes.assign(by_cause.begin(), by_cause.end());
        std::stable_sort(causes.begin(), causes.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    }
};

json causes_json(const auto& causes) {
    json list = json::array();
    for (const auto& [cause, ns] : causes) list.push_back({{"source", cause.first}, {"culprit", cause.second}, {"ns", std::llround(ns)}});
    return list;
}

json hits_json(const Analyzed& analyzed) {
    std::vector<const Hit*> hits;
    for (const Hit& hit : analyzed.estimate.hits) hits.push_back(&hit);
    if (hits.size() > most_hits) {
        std::stable_sort(hits.begin(), hits.end(), [](const Hit* a, const Hit* b) { return a->over_median_ns > b->over_median_ns; });
        hits.resize(most_hits);
        std::sort(hits.begin(), hits.end(), [](const Hit* a, const Hit* b) { return a->segment < b->segment; });
    }
    json list = json::array();
    for (const Hit* hit : hits)
        list.push_back({{"segment", hit->segment},
                        {"group", hit->group},
                        {"begin_ns", hit->begin_ns},
                        {"duration_ns", hit->duration_ns},
                        {"over_threshold_ns", std::llround(hit->over_threshold_ns)},
                        {"over_median_ns", std::llround(hit->over_median_ns)},
                        {"os_noise_ns", hit->os_noise_ns ? json(std::llround(*hit->os_noise_ns)) : json()},
                        {"causes", causes_json(hit->causes)}});
    return list;
}

json groups_json(const Analyzed& analyzed) {
    json list = json::array();
    for (const GroupTimes& group : analyzed.estimate.groups) {
        json calls = json::object();
        const auto& kind = analyzed.run.kinds[group.group.kind];
        const Features& of_first = analyzed.run.calls[kind.front()];
        for (uint32_t i = 0; i < functions; ++i)
            if (of_first[i] > 0) calls[feature_names[i]] = of_first[i];
        list.push_back({{"segments", group.group.members.size()},
                        {"used", group.group.used()},
                        {"computing", {{"least", group.group.least_computing}, {"most", group.group.most_computing}}},
                        {"ranks_differ", kind.size() > 1},
                        {"calls_of_rank_0", calls},
                        {"median_ns", std::llround(group.median_ns)},
                        {"mad_ns", std::llround(group.mad_ns)},
                        {"threshold_ns", std::llround(group.threshold_ns)},
                        {"hit", group.hit},
                        {"over_threshold_ns", std::llround(group.over_threshold_ns)},
                        {"over_median_ns", std::llround(group.over_median_ns)}});
    }
    return list;
}

// The lengths of all segments over time, as many as a plot shows: the longest of each stretch.
json timeline_json(const Run& run) {
    constexpr size_t most = 2000;
    const size_t each = (run.segments.size() + most - 1) / most;
    json list = json::array();
    for (size_t i = 0; i < run.segments.size(); i += each) {
        const auto begin = run.segments.begin() + static_cast<std::ptrdiff_t>(i);
        const auto end = run.segments.begin() + static_cast<std::ptrdiff_t>(std::min(i + each, run.segments.size()));
        const auto longest = std::max_element(begin, end, [](const Segment& a, const Segment& b) { return a.duration < b.duration; });
        list.push_back({longest->end, longest->duration});
    }
    return list;
}

json run_json(const Analyzed& analyzed) {
    const Run& run = analyzed.run;
    const Estimate& estimate = analyzed.estimate;
    const uint64_t count = run.segments.size();
    std::vector<std::string> warnings = run.warnings;
    for (const auto* more : {&estimate.warnings, &analyzed.warnings}) warnings.insert(warnings.end(), more->begin(), more->end());
    json out{{"trace", run.trace},
             {"ranks", run.ranks},
             {"segments", count},
             {"segments_ns", run.total()},
             {"before_ns", run.before},
             {"after_ns", run.after},
             {"computing_by", run.counter.empty() ? json() : json(run.counter)},
             {"interference", samples::to_json({estimate.percent, "%", estimate.interval, samples::usual_level, count})},
             {"interference_over_median", samples::to_json({estimate.percent_over_median, "%", {}, {}, count})},
             {"class", class_of(estimate.percent)},
             {"probability", probability_of(estimate.percent)},
             {"collectives", samples::to_json({estimate.rate_hz, "1/s", {}, {}, count})},
             {"unused", {{"segments", estimate.unused_segments}, {"ns", estimate.unused_ns}}},
             {"groups", groups_json(analyzed)},
             {"hit_segments", estimate.hits.size()},
             {"hits", hits_json(analyzed)},
             {"timeline", timeline_json(run)},
             {"measured", nullptr},
             {"os_noise", nullptr},
             {"warnings", warnings},
             {"provenance", run.provenance}};
    if (analyzed.measured)
        out["measured"] = {{"interference", samples::to_json({analyzed.measured->percent, "%", {}, {}, count})},
                           {"probability", probability_of(analyzed.measured->percent)},
                           {"displacement_ns", analyzed.measured->displacement_ns},
                           {"accuracy", analyzed.measured->accuracy}};
    const Excess excess(analyzed);
    if (excess.known)
        out["os_noise"] = {{"accumulated_noise_ns", analyzed.accumulated_noise_ns},
                           {"bounds_ns", {analyzed.bounds_low_ns, analyzed.bounds_high_ns}},
                           {"measured_ns", analyzed.measured_ns},
                           {"excess_ns", std::llround(excess.all)},
                           {"of_excess_ns", std::llround(excess.os_noise)},
                           {"not_os_noise_ns", std::llround(excess.all) - std::llround(excess.os_noise)},
                           {"causes", causes_json(excess.causes)}};
    else
        out["os_noise_unknown"] = analyzed.noise_unknown;
    return out;
}

std::string percent(double value) {
    return fmt::format("{:.1f} %", value);
}

std::string time(double ns) {
    return replay::short_time(std::llround(ns));
}

void add_run_text(std::string& out, const Analyzed& analyzed, const replay::TextOptions& options) {
    const Run& run = analyzed.run;
    const Estimate& estimate = analyzed.estimate;
    out += replay::fold(replay::printable(fmt::format("{}: {} ranks, {} segments between collectives, {:.0f} a second", run.trace,
                                                      run.ranks, run.segments.size(), estimate.rate_hz)),
                        2, options.columns) +
           "\n\n";
    replay::Table summary({}, {0, 2});
    summary.add({"Interference", percent(estimate.percent),
                 fmt::format("{} (between {} and {})", class_of(estimate.percent), percent(estimate.interval.low),
                             percent(estimate.interval.high))});
    summary.add({"over medians", percent(estimate.percent_over_median), fmt::format("{} segments hit", estimate.hits.size())});
    if (analyzed.measured)
        summary.add({"measured", percent(analyzed.measured->percent),
                     fmt::format("against the fastest run; accuracy {:.2f}", analyzed.measured->accuracy)});
    if (analyzed.noise_known)
        summary.add({"OS noise, all", replay::short_percent(analyzed.accumulated_noise_ns, analyzed.measured_ns),
                     time(static_cast<double>(analyzed.accumulated_noise_ns)) + " by replay, also what is always there"});
    out += summary.text(options.columns, 0);

    replay::Table groups({"segments", "hit", "median", "MAD", "threshold", "over median"}, {});
    std::vector<const GroupTimes*> sorted;
    for (const GroupTimes& group : estimate.groups)
        if (group.group.used()) sorted.push_back(&group);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const GroupTimes* a, const GroupTimes* b) { return a->over_median_ns > b->over_median_ns; });
    const size_t shown = options.all ? sorted.size() : std::min<size_t>(sorted.size(), 6);
    for (size_t i = 0; i < shown; ++i)
        groups.add({std::to_string(sorted[i]->group.members.size()), std::to_string(sorted[i]->hit), time(sorted[i]->median_ns),
                    time(sorted[i]->mad_ns), time(sorted[i]->threshold_ns), time(sorted[i]->over_median_ns)});
    out += "\nGroups of segments that do the same\n" + groups.text(options.columns);
    if (shown < sorted.size()) out += fmt::format("  {} more: --all\n", sorted.size() - shown);
    if (estimate.unused_segments > 0)
        out += fmt::format("  not used: {} segments in groups of fewer than {}, {}\n", estimate.unused_segments, least_members,
                           replay::short_percent(estimate.unused_ns, run.total()));

    const Excess excess(analyzed);
    if (excess.known && excess.all > 0) {
        replay::Table causes({"segments that were hit: excess by", "time", "part"});
        size_t left = options.all ? SIZE_MAX : 8;
        for (const auto& [cause, ns] : excess.causes) {
            if (left-- == 0) break;
            const bool named = replay::names_processes(cause.first) && !cause.second.empty();
            causes.add({named ? replay::cause(cause.first) + " by " + cause.second : replay::cause(cause.first), time(ns),
                        percent(100 * ns / excess.all)});
        }
        causes.add({"no OS noise (network, file system, the program)", time(excess.all - excess.os_noise),
                    percent(100 * (excess.all - excess.os_noise) / excess.all)});
        out += "\n" + causes.text(options.columns);
    } else if (!excess.known) {
        out +=
            replay::fold("OS noise in the segments is not known: " + replay::printable(analyzed.noise_unknown), 2, options.columns) + "\n";
    }
    for (const auto* list : {&run.warnings, &estimate.warnings, &analyzed.warnings})
        for (const std::string& warning : *list)
            out += "\n" + replay::fold("Warning: " + replay::printable(warning), 2, options.columns) + "\n";
}

}  // namespace

json to_json(const Result& result) {
    json out = samples::result_of("polter.interference/1", result.warnings, {});
    out["runs"] = json::array();
    for (const Analyzed& one : result.runs) out["runs"].push_back(run_json(one));
    out["fastest"] = result.fastest ? json(*result.fastest) : json();
    out["accuracy"] = nullptr;
    if (result.fastest) {
        std::vector<double> accuracies;
        for (const Analyzed& one : result.runs) accuracies.push_back(one.measured->accuracy);
        out["accuracy"] = {{"median", samples::to_json({samples::median(accuracies), "1", {}, {}, accuracies.size()})},
                           {"least", *std::min_element(accuracies.begin(), accuracies.end())}};
    }
    return out;
}

std::string to_text(const Result& result, const replay::TextOptions& options) {
    std::string out;
    if (result.fastest) {
        replay::Table table({"run", "time", "estimated", "measured", "accuracy", "class", "OS noise, all"}, {0}, {0});
        std::vector<double> accuracies;
        for (const Analyzed& one : result.runs) {
            accuracies.push_back(one.measured->accuracy);
            table.add({one.run.trace, time(static_cast<double>(one.run.total())), percent(one.estimate.percent),
                       percent(one.measured->percent), fmt::format("{:.2f}", one.measured->accuracy), class_of(one.estimate.percent),
                       one.noise_known ? replay::short_percent(one.accumulated_noise_ns, one.measured_ns) : "?"});
        }
        out += table.text(options.columns, 0);
        out += fmt::format("\nAccuracy of the estimates: median {:.2f}, least {:.2f}\n", samples::median(accuracies),
                           *std::min_element(accuracies.begin(), accuracies.end()));
    }
    const bool brief = result.runs.size() > 1 && !options.all;
    if (brief) {
        std::vector<std::string> told;
        for (const Analyzed& one : result.runs)
            for (const auto* list : {&one.run.warnings, &one.estimate.warnings, &one.warnings})
                for (const std::string& warning : *list)
                    if (std::find(told.begin(), told.end(), warning) == told.end()) told.push_back(warning);
        for (const std::string& warning : told)
            out += "\n" + replay::fold("Warning: " + replay::printable(warning), 2, options.columns) + "\n";
        if (result.fastest) out += "\nEach run by itself: --all\n";
    }
    if (!brief || !result.fastest)
        for (const Analyzed& one : result.runs) {
            if (!out.empty()) out += "\n";
            add_run_text(out, one, options);
        }
    for (const std::string& warning : result.warnings)
        out += "\n" + replay::fold("Warning: " + replay::printable(warning), 2, options.columns) + "\n";
    return out;
}

}  // namespace polter::interference
