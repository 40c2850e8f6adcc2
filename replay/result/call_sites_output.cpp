// SPDX-License-Identifier: BSD-3-Clause
#include "call_sites_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "replay/base/layout.hpp"
#include "replay/base/table.hpp"
#include "replay/trace/call_sites.hpp"

namespace polter::replay {

namespace {

constexpr size_t most_rows = 10;

}  // namespace

nlohmann::json call_sites_json(const std::vector<CallSiteResult>& sites) {
    nlohmann::json list = nlohmann::json::array();
    for (const CallSiteResult& one : sites)
        list.push_back({{"operation", one.operation},
                        {"call_site", one.site.text()},
                        {"function", one.site.function},
                        {"file", one.site.file},
                        {"line", one.site.line},
                        {"calls", one.sums.calls},
                        {"measured_ns", one.sums.ns},
                        {"delay_ns", one.sums.delay}});
    return list;
}

std::string call_sites_text(const Result& result, const TextOptions& options) {
    const std::vector<CallSiteResult>& sites = result.call_sites;
    if (sites.empty() || result.ranks <= 0) return "";
    const bool measured = not_measured(result).empty();
    const auto mean = [&](int64_t ns) { return short_time(ns / result.ranks); };
    Table table(measured ? std::vector<std::string>{"MPI call", "called from", "calls", "time / rank", "delay / rank"}
                         : std::vector<std::string>{"MPI call", "called from", "calls", "time / rank"},
                {0, 1}, {0, 1}, {2});
    const size_t shown = options.all ? sites.size() : std::min(sites.size(), most_rows);
    for (size_t i = 0; i < shown; ++i) {
        const CallSiteResult& one = sites[i];
        std::vector<std::string> row = {one.operation, called_from("", one.site.text()), std::to_string(one.sums.calls), mean(one.sums.ns)};
        if (measured) row.push_back(mean(one.sums.delay));
        table.add(row);
    }
    const char* title =
        measured ? "MPI calls by call site (delay: what noise added; negative: a wait became shorter)" : "MPI calls by call site";
    std::string out = "\n" + fold(title, 2, options.columns) + "\n" + table.text(options.columns);
    if (shown < sites.size()) out += fmt::format("  and {} more: --all\n", sites.size() - shown);
    return out;
}

}  // namespace polter::replay
