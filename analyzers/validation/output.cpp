// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "analyzers/samples/statistics.hpp"
#include "validate.hpp"

namespace polter::validation {

using Json = nlohmann::json;

namespace {

double percent(int64_t part, int64_t whole) {
    return whole ? 100 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

double ratio(uint64_t part, uint64_t whole) {
    return whole ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

int64_t middle(const std::vector<int64_t>& values) {
    return values.empty() ? 0 : samples::median(values);
}

double mean(int64_t sum, uint64_t count) {
    return count ? static_cast<double>(sum) / static_cast<double>(count) : 0;
}

int64_t nearly_most(const std::vector<int64_t>& values) {
    std::vector<double> sorted(values.begin(), values.end());
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? 0 : std::llround(samples::quantile(sorted, 0.99));
}

// Of what was injected the trace must have all but so much, and what it has beyond each event is told.
constexpr double total_percent = 1;

std::string name_of(const CaseResult& one) {
    if (!one.asked.grain_ns) return one.asked.spec;
    return fmt::format("{} {} {:g}% {:g} ms", one.asked.workload, one.asked.pattern, one.asked.level * 100,
                       static_cast<double>(one.asked.grain_ns) / 1e6);
}

constexpr std::string_view log_title = "log against trace";

size_t name_width(const Validated& validated) {
    size_t width = log_title.size();
    for (const CaseResult& one : validated.cases) width = std::max(width, name_of(one).size());
    return width;
}

// What an answer may be off, in percent: as `within` is decided.
std::string allowed(const Interval& truth) {
    return fmt::format("{:+.1f} to {:+.1f}", std::min(-tolerance_percent, percent(truth.low - truth.median, truth.median)),
                       std::max(tolerance_percent, percent(truth.high - truth.median, truth.median)));
}

std::string log_head(size_t width) {
    return fmt::format("{:<{}} {:>7} {:>8} {:>11} {:>9} = {:>6} + {:>5} {:>6} {:>6} {:>6} {:>6} {:>7} {:>9} {:>9}\n", log_title, width,
                       "events", "recall %", "precision %", "longer us", "before", "after", "mean", "99 %", "timer", "loop", "total %",
                       "covered %", "culprit %");
}

std::string log_row(const std::string& name, size_t width, const Found& found, int64_t beyond_ns) {
    const auto us = [](int64_t ns) { return static_cast<double>(ns) / 1e3; };
    return fmt::format(
        "{:<{}} {:>7} {:>8.2f} {:>11.2f} {:>9.2f}   {:>6.2f}   {:>5.2f} {:>6.2f} {:>6.1f} {:>6.2f} {:>6} {:>7.2f} {:>9.2f} {:>9.2f}\n",
        name, width, found.logged, 100 * ratio(found.found, found.logged), 100 * (1 - ratio(found.invented, found.recorded)),
        us(middle(found.longer_ns)), us(middle(found.before_ns)), us(middle(found.after_ns)),
        mean(found.recorded_ns - found.logged_ns, found.found) / 1e3, us(nearly_most(found.longer_ns)), us(middle(found.woken_ns)),
        beyond_ns ? fmt::format("{:.2f}", us(beyond_ns)) : "-", percent(found.recorded_ns - found.logged_ns, found.logged_ns),
        percent(found.covered_ns, found.logged_ns), percent(found.named_ns, found.any_ns));
}

std::string log_legend(const Found& all) {
    return fmt::format(
        "\nlonger: by how much the trace has an event longer than the injector (the switches; median), before and after it, mean, and "
        "what\n"
        "99 % of the events stay below; timer: the interrupt that wakes the injector; loop: what a loop that reads the clock loses "
        "to an\n"
        "event beyond its length (mean); total: longer, all events together; covered: of the injected time, without what the trace has "
        "before and "
        "after\n"
        "each event; culprit: attributed to preemption by the injector.\n"
        "Not counted: {} events that hit a rank that was blocked, {} that hit another task.\n",
        all.blocked, all.others);
}

Json json_of(const Interval& interval) {
    return {{"median_ns", interval.median}, {"interval_ns", {interval.low, interval.high}}};
}

Json json_of(const Answer& answer, int64_t truth, int64_t effect, bool judged) {
    return {{"time", json_of(answer.time)},
            {"error", json_of(answer.error)},
            {"error_percent_of_run", percent(answer.time.median - truth, truth)},
            {"error_percent_of_effect", effect > 0 ? Json(percent(answer.time.median - truth, effect)) : Json()},
            {"within", judged ? Json(answer.within) : Json()}};
}

Json json_of(const Found& found) {
    return {{"events", found.logged},
            {"recall", ratio(found.found, found.logged)},
            {"recorded", found.recorded},
            {"precision", 1 - ratio(found.invented, found.recorded)},
            {"while_blocked", found.blocked},
            {"while_others_ran", found.others},
            {"injected_ns", found.logged_ns},
            {"recorded_ns", found.recorded_ns},
            {"longer_by_ns_each", mean(found.recorded_ns - found.logged_ns, found.found)},
            {"longer_by_ns_median", middle(found.longer_ns)},
            {"longer_by_ns_99", nearly_most(found.longer_ns)},
            {"begins_earlier_by_ns_median", middle(found.before_ns)},
            {"ends_later_by_ns_median", middle(found.after_ns)},
            {"timer_ns_median", middle(found.woken_ns)},
            {"total_longer_percent", percent(found.recorded_ns - found.logged_ns, found.logged_ns)},
            {"covered_percent", percent(found.covered_ns, found.logged_ns)},
            {"unexplained_percent", percent(found.rest_ns, found.logged_ns)},
            {"total_within", percent(found.covered_ns, found.logged_ns) >= 100 - total_percent},
            {"start_and_end_ns", found.outside_ns},
            {"source_right", found.any_ns ? static_cast<double>(found.preempt_ns) / static_cast<double>(found.any_ns) : 0},
            {"culprit_right", found.any_ns ? static_cast<double>(found.named_ns) / static_cast<double>(found.any_ns) : 0}};
}

// By how much hidden time makes the estimate from the records alone longer.
int64_t hidden_of(const Pair& pair) {
    return pair.estimated_as_recorded - pair.estimated;
}

Json hidden_json(const CaseResult& one) {
    return {{"beyond", json_of(one.beyond)},
            {"event", json_of(one.hidden)},
            {"event_of_loop", json_of(one.hidden_by_loop)},
            {"timer", json_of(one.hidden_timer)}};
}

std::string windows_line(const CaseResult& one) {
    if (one.windows_ns == 0) return "";
    return fmt::format(
        "In windows of {:g} ms, {}: {} pieces, which one run did with noise and the other without, {:.0f} % of the runs' time; times are "
        "in\nproportion to one window\n",
        static_cast<double>(one.windows_ns) / 1e6, name_of(one), one.pairs.size(), 100 * one.compared);
}

std::string hidden_line(const CaseResult& one) {
    const auto us = [](const Interval& value) {
        return fmt::format("{:.1f} us ({:.1f} to {:.1f})", static_cast<double>(value.median) / 1e3, static_cast<double>(value.low) / 1e3,
                           static_cast<double>(value.high) / 1e3);
    };
    if (one.hidden.median == 0 && one.hidden_by_loop.median == 0)
        return fmt::format("Hidden from the exporter, {}: nothing was measured; the estimate is that from the records.\n", name_of(one));
    const std::string text =
        fmt::format("Hidden from the exporter, {}: {} of an event, {} of a timer interrupt alone, by a loop that reads the clock\n",
                    name_of(one), us(one.hidden_by_loop), us(one.hidden_timer));
    if (one.hidden == one.hidden_by_loop) return text;
    return text +
           fmt::format(
               "    and {} of an event, by the program's own work between MPI calls; with the loop's the estimate is off by {:+.2f} %\n",
               us(one.hidden), percent(one.estimation_by_loop.time.median - one.quiet.median, one.quiet.median));
}

}  // namespace

Json to_json(const Found& found, const std::string& trace) {
    Json json = json_of(found);
    json["schema"] = "polter.validate.log/1";
    json["trace"] = trace;
    return json;
}

std::string to_text(const Found& found, const std::string& trace) {
    const size_t width = std::max(log_title.size(), trace.size());
    return log_head(width) + log_row(trace, width, found, 0) + log_legend(found);
}

Json to_json(const Validated& validated) {
    Json cases = Json::array();
    for (const CaseResult& one : validated.cases) {
        Json pairs = Json::array();
        std::vector<int64_t> hidden;
        for (const Pair& pair : one.pairs) hidden.push_back(hidden_of(pair));
        for (const Pair& pair : one.pairs)
            pairs.push_back({{"quiet_ns", pair.quiet},
                             {"injected_ns", pair.injected},
                             {"estimated_ns", pair.estimated},
                             {"predicted_ns", pair.predicted},
                             {"predicted_by_log_ns", pair.predicted_by_log},
                             {"measured_quiet_ns", pair.measured_quiet},
                             {"measured_injected_ns", pair.measured_injected},
                             {"estimated_with_own_ns", pair.estimated_with_own},
                             {"hidden_ns", hidden_of(pair)},
                             {"estimated_as_recorded_ns", pair.estimated_as_recorded},
                             {"estimated_by_loop_ns", pair.estimated_by_loop},
                             {"event_cost", to_json(pair.cost)},
                             {"machine_noise_ns", pair.machine_noise}});
        const bool judged = one.no_verdict.empty();
        cases.push_back({{"spec", one.asked.spec},
                         {"pattern", one.asked.pattern},
                         {"level", one.asked.level},
                         {"grain_ns", one.asked.grain_ns},
                         {"workload", one.asked.workload},
                         {"windows_ns", one.windows_ns},
                         {"compared_part", one.compared},
                         {"quiet", json_of(one.quiet)},
                         {"injected", json_of(one.injected)},
                         {"measured_quiet", json_of(one.measured_quiet)},
                         {"measured_injected", json_of(one.measured_injected)},
                         {"effect", json_of(one.effect)},
                         {"quiet_spread_ns", one.quiet_spread},
                         {"machine_noise_ns", one.machine_noise},
                         {"event_cost_ns", one.beyond.median},
                         {"hidden_ns", middle(hidden)},
                         {"hidden", hidden_json(one)},
                         {"injected_load", one.load},
                         {"estimation", json_of(one.estimation, one.quiet.median, one.effect.median, judged)},
                         {"prediction", json_of(one.prediction, one.injected.median, one.effect.median, judged)},
                         {"estimation_as_recorded", json_of(one.estimation_as_recorded, one.quiet.median, one.effect.median, judged)},
                         {"estimation_with_own", json_of(one.estimation_with_own, one.measured_quiet.median, one.effect.median, judged)},
                         {"estimation_by_loop", json_of(one.estimation_by_loop, one.quiet.median, one.effect.median, judged)},
                         {"prediction_by_log", json_of(one.prediction_by_log, one.injected.median, one.effect.median, judged)},
                         {"log", json_of(one.found)},
                         {"no_verdict", one.no_verdict},
                         {"warnings", one.warnings},
                         {"pairs", std::move(pairs)}});
    }
    return {{"schema", "polter.validate/1"}, {"host", validated.host}, {"mpi", validated.mpi},      {"exporter", validated.exporter},
            {"pairs", validated.pairs},      {"seed", validated.seed}, {"cases", std::move(cases)}, {"verdict", validated.verdict}};
}

std::string to_text(const Validated& validated) {
    const size_t width = name_width(validated);
    std::string text =
        fmt::format("{:<{}} {:>9} {:>6} {:>8} | {:>8} {:>14} {:>4} {:>9} {:>4} | {:>8} {:>14} {:>4} {:>8}\n", "case", width, "quiet ms",
                    "own %", "effect %", "estim. %", "allowed", "", "record. %", "", "pred. %", "allowed", "", "by log %");
    const auto off = [](const Answer& answer, const Interval& truth) { return percent(answer.time.median - truth.median, truth.median); };
    for (const CaseResult& one : validated.cases) {
        const auto mark = [&](const Answer& answer) { return !one.no_verdict.empty() ? "-" : answer.within ? "yes" : "NO"; };
        text += fmt::format(
            "{:<{}} {:>9.1f} {:>6.2f} {:>8.2f} | {:>+8.2f} {:>14} {:>4} {:>+9.2f} {:>4} | {:>+8.2f} {:>14} {:>4} {:>+8.2f}\n", name_of(one),
            width, static_cast<double>(one.quiet.median) / 1e6, percent(one.machine_noise, one.measured_quiet.median),
            percent(one.effect.median, one.quiet.median), off(one.estimation, one.quiet), allowed(one.quiet), mark(one.estimation),
            off(one.estimation_as_recorded, one.quiet), mark(one.estimation_as_recorded), off(one.prediction, one.injected),
            allowed(one.injected), mark(one.prediction), off(one.prediction_by_log, one.injected));
    }
    text +=
        "\nquiet ms: the quiet runs, without the machine's own noise (own %), which the replay removes from quiet and injected runs "
        "alike.\n"
        "effect: what the injected noise cost, measured. estim., pred.: by how much the estimate of the quiet runs and the prediction of\n"
        "the injected runs are off, in percent of the run time; allowed: the measured runs' 95 % interval, or 1 % where that is more.\n"
        "record.: the estimate from the records alone, which still has the hidden time below; by log: the prediction with the events as\n"
        "logged, without what a loop loses beyond.\n";
    for (const CaseResult& one : validated.cases) text += windows_line(one) + hidden_line(one);
    text += "\n" + log_head(width);
    Found all;
    for (const CaseResult& one : validated.cases) {
        text += log_row(name_of(one), width, one.found, one.beyond.median);
        all.add(one.found);
    }
    text += log_legend(all);
    for (const CaseResult& one : validated.cases) {
        if (!one.no_verdict.empty()) text += fmt::format("No verdict for {}: {}\n", one.asked.spec, one.no_verdict);
        for (const std::string& warning : one.warnings) text += fmt::format("Warning, {}: {}\n", one.asked.spec, warning);
    }
    return text + "\n" + validated.verdict + "\n";
}

}  // namespace polter::validation
