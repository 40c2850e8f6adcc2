// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzers/samples/json.hpp"
#include "replay/base/layout.hpp"
#include "replay/base/printable.hpp"
#include "replay/base/table.hpp"
#include "variability.hpp"

namespace polter::variability {

namespace {

using nlohmann::json;

constexpr size_t most_points = 1000;  // of a plot

json interval_json(const std::optional<samples::Interval>& interval) {
    return interval ? json{interval->low, interval->high} : json();
}

json projected_json(const Projected& projected, uint64_t count) {
    json out = samples::to_json(
        {projected.value, "ns", projected.interval, projected.interval ? std::optional(samples::usual_level) : std::nullopt, count});
    out["needed_intervals"] = projected.needed;
    out["basis"] = projected.interval.has_value();
    return out;
}

json fit_json(const Kind& kind, size_t i) {
    const Fit& fit = kind.fits[i];
    const Parametric& parametric = kind.projections.front().parametric[i];
    json out{{"method", parametric.method == Method::pwm ? "pwm" : "mom"},
             {"accepted", fit.accepted},
             {"why_not", fit.accepted ? json() : json(fit.why)},
             {"type", kind.types[i]},
             {"location_ns", nullptr},
             {"scale_ns", nullptr},
             {"shape", nullptr},
             {"shape_interval", interval_json(parametric.shape_interval)},
             {"quantiles", json::array()}};
    if (!fit.accepted) return out;
    out["location_ns"] = fit.gev.location;
    out["scale_ns"] = fit.gev.scale;
    out["shape"] = fit.gev.shape;
    std::vector<double> sorted = kind.intervals.work;
    std::sort(sorted.begin(), sorted.end());
    const size_t each = (sorted.size() + most_points - 1) / most_points;
    for (size_t j = 0; j < sorted.size(); j += each) {
        const double p =
            (static_cast<double>(j) + 0.65) / (static_cast<double>(sorted.size()) + 0.3);  // Hosking's plotting position, near median ranks
        out["quantiles"].push_back({fit.gev.quantile(p), sorted[j]});
    }
    return out;
}

json projection_json(const Projection& projection, uint64_t count) {
    json out{{"ranks", projection.ranks},
             {"typical", projected_json(projection.typical, count)},
             {"typical_without_os_noise", projection.typical_without ? projected_json(*projection.typical_without, count) : json()},
             {"next", projected_json(projection.next, count)},
             {"mean", projection.mean ? samples::to_json({*projection.mean, "ns", {}, {}, count}) : json()},
             {"as_in_the_paper", json::array()}};
    for (const Parametric& one : projection.parametric)
        out["as_in_the_paper"].push_back({{"method", one.method == Method::pwm ? "pwm" : "mom"},
                                          {"typical_ns", one.of_sample.accepted ? json(one.value) : json()},
                                          {"interval", interval_json(one.interval)},
                                          {"resamples", one.resamples},
                                          {"rejected", one.rejected}});
    out["as_in_the_paper"].push_back({{"method", "resampled maxima"},
                                      {"typical_ns", nullptr},
                                      {"interval", {projection.resampled.low, projection.resampled.high}},
                                      {"resamples", nullptr},
                                      {"rejected", 0}});
    return out;
}

// The lengths over time, as many as a plot shows: the longest of each stretch.
json timeline_json(const Intervals& intervals) {
    const size_t each = (intervals.work.size() + most_points - 1) / most_points;
    json list = json::array();
    for (size_t i = 0; i < intervals.work.size(); i += each) {
        const auto begin = intervals.work.begin() + static_cast<std::ptrdiff_t>(i);
        const auto end = intervals.work.begin() + static_cast<std::ptrdiff_t>(std::min(i + each, intervals.work.size()));
        list.push_back({i, *std::max_element(begin, end)});
    }
    return list;
}

json kind_json(const Kind& kind) {
    const uint64_t count = kind.intervals.work.size();
    json out{{"what", kind.intervals.what},
             {"intervals", count},
             {"independent_intervals", kind.independent},
             {"length",
              {{"mean", samples::to_json({kind.mean, "ns", {}, {}, count})},
               {"deviation", samples::to_json({kind.deviation, "ns", {}, {}, count})}}},
             {"parts", json::array()},
             {"fits", json::array()},
             {"fits_agree", kind.agree},
             {"projections", json::array()},
             {"timeline", timeline_json(kind.intervals)},
             {"warnings", kind.warnings}};
    for (const Part& part : kind.parts)
        out["parts"].push_back({{"part", part.name}, {"mean_ns", part.mean}, {"of_variance", part.of_variance}});
    for (size_t i = 0; i < kind.fits.size(); ++i) out["fits"].push_back(fit_json(kind, i));
    for (const Projection& projection : kind.projections) out["projections"].push_back(projection_json(projection, count));
    return out;
}

std::string time(double ns) {
    return replay::short_time(std::llround(ns));
}

std::string range(const std::optional<samples::Interval>& interval) {
    return interval ? time(interval->low) + " to " + time(interval->high) : "no basis";
}

// Why a column says "no basis".
std::string needed(const Kind& kind) {
    for (const Projection& one : kind.projections)
        for (const auto& [name, projected] : {std::pair{"typical interval", one.typical}, std::pair{"next interval", one.next}})
            if (!projected.interval)
                return fmt::format("No basis: with {} ranks, the {} needs {:.0f} independent intervals, and there are {:.0f}.", one.ranks,
                                   name, projected.needed, kind.independent);
    return "";
}

std::string fit_text(const Kind& kind) {
    std::string out = "Extreme value fits: ";
    for (size_t i = 0; i < kind.fits.size(); ++i) {
        out += (i ? "; " : "") + name_of(i == 0 ? Method::pwm : Method::mom) + " ";
        out += kind.fits[i].accepted
                   ? fmt::format("{} (shape {:.2f})", kind.types[i] == "none" ? "no type" : kind.types[i], kind.fits[i].gev.shape)
                   : "rejected: " + kind.fits[i].why;
    }
    return out + (kind.agree ? "." : ". They do not agree on a type: do not trust the columns PWM and MOM.");
}

void add_kind_text(std::string& out, const Kind& kind, const replay::TextOptions& options) {
    out += fmt::format("{}: {} intervals, {} long in the mean, standard deviation {}\n", kind.intervals.what, kind.intervals.work.size(),
                       time(kind.mean), time(kind.deviation));
    replay::Table parts({"part", "mean", "of the variance"});
    for (const Part& part : kind.parts) parts.add({part.name, time(part.mean), fmt::format("{} %", std::lround(100 * part.of_variance))});
    out += parts.text(options.columns) + "\n";
    const bool without = kind.projections.front().typical_without.has_value();
    std::vector<std::string> header = {"ranks", "typical", "95 % interval", "next interval within", "mean"};
    if (without) header.emplace_back("typical without OS noise");
    if (options.all) header.insert(header.end(), {"PWM", "MOM"});
    replay::Table table(header);
    for (const Projection& one : kind.projections) {
        std::vector<std::string> row = {fmt::format("{}", one.ranks), time(one.typical.value), range(one.typical.interval),
                                        range(one.next.interval), one.mean ? time(*one.mean) : "?"};
        if (without) row.push_back(time(one.typical_without->value));
        if (options.all)
            for (const Parametric& parametric : one.parametric)
                row.push_back(parametric.of_sample.accepted ? fmt::format("{} ({})", time(parametric.value), range(parametric.interval))
                                                            : "rejected");
        table.add(std::move(row));
    }
    out += table.text(options.columns);
    if (const std::string text = needed(kind); !text.empty()) out += replay::fold(text, 2, options.columns) + "\n";
    out += replay::fold(fit_text(kind), 2, options.columns) + "\n";
    for (const std::string& warning : kind.warnings) out += "\n" + replay::fold("Warning: " + warning, 2, options.columns) + "\n";
}

}  // namespace

json to_json(const Result& result) {
    json out = samples::result_of("polter.variability/1", result.warnings, result.measured.provenance);
    for (const std::string& warning : result.measured.warnings) out["warnings"].push_back(warning);
    out["input"] = result.measured.input;
    out["input_kind"] = result.measured.kind;
    out["ranks"] = result.measured.ranks;
    out["seed"] = result.seed;
    out["os_noise_unknown"] = result.measured.noise_unknown.empty() ? json() : json(result.measured.noise_unknown);
    out["total_ns"] = result.measured.total_ns;
    out["left_out_ns"] = result.measured.left_out_ns;
    out["kinds"] = json::array();
    for (const Kind& kind : result.kinds) out["kinds"].push_back(kind_json(kind));
    out["check"] = nullptr;
    if (result.check)
        out["check"] = {{"input", result.check->input},
                        {"ranks", result.check->ranks},
                        {"intervals", result.check->intervals},
                        {"typical_ns", result.check->typical},
                        {"typical_inside", result.check->typical_inside ? json(*result.check->typical_inside) : json()},
                        {"share_inside", result.check->inside ? json(*result.check->inside) : json()}};
    return out;
}

std::string to_text(const Result& result, const replay::TextOptions& options) {
    std::string out = fmt::format("{}: {} ranks; lengths are of the work until the last rank has arrived\n\n",
                                  replay::printable(result.measured.input), result.measured.ranks);
    const size_t shown = options.all ? result.kinds.size() : std::min<size_t>(3, result.kinds.size());
    for (size_t i = 0; i < shown; ++i) {
        if (i > 0) out += "\n";
        add_kind_text(out, result.kinds[i], options);
    }
    if (shown < result.kinds.size()) out += fmt::format("\n{} more kinds: --all\n", result.kinds.size() - shown);
    if (result.check) {
        const Check& check = *result.check;
        std::string text = fmt::format("Check against {} ({} ranks, {} intervals): typical {}", replay::printable(check.input), check.ranks,
                                       check.intervals, time(check.typical));
        text += !check.typical_inside   ? ", no basis for its interval"
                : *check.typical_inside ? ", inside the 95 % interval"
                                        : ", OUTSIDE the 95 % interval";
        text += check.inside ? fmt::format("; {:.0f} % of the intervals lie within the range of the next one", 100 * *check.inside)
                             : "; no basis for the range of the next one";
        out += "\n" + replay::fold(text, 2, options.columns) + "\n";
    }
    if (!result.measured.noise_unknown.empty())
        out += "\n" + replay::fold("OS noise is not told apart: " + replay::printable(result.measured.noise_unknown), 2, options.columns) +
               "\n";
    for (const auto* list : {&result.warnings, &result.measured.warnings})
        for (const std::string& warning : *list)
            out += "\n" + replay::fold("Warning: " + replay::printable(warning), 2, options.columns) + "\n";
    return out;
}

}  // namespace polter::variability
