// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzers/samples/json.hpp"
#include "prediction.hpp"
#include "replay/base/layout.hpp"
#include "replay/base/printable.hpp"
#include "replay/base/table.hpp"

namespace polter::prediction {

namespace {

using nlohmann::json;

std::string time(double ns) {
    return replay::short_time(std::llround(ns));
}

std::string percent(double part, int64_t whole) {
    return replay::short_percent(std::llround(part), whole);
}

json optional(const std::optional<double>& value) {
    return value ? json(std::llround(*value)) : json();
}

samples::Quantity quantity(const Prediction& prediction, double added) {
    samples::Quantity quantity{prediction.noise_ns + added, "ns", {}, {}, prediction.draws.size()};
    if (!prediction.interval) return quantity;
    quantity.interval = samples::Interval{prediction.interval->low + added, prediction.interval->high + added};
    quantity.level = samples::usual_level;
    return quantity;
}

std::optional<double> amplification(const Prediction& prediction) {
    if (prediction.local_ns <= 0) return std::nullopt;
    return prediction.noise_ns / prediction.local_ns;
}

json grid_json(const Grid& grid) {
    json sizes = json::array();
    for (size_t d = 0; d < grid.dimensions; ++d) sizes.push_back(grid.size[d]);
    return sizes;
}

json pattern_json(const Pattern& pattern) {
    if (!pattern.irregular.empty()) return {{"name", nullptr}, {"irregular", pattern.irregular}};
    json periodic = json::array();
    for (size_t d = 0; d < pattern.grid.dimensions; ++d) periodic.push_back(static_cast<bool>(pattern.grid.periodic[d]));
    json offsets = json::array();
    for (const Point& way : pattern.offsets) {
        json offset = json::array();
        for (size_t d = 0; d < pattern.grid.dimensions; ++d) offset.push_back(way[d]);
        offsets.push_back(offset);
    }
    return {{"name", pattern.name}, {"irregular", nullptr}, {"grid", grid_json(pattern.grid)}, {"periodic", periodic}, {"offsets", offsets}};
}

json prediction_json(const Result& result, const Prediction& prediction) {
    const auto quiet = static_cast<double>(prediction.quiet_ns);
    json methods = json::array();
    methods.push_back({{"name", "copies"}, {"accumulated_noise_ns", std::llround(prediction.noise_ns)}, {"why_not", nullptr}});
    for (const Method& method : prediction.others)
        methods.push_back({{"name", method.name},
                           {"accumulated_noise_ns", optional(method.ns)},
                           {"why_not", method.ns ? json() : json(method.why)}});
    json draws = json::array();
    for (const double ns : prediction.draws) draws.push_back(std::llround(ns));
    const std::optional<double> amplified = amplification(prediction);
    return {{"ranks", prediction.ranks},
            {"grid", grid_json(prediction.grid)},
            {"basis", prediction.basis()},
            {"no_basis_because", prediction.reasons},
            {"verdict", verdict_of(result, prediction)},
            {"run_time", samples::to_json(quantity(prediction, quiet))},
            {"run_time_without_noise_ns", prediction.quiet_ns},
            {"accumulated_noise", samples::to_json(quantity(prediction, 0))},
            {"local_noise_ns", {{"mean", std::llround(prediction.local_ns)}}},
            {"amplification", amplified ? json(*amplified) : json()},
            {"methods", methods},
            {"draws_ns", draws}};
}

}  // namespace

std::string verdict_of(const Result& result, const Prediction& prediction) {
    const std::string ranks = fmt::format("{} ranks", prediction.ranks);
    if (!prediction.basis()) return fmt::format("No basis for {}: {}.", ranks, prediction.reasons.front());
    const int64_t run = prediction.quiet_ns + std::llround(prediction.noise_ns);
    const std::string part = percent(prediction.noise_ns, run);
    if (!prediction.interval)
        return fmt::format("With the recorded noise on each copy, noise would cost {} of {} on {}.", time(prediction.noise_ns),
                           replay::short_time(run), ranks);
    return fmt::format("On {}, each with as much work as now, noise would cost {} of {} ({}; between {} and {}); on the measured {} it cost {}.",
                       ranks, time(prediction.noise_ns), replay::short_time(run), part, time(prediction.interval->low),
                       time(prediction.interval->high), result.measured.ranks,
                       replay::short_percent(result.measured.accumulated_noise_ns, result.measured.measured_ns));
}

json to_json(const Result& result) {
    json out = samples::result_of("polter.predict/1", result.warnings, result.measured.provenance);
    out["trace"] = result.measured.trace;
    out["scaling"] = "weak";
    out["measured"] = {{"ranks", result.measured.ranks},
                       {"run_time_ns", result.measured.measured_ns},
                       {"run_time_without_noise_ns", result.measured.approximated_ns},
                       {"accumulated_noise_ns", result.measured.accumulated_noise_ns},
                       {"local_noise_ns", {{"mean", std::llround(result.measured.removed_local.mean)}, {"max", result.measured.removed_local.max}}},
                       {"amplification", result.measured.amplification ? json(*result.measured.amplification) : json()},
                       {"conditional", result.measured.conditional}};
    out["pattern"] = pattern_json(result.pattern);
    out["no_basis_because"] = result.reasons;
    out["noise"] = {{"resampled", result.resampled}, {"draws", result.draws},   {"seed", result.seed},        {"hosts", result.hosts},
                    {"blocks", result.blocks},       {"block_ns", result.block_ns}, {"events", result.noise_events},
                    {"hosts_differ", result.hosts_differ},
                    {"tail_index", result.tail_index ? json(*result.tail_index) : json()}};
    out["predictions"] = json::array();
    for (const Prediction& prediction : result.predictions) out["predictions"].push_back(prediction_json(result, prediction));
    return out;
}

std::string to_text(const Result& result, const replay::TextOptions& options) {
    const auto paragraph = [&](const std::string& text) { return replay::fold(replay::printable(text), 2, options.columns) + "\n"; };
    std::string out;
    if (!result.reasons.empty()) {
        out += paragraph("No basis: what noise would cost on more ranks does not follow from " + result.measured.trace + ".");
        for (const std::string& why : result.reasons) out += paragraph("- " + why);
        return out;
    }
    for (const Prediction& prediction : result.predictions) out += paragraph(verdict_of(result, prediction));
    out += "\n";
    out += paragraph(fmt::format("Pattern: {}. Weak scaling: each rank keeps its work.", result.pattern.name));
    replay::Table table({"ranks", "grid", "without noise", "noise", "", "between", "and", "amplification"}, {1}, {}, {1, 7});
    table.add({fmt::format("{}", result.measured.ranks), "measured", replay::short_time(result.measured.approximated_ns),
               replay::short_time(result.measured.accumulated_noise_ns),
               replay::short_percent(result.measured.accumulated_noise_ns, result.measured.measured_ns), "", "",
               result.measured.amplification ? replay::short_factor(*result.measured.amplification) : "-"});
    for (const Prediction& prediction : result.predictions) {
        const int64_t run = prediction.quiet_ns + std::llround(prediction.noise_ns);
        const std::optional<double> amplified = amplification(prediction);
        table.add({fmt::format("{}", prediction.ranks), shape_of(prediction.grid), replay::short_time(prediction.quiet_ns),
                   time(prediction.noise_ns), percent(prediction.noise_ns, run), prediction.interval ? time(prediction.interval->low) : "-",
                   prediction.interval ? time(prediction.interval->high) : "-", amplified ? replay::short_factor(*amplified) : "-"});
    }
    out += table.text(options.columns);
    if (result.resampled) {
        out += "\n";
        replay::Table methods({"noise by", "copies", "EMMA", "Tsafrir's rule"}, {0});
        for (const Prediction& prediction : result.predictions) {
            std::vector<std::string> row{fmt::format("{} ranks", prediction.ranks), time(prediction.noise_ns)};
            for (const Method& method : prediction.others) row.push_back(method.ns ? time(*method.ns) : "-");
            row.resize(4, "-");
            methods.add(row);
        }
        out += methods.text(options.columns);
        for (const Prediction& prediction : result.predictions) {
            for (const Method& method : prediction.others)
                if (!method.ns) out += paragraph(fmt::format("  {} does not apply: {}.", method.name, method.why));
            break;
        }
        out += "\n";
        out += paragraph(fmt::format("{} draws of noise from {} blocks of {} on {}.", result.draws, result.blocks,
                                     replay::short_time(result.block_ns),
                                     result.hosts == 1 ? "1 host" : fmt::format("{} {}hosts", result.hosts, result.hosts_differ ? "different " : "")));
    }
    for (const std::string& warning : result.warnings) out += "\n" + paragraph("Warning: " + warning);
    return out;
}

}  // namespace polter::prediction
