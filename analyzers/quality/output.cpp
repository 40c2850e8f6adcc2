// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "analyzers/samples/json.hpp"
#include "progress.hpp"
#include "quality.hpp"
#include "replay/base/layout.hpp"
#include "replay/base/printable.hpp"
#include "replay/base/table.hpp"
#include "running.hpp"

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

// Of a number that may be unknown.
json known(const std::optional<double>& value) {
    return value ? json(*value) : json();
}

json point_json(const Point& point) {
    const bool judged = point.verdict != Verdict::no_basis, compared = point.usual_s > 0;
    return {{"elapsed_ns", point.elapsed_ns},
            {"done", point.done},
            {"verdict", name_of(point.verdict)},
            {"no_basis", judged ? json() : json(point.why)},
            {"level", compared ? json(point.level) : json()},
            {"reached_s", compared ? known(point.reached_s) : json()},
            {"usual_s", compared ? json(point.usual_s) : json()},
            {"interval_s", judged ? json{point.interval.low, point.interval.high} : json()},
            {"late", known(point.late)},
            {"run_time_from_rates_s", known(point.from_rates_s)},
            {"left_out_error", known(point.left_out_error)}};
}

json online_json(const Online& online) {
    const bool followed = !online.work.empty();
    json out{{"interval_ns", online.interval_ns},
             {"work", followed ? json(online.work) : json()},
             {"work_error", followed ? json(online.work_error) : json()},
             {"alarm_rate", alarm_rate},
             {"slower_beyond", known(online.slower_beyond)},
             {"faster_beyond", known(online.faster_beyond)},
             {"no_basis", online.why.empty() ? json() : json(online.why)},
             {"points", json::array()}};
    for (const Point& point : online.points) out["points"].push_back(point_json(point));
    return out;
}

json job_json(const Job& job) {
    return {{"id", job.id},       {"application", job.application}, {"size", job.size},          {"processes", job.processes},
            {"nodes", job.nodes}, {"runtime_ns", job.runtime_ns},   {"started_s", job.started_s}};
}

json because_json(const std::vector<Cause>& because) {
    json out = json::array();
    for (const Cause& cause : because)
        out.push_back(
            {{"source", cause.source}, {"culprit", cause.culprit}, {"rank", cause.rank}, {"ns", cause.ns}, {"usual_ns", cause.usual_ns}});
    return out;
}

json differences_json(const std::vector<Difference>& differences) {
    json out = json::array();
    for (const Difference& one : differences)
        out.push_back({{"feature", one.feature}, {"value", one.value}, {"usual", one.usual}, {"deviations", one.deviations}});
    return out;
}

std::string verdict_text(Verdict verdict, const std::vector<Cause>& because, const std::string& why) {
    std::string text = name_of(verdict);
    for (size_t i = 0; i < because.size() && i < 3; ++i) text += (i ? ", and " : ", because ") + replay::printable(cause_text(because[i]));
    return verdict == Verdict::no_basis ? text + ": " + why : text;
}

std::string own_text(double share) {
    constexpr double least = 0.005;
    return share < least ? "" : fmt::format("polter itself took up to {:.1f} % of its time, which does not count", 100 * share);
}

void add_online_text(std::string& out, const Online& online, size_t columns) {
    if (!online.why.empty()) {
        out += "\n" + replay::fold("While it ran: no basis: " + online.why, 2, columns) + "\n";
        return;
    }
    constexpr size_t most_rows = 16;
    const size_t each = (online.points.size() + most_rows - 1) / most_rows;
    replay::Table table(
        {"after", "work done", "part judged", "reached", "usually", "late", "verdict then", "run time from rates", "its error"});
    for (size_t i = each - 1; i < online.points.size(); i += each) {
        const Point& point = online.points[i];
        const bool compared = point.usual_s > 0;
        table.add({time(static_cast<double>(point.elapsed_ns)), fmt::format("{:.0f} %", 100 * point.done),
                   compared ? fmt::format("{:.1f} %", 100 * point.level) : "", point.reached_s ? time(1e9 * *point.reached_s) : "not yet",
                   compared ? time(1e9 * point.usual_s) : "", point.late ? fmt::format("{:+.1f} %", 100 * *point.late) : "",
                   name_of(point.verdict), point.from_rates_s ? time(1e9 * *point.from_rates_s) : "",
                   point.left_out_error ? fmt::format("{:.1f} %", 100 * *point.left_out_error) : ""});
    }
    out += fmt::format("\nWhile it ran, every {}, by its {}:\n", time(static_cast<double>(online.interval_ns)), online.work) +
           table.text(columns, 0);
    if (!online.points.back().why.empty()) out += replay::fold("No basis: " + online.points.back().why, 2, columns) + "\n";
}

}  // namespace

json to_json(const Assessment& result) {
    json out = samples::result_of("polter.quality/1", result.warnings, {});
    out["job"] = job_json(result.job);
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
        out["expected"]["between_inputs"] = result.between;
        out["difference"] = result.difference;
    }
    out["coefficients"] = json::object();
    for (const auto& [name, value] : result.coefficients) out["coefficients"][name] = value;
    out["because"] = because_json(result.because);
    out["own_share"] = result.own_share;
    out["differences"] = differences_json(result.differences);
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
    out += replay::fold("Verdict: " + verdict_text(result.verdict, result.because, result.why), 2, columns) + "\n";
    if (const std::string own = own_text(result.own_share); !own.empty()) out += "Followed: " + own + "\n";
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

json to_json(const Look& look) {
    json out = samples::result_of("polter.quality.running/1", {}, {});
    out["job"] = job_json(look.job);
    out["history"] = look.history;
    out["totals"] = look.job.totals;
    out["work"] = look.work.empty() ? json() : json(look.work);
    out["alarm_rate"] = alarm_rate;
    out["expected"] = nullptr;
    if (look.run_time)
        out["expected"] = samples::to_json({look.run_time->expected, "s", look.run_time->interval, samples::usual_level, look.history});
    out["now"] = point_json(look.point);
    out["because"] = because_json(look.because);
    out["own_share"] = look.own_share;
    out["differences"] = differences_json(look.differences);
    return out;
}

std::string to_text(const Look& look) {
    const Point& point = look.point;
    std::string out = time(static_cast<double>(point.elapsed_ns)) + ": ";
    if (!look.work.empty()) out += fmt::format("{:.0f} % done, ", 100 * point.done);
    out += verdict_text(point.verdict, look.because, point.why);
    if (point.verdict == Verdict::no_basis) return out;
    const std::string part = point.level < 1 ? fmt::format("{:.1f} %", 100 * point.level) : "all", usual = time(1e9 * point.usual_s);
    if (point.reached_s)
        out += fmt::format("; {} after {}, usually {} ({:+.0f} %)", part, time(1e9 * *point.reached_s), usual, 100 * *point.late);
    else
        out += fmt::format("; {} usually after {}", part, usual);
    if (look.run_time)
        out += fmt::format("; expected run time {} (95 %: {} to {})", time(1e9 * look.run_time->expected),
                           time(1e9 * look.run_time->interval.low), time(1e9 * look.run_time->interval.high));
    if (const std::string own = own_text(look.own_share); !own.empty()) out += "; " + own;
    if (!look.differences.empty())
        out +=
            fmt::format("; differs most: {} ({:+.0f} deviations)", look.differences.front().feature, look.differences.front().deviations);
    return out;
}

}  // namespace polter::quality
