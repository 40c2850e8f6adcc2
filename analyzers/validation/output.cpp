// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

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

int64_t middle(std::vector<int64_t> values) {
    if (values.empty()) return 0;
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

// What the total differs by beyond the stated length of the switches, the same for each event.
constexpr double total_percent = 1;
double unexplained_percent(const Found& found) {
    const auto switches = middle(found.longer_ns) * static_cast<int64_t>(found.found);
    return percent(found.recorded_ns - found.logged_ns - switches, found.logged_ns);
}

std::string name_of(const CaseResult& one) {
    if (!one.asked.grain_ns) return one.asked.spec;
    return fmt::format("{} {} {:g}% {:g} ms", one.asked.workload, one.asked.pattern, one.asked.level * 100,
                       static_cast<double>(one.asked.grain_ns) / 1e6);
}

std::string log_head() {
    return fmt::format("{:<34} {:>7} {:>8} {:>11} {:>9} = {:>6} + {:>5} {:>7} {:>6} {:>9}\n", "log against trace", "events", "recall %",
                       "precision %", "longer us", "before", "after", "total %", "rest %", "culprit %");
}

std::string log_row(const std::string& name, const Found& found) {
    const auto us = [](const std::vector<int64_t>& values) { return static_cast<double>(middle(values)) / 1e3; };
    return fmt::format("{:<34} {:>7} {:>8.2f} {:>11.2f} {:>9.2f}   {:>6.2f}   {:>5.2f} {:>7.2f} {:>6.2f} {:>9.2f}\n", name, found.logged,
                       100 * ratio(found.found, found.logged), 100 * (1 - ratio(found.invented, found.recorded)), us(found.longer_ns),
                       us(found.before_ns), us(found.after_ns), percent(found.recorded_ns - found.logged_ns, found.logged_ns),
                       unexplained_percent(found), percent(found.named_ns, found.any_ns));
}

std::string log_legend(const Found& all) {
    return fmt::format(
        "\nlonger: by how much the trace has an event longer than the injector (the switches; median), before and after it; total: the "
        "same "
        "for\nall events together; rest: total without the switches; culprit: attributed to preemption by the injector.\n"
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
            {"longer_by_ns_each",
             found.found ? static_cast<double>(found.recorded_ns - found.logged_ns) / static_cast<double>(found.found) : 0},
            {"longer_by_ns_median", middle(found.longer_ns)},
            {"begins_earlier_by_ns_median", middle(found.before_ns)},
            {"ends_later_by_ns_median", middle(found.after_ns)},
            {"total_longer_percent", percent(found.recorded_ns - found.logged_ns, found.logged_ns)},
            {"unexplained_percent", unexplained_percent(found)},
            {"total_within", std::fabs(unexplained_percent(found)) <= total_percent},
            {"start_and_end_ns", found.outside_ns},
            {"source_right", found.any_ns ? static_cast<double>(found.preempt_ns) / static_cast<double>(found.any_ns) : 0},
            {"culprit_right", found.any_ns ? static_cast<double>(found.named_ns) / static_cast<double>(found.any_ns) : 0}};
}

}  // namespace

Json to_json(const Found& found, const std::string& trace) {
    Json json = json_of(found);
    json["schema"] = "polter.validate.log/1";
    json["trace"] = trace;
    return json;
}

std::string to_text(const Found& found, const std::string& trace) {
    return log_head() + log_row(trace, found) + log_legend(found);
}

Json to_json(const Validated& validated) {
    Json cases = Json::array();
    for (const CaseResult& one : validated.cases) {
        Json pairs = Json::array();
        for (const Pair& pair : one.pairs)
            pairs.push_back({{"quiet_ns", pair.quiet},
                             {"injected_ns", pair.injected},
                             {"estimated_ns", pair.estimated},
                             {"predicted_ns", pair.predicted},
                             {"machine_noise_ns", pair.machine_noise}});
        const bool judged = one.no_verdict.empty();
        cases.push_back({{"spec", one.asked.spec},
                         {"pattern", one.asked.pattern},
                         {"level", one.asked.level},
                         {"grain_ns", one.asked.grain_ns},
                         {"workload", one.asked.workload},
                         {"quiet", json_of(one.quiet)},
                         {"injected", json_of(one.injected)},
                         {"effect", json_of(one.effect)},
                         {"quiet_spread_ns", one.quiet_spread},
                         {"machine_noise_ns", one.machine_noise},
                         {"injected_load", one.intrinsic_load},
                         {"estimation", json_of(one.estimation, one.quiet.median, one.effect.median, judged)},
                         {"prediction", json_of(one.prediction, one.injected.median, one.effect.median, judged)},
                         {"log", json_of(one.found)},
                         {"no_verdict", one.no_verdict},
                         {"warnings", one.warnings},
                         {"pairs", std::move(pairs)}});
    }
    return {{"schema", "polter.validate/1"}, {"host", validated.host}, {"mpi", validated.mpi},      {"exporter", validated.exporter},
            {"pairs", validated.pairs},      {"seed", validated.seed}, {"cases", std::move(cases)}, {"verdict", validated.verdict}};
}

std::string to_text(const Validated& validated) {
    std::string text = fmt::format("{:<34} {:>9} {:>9} {:>8} | {:>9} {:>9} {:>4} | {:>9} {:>9} {:>4}\n", "case", "quiet ms", "effect %",
                                   "own %", "estim. ms", "off %", "", "pred. ms", "off %", "");
    const auto ms = [](int64_t ns) { return static_cast<double>(ns) / 1e6; };
    for (const CaseResult& one : validated.cases) {
        const auto mark = [&](const Answer& answer) { return !one.no_verdict.empty() ? "-" : answer.within ? "yes" : "NO"; };
        text += fmt::format(
            "{:<34} {:>9.1f} {:>9.2f} {:>8.2f} | {:>9.1f} {:>+9.2f} {:>4} | {:>9.1f} {:>+9.2f} {:>4}\n", name_of(one), ms(one.quiet.median),
            percent(one.effect.median, one.quiet.median), percent(one.machine_noise, one.quiet.median), ms(one.estimation.time.median),
            percent(one.estimation.time.median - one.quiet.median, one.quiet.median), mark(one.estimation), ms(one.prediction.time.median),
            percent(one.prediction.time.median - one.injected.median, one.injected.median), mark(one.prediction));
    }
    text +=
        "\neffect: what the injected noise cost, measured; own: the machine's own noise in the quiet runs; off: median against median;\n"
        "yes: within the measured runs' 95 % interval or 1 % of their median\n";
    text += "\n" + log_head();
    Found all;
    for (const CaseResult& one : validated.cases) {
        text += log_row(name_of(one), one.found);
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
