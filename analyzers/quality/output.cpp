// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "analyzers/samples/json.hpp"
#include "quality.hpp"
#include "replay/base/layout.hpp"
#include "replay/base/printable.hpp"
#include "replay/base/table.hpp"

namespace polter::quality {

namespace {

using nlohmann::json;

std::string time(double ns) {
    return replay::short_time(std::llround(ns));
}

std::string cause_text(const Cause& cause) {
    std::string text = cause.source;
    if (!cause.culprit.empty()) text += " by " + cause.culprit;
    return fmt::format("{} ({} of rank {}, usually {})", text, time(static_cast<double>(cause.ns)), cause.rank,
                       time(static_cast<double>(cause.usual_ns)));
}

json online_json(const Online& online) {
    json out{{"interval_ns", online.interval_ns},
             {"work", online.work.empty() ? json() : json(online.work)},
             {"work_error", online.work.empty() ? json() : json(online.work_error)},
             {"level", online.work.empty() ? json() : json(online.level)},
             {"no_basis", online.why.empty() ? json() : json(online.why)},
             {"points", json::array()}};
    for (const Point& point : online.points) {
        const bool known = point.verdict != Verdict::no_basis;
        out["points"].push_back({{"elapsed_ns", point.elapsed_ns},
                                 {"done", point.done},
                                 {"verdict", name_of(point.verdict)},
                                 {"no_basis", known ? json() : json(point.why)},
                                 {"usual_s", known ? json(point.usual_s) : json()},
                                 {"interval_s", known ? json{point.interval.low, point.interval.high} : json()},
                                 {"late", known ? json(point.late) : json()},
                                 {"run_time_from_rates_s", point.from_rates_s ? json(*point.from_rates_s) : json()},
                                 {"left_out_error", point.left_out_error ? json(*point.left_out_error) : json()}});
    }
    return out;
}

void add_online_text(std::string& out, const Online& online, size_t columns) {
    if (!online.why.empty()) {
        out += "\n" + replay::fold("While it ran: no basis: " + online.why, 2, columns) + "\n";
        return;
    }
    constexpr size_t most_rows = 16;
    const size_t each = (online.points.size() + most_rows - 1) / most_rows;
    replay::Table table({"after", "work done", "usually after", "late", "verdict then", "run time from rates", "its error"});
    for (size_t i = each - 1; i < online.points.size(); i += each) {
        const Point& point = online.points[i];
        const bool known = point.verdict != Verdict::no_basis;
        table.add({time(static_cast<double>(point.elapsed_ns)), fmt::format("{:.0f} %", 100 * point.done),
                   known ? time(1e9 * point.usual_s) : "", known ? fmt::format("{:+.1f} %", 100 * point.late) : "",
                   name_of(point.verdict) + (known ? "" : ": " + point.why), point.from_rates_s ? time(1e9 * *point.from_rates_s) : "",
                   point.left_out_error ? fmt::format("{:.1f} %", 100 * *point.left_out_error) : ""});
    }
    out += fmt::format("\nWhile it ran, every {}, by its {}:\n", time(static_cast<double>(online.interval_ns)), online.work) +
           table.text(columns, 0);
}

}  // namespace

json to_json(const Assessment& result) {
    const Job& job = result.job;
    json out = samples::result_of("polter.quality/1", result.warnings, {});
    out["job"] = {{"id", job.id},       {"application", job.application}, {"size", job.size},          {"processes", job.processes},
                  {"nodes", job.nodes}, {"runtime_ns", job.runtime_ns},   {"started_s", job.started_s}};
    out["history"] = result.history;
    out["verdict"] = name_of(result.verdict);
    out["no_basis"] = result.verdict == Verdict::no_basis ? json(result.why) : json();
    out["expected"] = nullptr;
    out["difference"] = nullptr;
    if (result.prediction) {
        const Prediction& p = *result.prediction;
        out["expected"] = samples::to_json({p.expected, "s", p.interval, samples::usual_level, result.history});
        out["expected"]["verdict_interval"] = {p.verdict_interval.low, p.verdict_interval.high};
        out["expected"]["verdict_level"] = verdict_level;
        out["expected"]["leverage"] = p.leverage;
        out["difference"] = result.difference;
    }
    out["coefficients"] = json::object();
    for (const auto& [name, value] : result.coefficients) out["coefficients"][name] = value;
    out["because"] = json::array();
    for (const Cause& cause : result.because)
        out["because"].push_back(
            {{"source", cause.source}, {"culprit", cause.culprit}, {"rank", cause.rank}, {"ns", cause.ns}, {"usual_ns", cause.usual_ns}});
    out["differences"] = json::array();
    for (const Difference& one : result.differences)
        out["differences"].push_back(
            {{"feature", one.feature}, {"value", one.value}, {"usual", one.usual}, {"deviations", one.deviations}});
    out["models"] = json::array();
    for (const Compared& one : result.models)
        out["models"].push_back({{"inputs", name_of(one.inputs)},
                                 {"left_out_error", one.left_out_error ? json(*one.left_out_error) : json()},
                                 {"components", one.components},
                                 {"why_not", one.why.empty() ? json() : json(one.why)}});
    out["online"] = online_json(result.online);
    return out;
}

std::string to_text(const Assessment& result, size_t columns) {
    const Job& job = result.job;
    std::string out = fmt::format("{} on {} processes of {} node{}: {}\n", replay::printable(job.application), job.processes, job.nodes,
                                  job.nodes == 1 ? "" : "s", time(static_cast<double>(job.runtime_ns)));
    std::string verdict = name_of(result.verdict);
    for (size_t i = 0; i < result.because.size() && i < 3; ++i)
        verdict += (i ? ", and " : ", because ") + replay::printable(cause_text(result.because[i]));
    if (result.verdict == Verdict::no_basis) verdict += ": " + result.why;
    out += replay::fold("Verdict: " + verdict, 2, columns) + "\n";
    if (result.prediction)
        out += fmt::format("Expected: {} (95 %: {} to {}), from {} jobs; this one took {:+.1f} %\n",
                           time(1e9 * result.prediction->expected), time(1e9 * result.prediction->interval.low),
                           time(1e9 * result.prediction->interval.high), result.history, 100 * result.difference);
    if (!result.differences.empty()) {
        replay::Table table({"what differs most from the others", "here", "usually", "deviations"});
        for (size_t i = 0; i < std::min<size_t>(8, result.differences.size()); ++i) {
            const Difference& one = result.differences[i];
            table.add(
                {one.feature, fmt::format("{:.4g}", one.value), fmt::format("{:.4g}", one.usual), fmt::format("{:+.1f}", one.deviations)});
        }
        out += "\n" + table.text(columns, 0);
    }
    replay::Table models({"run time estimated from", "error, each job left out", "components"});
    for (const Compared& one : result.models)
        models.add({name_of(one.inputs), one.left_out_error ? fmt::format("{:.1f} %", 100 * *one.left_out_error) : "too few jobs",
                    one.left_out_error ? std::to_string(one.components) : ""});
    out += "\n" + models.text(columns, 0);
    add_online_text(out, result.online, columns);
    for (const std::string& warning : result.warnings)
        out += "\n" + replay::fold("Warning: " + replay::printable(warning), 2, columns) + "\n";
    return out;
}

}  // namespace polter::quality
