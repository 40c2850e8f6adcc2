// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "compare.hpp"
#include "replay/base/layout.hpp"
#include "replay/base/printable.hpp"
#include "replay/base/table.hpp"

namespace polter::compare {

namespace {

using nlohmann::json;

json row_json(const Row& row, size_t runs_a, size_t runs_b) {
    const Estimate& e = row.estimate;
    return {
        {"name", row.name},
        {"a", e.a_ns},
        {"b", e.b_ns},
        {"difference", {{"value", e.difference_ns}, {"unit", "ns"}, {"interval", {e.low_ns, e.high_ns}}, {"samples", {runs_a, runs_b}}}},
        {"more_than_noise", e.more_than_noise()}};
}

std::string signed_time(int64_t ns) {
    return (ns > 0 ? "+" : "") + replay::short_time(ns);
}

std::string table_text(const std::string& title, const std::vector<const Row*>& rows, const std::string& a, const std::string& b,
                       const replay::TextOptions& options) {
    replay::Table table({title, a, b, "difference", "between", ""}, {0, 5}, {0}, {});
    for (const Row* row : rows) {
        const Estimate& e = row->estimate;
        table.add({row->name, replay::short_time(e.a_ns), replay::short_time(e.b_ns), signed_time(e.difference_ns),
                   signed_time(e.low_ns) + " and " + signed_time(e.high_ns), e.more_than_noise() ? "" : "?"});
    }
    return table.text(options.columns);
}

}  // namespace

json to_json(const Compared& compared) {
    json sides = json::array(), comparisons = json::array();
    for (const Side& side : compared.sides)
        sides.push_back({{"name", side.name},
                         {"traces", side.traces},
                         {"program", side.program},
                         {"hosts", side.hosts},
                         {"measured_by", side.measured_by},
                         {"ranks", side.ranks},
                         {"conditional", side.conditional},
                         {"provenance", side.provenance}});
    for (const Comparison& one : compared.comparisons) {
        const size_t a = compared.sides.front().traces.size(), b = compared.sides[one.side].traces.size();
        const auto rows = [&](const std::vector<Row>& list) {
            json out = json::array();
            for (const Row& row : list) out.push_back(row_json(row, a, b));
            return out;
        };
        const auto optional = [&](const Row& row) { return one.noise_known ? row_json(row, a, b) : json(); };
        comparisons.push_back({{"a", compared.sides.front().name},
                               {"b", compared.sides[one.side].name},
                               {"answer", one.answer},
                               {"chance_ns", {{"run_time", one.run_chance_ns}, {"noise", one.noise_chance_ns}}},
                               {"run_time", row_json(one.run_time, a, b)},
                               {"noise", optional(one.noise)},
                               {"without_noise", optional(one.without_noise)},
                               {"sources", rows(one.sources)},
                               {"culprits", rows(one.culprits)},
                               {"ranks", rows(one.ranks)},
                               {"operations", rows(one.operations)},
                               {"warnings", one.warnings}});
    }
    return {{"schema", "polter.compare/1"},
            {"sides", sides},
            {"comparisons", comparisons},
            {"seed", compared.seed},
            {"resamples", compared.resamples}};
}

std::string to_text(const Compared& compared, const replay::TextOptions& options) {
    using replay::fold, replay::printable;
    std::string out;
    for (const Comparison& one : compared.comparisons) out += fold(printable(one.answer), 2, options.columns) + "\n";
    out += "\n";
    for (const Side& side : compared.sides)
        out += fold(printable(fmt::format("{}  {}, {} ranks, {}: {}", side.name, side.program.empty() ? "unknown program" : side.program,
                                          side.ranks, side.traces.size() == 1 ? "1 run" : fmt::format("{} runs", side.traces.size()),
                                          fmt::join(side.traces, ", "))),
                    3, options.columns) +
               "\n";
    bool open = false;
    for (const Comparison& one : compared.comparisons) {
        const std::string& a = compared.sides.front().name;
        const std::string& b = compared.sides[one.side].name;
        std::vector<const Row*> whole{&one.run_time};
        if (one.noise_known) whole.insert(whole.end(), {&one.noise, &one.without_noise});
        out += "\n" + table_text("", whole, a, b, options);
        for (const auto& [title, rows] : {std::pair{"cause", &one.sources},
                                          {"process or device", &one.culprits},
                                          {"rank", &one.ranks},
                                          {"delay paid in", &one.operations}}) {
            constexpr size_t most = 8;
            std::vector<const Row*> shown;
            size_t left_out = 0;
            for (const Row& row : *rows) {
                const bool small =
                    std::abs(row.estimate.difference_ns) * 1000 < std::max(one.run_time.estimate.a_ns, one.run_time.estimate.b_ns);
                if (!options.all && (small || shown.size() == most))
                    ++left_out;
                else
                    shown.push_back(&row);
            }
            if (!shown.empty()) out += "\n" + table_text(title, shown, a, b, options);
            if (!shown.empty() && left_out > 0) out += fmt::format("  {} more: --all\n", left_out);
            for (const Row* row : shown) open = open || !row->estimate.more_than_noise();
        }
        if (open) out += "\n" + fold("?: within its uncertainty; A and B may not differ in this.", 2, options.columns) + "\n";
        if (!one.warnings.empty()) out += "\nWarnings\n";
        for (const std::string& warning : one.warnings) out += "  " + fold(warning, 4, options.columns) + "\n";
    }
    return out;
}

}  // namespace polter::compare
