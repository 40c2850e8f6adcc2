// SPDX-License-Identifier: BSD-3-Clause
#include "call_sites_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "replay/base/table.hpp"

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

std::string call_sites_text(const std::vector<CallSiteResult>& sites, int64_t ranks, bool everything) {
    if (sites.empty() || ranks <= 0) return "";
    const auto ms = [ranks](int64_t ns) { return fmt::format("{:.3f}", static_cast<double>(ns) / static_cast<double>(ranks) / 1e6); };
    Table table({"call", "called from", "calls", "ms a rank", "delay, ms a rank"}, {0, 1});
    const size_t shown = everything ? sites.size() : std::min(sites.size(), most_rows);
    for (size_t i = 0; i < shown; ++i) {
        const CallSiteResult& one = sites[i];
        table.add({one.operation, called_from("", one.site.text()), std::to_string(one.sums.calls), ms(one.sums.ns), ms(one.sums.delay)});
    }
    std::string out = "\nMPI calls by call site (delay: what noise added in them; negative: waiting took it up)\n" + table.text();
    if (shown < sites.size()) out += fmt::format("  and {} more: --all\n", sites.size() - shown);
    return out;
}

}  // namespace polter::replay
